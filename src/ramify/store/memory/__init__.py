"""The reference store, `memory:`. Start with `place.py` (the tables), then `claims.py` and `commits.py`."""

from ramify.store.memory.place import Place as MemoryPlace
from ramify.store.memory.store import MemoryStore

__all__ = ["MemoryPlace", "MemoryStore"]
