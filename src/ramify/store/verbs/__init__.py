"""The verbs of durable stores, each written once.

A verb is a function of values: it asks (`store/tables.py`), decides on what was loaded, and gives back what changes.
No SQL, no file, no branch for a backend. In tests it runs without any store.
"""
