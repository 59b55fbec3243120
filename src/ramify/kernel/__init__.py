"""The kernel: claims, leases, attempts, commits. Read `loop.py` first."""
