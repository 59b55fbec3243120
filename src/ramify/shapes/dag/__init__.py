"""DAGs: runs of calls that wait for each other, defined before they start.

`dag.py` is what users build, `node.py` what they hold of it, `adjacency.py` who waits for whom, `start.py` how it
becomes a run, and `own.py` the tasks of ours that such runs have beside those of users.
"""
