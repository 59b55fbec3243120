"""The real session against a store that loses answers: a verb is sent again under its own number, and applied once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import TypeVar

import pytest

from ramify.errors import StoreUnavailable
from ramify.kernel.outgoing.sender import Sender
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Signals
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.process import Stamp
from ramify.model.run import NewRun
from ramify.model.task import NewTasks
from ramify.store.memory import MemoryStore
from ramify.testing import oracle

T = TypeVar("T")
WANT = Want(frozenset({"work"}), 2)


class NoPatience(threading.Event):
    """Nobody waits in real time here."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


class Lossy:
    """Loses the answers that its plan says, after the verb was carried out."""

    def __init__(self, plan: Iterator[bool]) -> None:
        self._plan = plan
        self.stamps: list[Stamp] = []

    def __call__(self, stamp: Stamp, verb: Callable[[Stamp], T]) -> T:
        self.stamps.append(stamp)
        answer = verb(stamp)
        if next(self._plan):
            raise StoreUnavailable("the answer was lost")
        return answer


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    run, first = made.reserve(1), made.reserve(6)
    made.start(NewRun(run), [NewTasks(first, "work", [b"[]"] * 6)])
    return made


def test_a_verb_whose_answer_was_lost_is_sent_again_with_the_same_stamp(store: MemoryStore) -> None:
    sender = Sender(store, Settings(), Signals(), NoPatience())
    lossy = Lossy(cycle((True, True, False)))
    sender.enter()
    for _ in range(3):
        claimed = sender.send(lambda stamp: lossy(stamp, lambda again: store.claim(again, WANT)))
        (claim,) = claimed.claims
        child = store.reserve(1)
        part = Part(claim.token, claim.tasks, children=[NewTasks(child, "leaf", [b"[]"], claim.tasks[0])])
        committed = sender.send(lambda stamp, part=part: lossy(stamp, lambda again: store.commit(again, [part])))  # type: ignore[misc]
        assert not committed.refused
    assert [stamp.n for stamp in lossy.stamps] == [n for n in range(1, 7) for _ in range(3)]
    (run,) = store.reads.runs().rows
    assert store.reads.counts(run.id)["leaf"][0] == 3
    assert oracle.check(store) == []


def test_ids_are_never_given_twice(store: MemoryStore) -> None:
    sessions = [Sender(store, Settings(), Signals(), NoPatience()) for _ in range(2)]
    taken: set[int] = set()
    for many in (1, 4_000, 200, 5_000, 1):
        for sender in sessions:
            first = sender.reserve(many)
            ids = set(range(first, first + many))
            assert not ids & taken
            taken |= ids
