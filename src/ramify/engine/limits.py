"""How the limits of a program come into its store.

A process that works declares them when it begins. The program that was started last decides about numbers, and about
the kinds that it knows; kinds and queues of other programs stay covered, and numbers that a person has set hold until
they are reset. Done by many at once it is done once, and nothing is written when nothing changes.

CRASH: before its verb nothing is declared, after it everything -> the next process that works declares it in any case.

Does not count anything: claims keep to limits, in the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from random import random

import msgspec

from ramify.errors import ValueContended
from ramify.inspect.limits import limit_in_words, stored_limits
from ramify.kernel.tuning import LONGEST_TRY_PAUSE, TRY_PAUSE
from ramify.model.limit import LIMITS, Limit, Numbers, SetLimit, StoredLimit, declared, write_limit
from ramify.model.process import Stamp
from ramify.model.value import MOST_TRIES, Swap
from ramify.shapes.start import until_answered
from ramify.store.contract import Store

#: Sends a verb that carries a number, until it is answered.
Send = Callable[[Callable[[Stamp], bool]], bool]
#: Limits by name as a change leaves them: None for one that is gone.
Changed = Mapping[str, StoredLimit | None]


def change_limits(
    store: Store, send: Send, reserve: Callable[[int], int], change: Callable[[Mapping[str, StoredLimit]], Changed]
) -> Changed:
    """Change limits by what is stored, and anew if somebody else did meanwhile; the changes that were made."""
    for tries in range(MOST_TRIES + 1):
        if tries:
            time.sleep(random() * min(TRY_PAUSE * tries, LONGEST_TRY_PAUSE))
        found = until_answered(partial(stored_limits, store.reads))
        changed = change({name: limit for name, (limit, _) in found.items()})
        if not changed:
            return changed
        seen = {name: version for name, (_, version) in found.items()}
        version = reserve(len(changed))
        swaps = [
            Swap(LIMITS, name, seen.get(name, 0), version + at, None if limit is None else write_limit(limit))
            for at, (name, limit) in enumerate(changed.items())
        ]
        if send(partial(_swap, store, swaps)):
            return changed
    raise ValueContended(
        f"limits: others changed them {MOST_TRIES + 1} times in a row between a read and a change. Try again."
    )


def _swap(store: Store, swaps: Sequence[Swap], stamp: Stamp) -> bool:
    return store.swap(stamp, swaps)


def declare_limits(
    store: Store,
    send: Send,
    reserve: Callable[[int], int],
    limits: Sequence[Limit],
    lifted: Collection[str],
    knows: Collection[str],
    by: str,
    since: int,
) -> Iterator[str]:
    """Declare the limits of a program that was started `since`, and lift some; what happened, in words."""
    mine = {limit.name: limit for limit in limits}

    def change(stored: Mapping[str, StoredLimit]) -> Changed:
        changed = declared(stored, limits, knows, by, since)
        changed.update((name, None) for name in lifted if name in stored)
        for name, old in stored.items():
            if name in changed and old.at > since:
                # A program that was started later has declared it: that decides, and nothing of ours is left uncovered.
                del changed[name]
                if name in mine and (covered := _covering(old, mine[name])) != old:
                    changed[name] = covered
        return changed

    for name, limit in change_limits(store, send, reserve, change).items():
        yield f"limit {name!r} is removed" if limit is None else f"limit {name!r} is declared: {limit_in_words(limit)}"


def with_numbers(limit: StoredLimit, numbers: Numbers | None, by: str, reason: str, at: int) -> StoredLimit:
    """The same limit with the numbers that a person sets; with None those hold again that programs declare."""
    fixed = None if numbers is None else SetLimit(numbers, by, reason, at)
    return msgspec.structs.replace(limit, fixed=fixed)


def _covering(old: StoredLimit, mine: Limit) -> StoredLimit:
    """The same limit over the kinds and queues of another declaration as well."""
    kinds, queues = {*old.limit.kinds, *mine.kinds}, {*old.limit.queues, *mine.queues}
    limit = msgspec.structs.replace(old.limit, kinds=tuple(sorted(kinds)), queues=tuple(sorted(queues)))
    return msgspec.structs.replace(old, limit=limit)
