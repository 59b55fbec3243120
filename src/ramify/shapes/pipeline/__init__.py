"""Pipelines: steps that hand a value on, with branches, gates and sleeps. A shape like any other, made of DAGs.

`steps.py` is how they are written, `verbs.py` what was written, `tree.py` that as a tree, `growing.py` how the tree
becomes a DAG, `own.py` the tasks of ours in it.
"""
