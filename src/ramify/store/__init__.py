"""Floor 1: memory that survives. `contract.py` says what every store promises; `open.py` picks one by URL."""
