"""Runs: handles of runs, what is read of them, and what people decide about them."""
