"""The command line. `main.py` names the commands; each is one file in `commands/`, imported when it is asked for.

It needs no user code, except to run it: everything else is read from the store, or left there as a request.
"""
