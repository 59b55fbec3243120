"""Locks: who holds one and who waits for it, as the content of one value of the store. Pure.

The state of a lock is a value (`ramify.model.value`) in a space of its own, so each change is one swap: it happens only
if nobody changed the state meanwhile. An *acquisition* asks, waits in the queue, is granted under a *fence*, and
leaves. Whoever changes the state also grants: a release hands the lock to the first waiter in the same swap.

    asked      at the end of the queue, or granted at once if nobody is before it
    granted    among the holders, with the next fence
    left       gone, from the queue or from the holders: released, withdrawn, dead, expired or unlocked

Fences of one name rise with every grant. They are ids: a state without fences takes a range that the store gives to
nobody else, above all ids that it gave before. INVARIANT: a range of fences is reserved after the version that it
replaces was written. So a swap that comes late brings no old fences, and the value of a free lock may expire.

Does not know who is alive: the caller says whose sessions have ended.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec
from msgspec.structs import replace

from ramify.model.decoder import decoder
from ramify.model.policy import SECOND
from ramify.model.value import RESERVED

#: The space of values in which locks are kept. No program can name it.
LOCKS = f"{RESERVED}lock"
#: Most that may hold one lock at a time, and most that wait in its queue: the state is written with each change.
MOST_HOLDERS, MOST_WAITERS = 100, 100
#: Bytes of a state beyond which nobody is added to its queue: far below what a value may take, for grants add to it.
ROOM = 40_000
#: Ids taken for the fences of one name at a time: more than can hold and wait together.
FENCES = 1_024
#: How long the state of a free lock is kept, so that its next grant takes no new range: in microseconds.
FREE_FOR = 86_400 * SECOND
#: Longest name of a host or of a kind of task that is stored with a lock.
_LONGEST = 64


class Acquisition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One attempt to hold a lock, by a session: it waits `since` then, or has held since then under a `fence`.

    `most` may hold the lock beside it, itself included. A `ttl` is counted from the grant. `task` and `kind` say which
    task asked, if one did.
    """

    id: int
    process: int
    pid: int
    host: str
    since: int
    most: int = 1
    ttl: int | None = None
    task: int | None = None
    kind: str = ""
    fence: int = 0
    expires: int | None = None

    def cut(self) -> Acquisition:
        """Return the same with long names cut, so that many find room in one state."""
        return replace(self, host=self.host[:_LONGEST], kind=self.kind[:_LONGEST])

    def is_over(self, now: int) -> bool:
        """Return whether its time to live is up."""
        return self.expires is not None and self.expires <= now


class Unlocked(msgspec.Struct, frozen=True, gc=False):
    """The decision of a person that took a lock from its holders, whose fences were at most `fence`."""

    at: int
    fence: int
    by: str
    reason: str


class LockState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lock: the last fence that was given, the first id that is none of its fences, holders, and waiters in order."""

    fence: int = 0
    end: int = 0
    holders: tuple[Acquisition, ...] = ()
    waiters: tuple[Acquisition, ...] = ()
    unlocked: Unlocked | None = None

    # reading it

    @property
    def is_free(self) -> bool:
        """True if nobody holds it or waits for it."""
        return not self.holders and not self.waiters

    @property
    def processes(self) -> frozenset[int]:
        """The sessions of all who hold it or wait for it."""
        return frozenset(each.process for each in (*self.holders, *self.waiters))

    @property
    def ends_at(self) -> int | None:
        """When the first of its holders expires, by the store's clock."""
        return min((each.expires for each in self.holders if each.expires is not None), default=None)

    def holder(self, id: int) -> Acquisition | None:
        """Return an acquisition if it holds the lock."""
        return next((each for each in self.holders if each.id == id), None)

    def place(self, id: int) -> int | None:
        """Return how many wait before an acquisition; None if it does not wait."""
        return next((at for at, each in enumerate(self.waiters) if each.id == id), None)

    def is_next(self, id: int) -> bool:
        """Return whether an acquisition that waits is the next to be granted, and nothing keeps it from that."""
        return self.place(id) == 0 and _has_place(self.holders, self.waiters[0])

    def has_room(self) -> bool:
        """Return whether one more may wait in its queue."""
        return len(self.waiters) < MOST_WAITERS and len(encode(self)) <= ROOM

    def has_fences(self) -> bool:
        """Return whether there are fences for all who ask now, and one more."""
        return self.fence + len(self.waiters) + 1 < self.end

    def kept_until(self, now: int) -> int | None:
        """Return when its value may expire: never while somebody holds it or waits."""
        return now + FREE_FOR if self.is_free else None

    # changing it

    def numbered(self, first: int, count: int) -> LockState:
        """Take the next fences from a range of ids, above all that were reserved before."""
        return replace(self, fence=first - 1, end=first + count)

    def asked(self, new: Acquisition) -> LockState:
        """Add one to the end of the queue, unless it is there already or there is no room."""
        if self.holder(new.id) is not None or self.place(new.id) is not None:
            return self
        if not self.has_room():
            return self
        return replace(self, waiters=(*self.waiters, new))

    def left(self, id: int) -> LockState:
        """Take one out, whether it holds the lock or waits for it."""
        return self._of(
            tuple(each for each in self.holders if each.id != id), tuple(each for each in self.waiters if each.id != id)
        )

    def without(self, ended: Container[int], dead: Container[int], now: int) -> LockState:
        """Take out the holders that have expired or whose session has ended, and the waiters of dead processes.

        A holder whose process is only thought to be dead stays: it may hold the lock until its session has ended.
        """
        return self._of(
            tuple(each for each in self.holders if each.process not in ended and not each.is_over(now)),
            tuple(each for each in self.waiters if each.process not in dead),
        )

    def granted(self, now: int) -> LockState:
        """Grant the lock to those who wait, in their order, as long as the first of them may hold it."""
        fence, holders, waiters = self.fence, self.holders, self.waiters
        while waiters and _has_place(holders, waiters[0]) and fence + 1 < self.end:
            fence += 1
            first = waiters[0]
            expires = None if first.ttl is None else now + first.ttl
            holders, waiters = (*holders, replace(first, fence=fence, since=now, expires=expires)), waiters[1:]
        return replace(self, fence=fence, holders=holders, waiters=waiters)

    def freed(self, by: str, reason: str, now: int) -> LockState:
        """Take the lock from all its holders, because a person says so."""
        return replace(self, holders=(), unlocked=Unlocked(now, self.fence, by, reason))

    def _of(self, holders: tuple[Acquisition, ...], waiters: tuple[Acquisition, ...]) -> LockState:
        if len(holders) == len(self.holders) and len(waiters) == len(self.waiters):
            return self
        return replace(self, holders=holders, waiters=waiters)


def _has_place(holders: tuple[Acquisition, ...], next: Acquisition) -> bool:
    """Return whether one more may hold the lock, by what it and all of the holders allow."""
    return len(holders) < min(each.most for each in (next, *holders))


def encode(state: LockState) -> bytes:
    """The bytes of a state."""
    return msgspec.json.encode(state)


#: The state of stored bytes.
decode = decoder(LockState).decode
