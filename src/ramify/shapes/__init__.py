"""Shapes: rules for what work exists and what follows an outcome. Each is one module; none knows another.

What all of them share is in `plan.py` (what a shape is), `start.py` (how runs begin and are gone on with) and
`owner.py`; which shapes there are is in `table.py`.
"""
