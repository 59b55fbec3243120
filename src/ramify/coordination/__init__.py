"""Coordination: locks that exclude each other across threads, processes and machines, on the verbs of the store."""
