"""Programs that run while terminals are drawn (`tools/terminal.py`)."""
