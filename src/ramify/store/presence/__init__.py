"""Presence: who is alive on this machine, told by lock files that each process holds in a folder. It knows no table."""
