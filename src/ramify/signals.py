"""The signals that `engine.listen` hears of, for users: what each means is in `kernel/signals.py`."""

from ramify.kernel.signals import (
    Adapted,
    Attempts,
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
    Worked,
)
from ramify.kernel.tuning import BOUNDS

__all__ = [
    "BOUNDS",
    "Adapted",
    "Attempts",
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
    "Worked",
]
