"""To unlock: a person takes a lock from those who hold it, and the next in line get it.

Promises: it happens in one swap, with name and reason in the state, so that those who held the lock are told why they
lost it. Waiters stay in line.
"""

from __future__ import annotations

from contextlib import closing

from ramify.coordination.guest import Guest
from ramify.coordination.ledger import Ledger
from ramify.model.lock import Acquisition, LockState
from ramify.store.contract import Store


def unlock(store: Store, name: str, by: str, reason: str) -> tuple[Acquisition, ...]:
    """Take a lock from all who hold it; the holders that lost it."""
    lost: tuple[Acquisition, ...] = ()

    def freed(state: LockState, now: int) -> LockState:
        nonlocal lost
        lost = state.holders
        return state.freed(by, reason, now) if lost else state

    with closing(Guest(store)) as guest:
        Ledger(guest, lambda many, above=0, younger=0.0: store.reserve(many)).change(name, guest.enter(), freed)
    return lost
