"""Broken doubles of the reference store: each breaks one promise, and names the cases that must notice.

A conformance suite that has never failed proves nothing. Most of its cases are proven by mutants (`tools/mutants/`),
which plant a bug where a store decides. Doubles are for what is no decision: wrong reads (`doubles_reads.py`, of live
work `doubles_live.py`, of totals `doubles_totals.py`), and waits that a planted bug would draw out until a test is over
(`doubles_waiting.py`).

`caught_by` files a double with the cases that catch it; `test_doubles.py` runs exactly those. The doubles reach into
the reference store. They are as small as they can be, and they know nothing of other stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ramify.store.memory import MemoryStore

DOUBLES: dict[type[MemoryStore], tuple[str, ...]] = {}
Double = TypeVar("Double", bound=type[MemoryStore])


def caught_by(*cases: str) -> Callable[[Double], Double]:
    """File a double under the cases, as "verb: sentence", that must fail on it."""

    def file(double: Double) -> Double:
        DOUBLES[double] = cases
        return double

    return file
