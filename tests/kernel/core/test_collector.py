"""Thousands of small claims are held at once, and the garbage collector has little to visit for each."""

from __future__ import annotations

import gc

from ramify.kernel.outgoing.outbox import Finished, part_of
from ramify.model.claim import Claimed
from tests.kernel.claims import claim, core
from tests.store.verbs.values import a_row, a_run, a_span

MANY = 1_000


def test_a_claim_that_is_held_is_one_object_for_the_collector() -> None:
    made, claims = core(threads=1), [claim(1, first) for first in range(MANY)]
    gc.collect()
    before = len(gc.get_objects())
    made.claimed(Claimed(tuple(claims)), 0.0)
    # What a tuple of numbers is, it finds out when it first comes by.
    gc.collect()
    assert MANY <= len(gc.get_objects()) - before < MANY + 20


def test_a_part_without_children_brings_the_collector_nothing() -> None:
    finished = [Finished(claim(1, first), [first]) for first in range(1, MANY)]
    gc.collect()
    before = len(gc.get_objects())
    parts = [part_of(each, lambda many, above: 0, 0) for each in finished]
    gc.collect()
    assert len(gc.get_objects()) - before < 20
    assert len(parts) == len(finished)


def test_rows_and_runs_are_nothing_for_the_collector() -> None:
    assert not any(map(gc.is_tracked, (a_row(1, 5, 5), a_span(5, 5), a_run())))
