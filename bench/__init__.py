"""Benchmarks: figures measured on this machine, now, against a yardstick that runs between them.

`python -m bench store --json` prints one line a figure. Nothing here reaches into a store: the contract and
`open_store` are all it knows. No result is ever written down in the code.
"""
