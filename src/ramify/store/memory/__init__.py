"""The reference store, `memory:`. Start with `tables.py` (the tables), then `claims.py` and `commits.py`."""

from ramify.store.memory.store import MemoryStore
from ramify.store.memory.tables import MemoryTables as MemoryTables

__all__ = ["MemoryStore", "MemoryTables"]
