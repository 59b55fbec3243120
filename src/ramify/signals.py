"""The signals that `engine.listen` hears of, for users: what each means is in `kernel/signals.py`."""

from ramify.kernel.signals import (
    Adapted,
    Buried,
    Drained,
    Ended,
    Entered,
    Listener,
    Moved,
    NobodyKnows,
    Replaced,
    Saved,
    Signal,
    Stopping,
    StoreAway,
    StoreBack,
    Took,
)

__all__ = [
    "Adapted",
    "Buried",
    "Drained",
    "Ended",
    "Entered",
    "Listener",
    "Moved",
    "NobodyKnows",
    "Replaced",
    "Saved",
    "Signal",
    "Stopping",
    "StoreAway",
    "StoreBack",
    "Took",
]
