"""The public test kit. For store authors: `conformance` (the contract as cases), `oracle` and `clock`.

Nothing in here knows a backend, and nothing in here needs pytest.
"""
