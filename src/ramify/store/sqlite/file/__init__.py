"""The file under the SQLite store: its place, locks and write-ahead log, and transactions on it. It knows no table.

Start with `link.py`, the only way to the file. It promises that the file is where SQLite's own promises hold
(`location.py`) and stays the file that was opened (`file_watch.py`, `guard.py`), that a commit that returned is on the
disk, and that any other outcome is one of our errors (`trouble.py`). Beside the file lie locks that say which processes
live (`liveness.py`).

It does not decide what is stored, and repairs nothing: whoever opens a link brings what makes or checks the tables, and
what is damaged or lost is reported and left to a person.
"""
