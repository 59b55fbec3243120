"""The checker itself: what it must find, and what it must not claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.protocol.checker import Label, TooManyStates, explore, members

Edge = tuple[int, bool]  # to, is it a fault


@dataclass(frozen=True)
class Graph:
    """States are numbers, 0 is the start; `merged` maps a state to the one that stands for it."""

    edges: dict[int, list[Edge]]
    bad: frozenset[int] = frozenset()
    final: frozenset[int] = frozenset({9})
    merged: dict[int, int] = field(default_factory=dict)

    def start(self) -> int:
        return 0

    def moves(self, state: int) -> Iterator[tuple[Label, bool, int]]:
        for to, fault in self.edges.get(state, []):
            yield Label(f"to {to}"), fault, to

    def canonical(self, state: int) -> int:
        return self.merged.get(state, state)

    def wrong(self, state: int) -> str:
        return "X this state is bad" if state in self.bad else ""

    def ended(self, state: int) -> bool:
        return state in self.final


def test_a_graph_that_always_reaches_its_end_is_ok() -> None:
    verdict = explore(Graph({0: [(1, False)], 1: [(0, False), (9, False)]}))
    assert (verdict.kind, verdict.states, verdict.edges, verdict.trace) == ("ok", 3, 3, ())


def test_the_shortest_way_to_a_bad_state_is_told() -> None:
    long_way = {0: [(1, False), (4, False)], 1: [(2, False)], 2: [(3, False)], 4: [(3, True)], 3: [(9, False)]}
    verdict = explore(Graph(long_way, bad=frozenset({3})))
    assert (verdict.kind, verdict.breaks, verdict.trace) == ("safety", "X", ("to 4", "to 3"))


def test_a_bad_start_needs_no_step() -> None:
    verdict = explore(Graph({0: [(9, False)]}, bad=frozenset({0})))
    assert (verdict.kind, verdict.trace) == ("safety", ())


def test_a_state_that_cannot_end_is_told_with_the_way_to_it() -> None:
    verdict = explore(Graph({0: [(1, False), (9, False)], 1: [(2, False)], 2: [(1, False)]}))
    assert (verdict.kind, verdict.breaks, verdict.trace) == ("liveness", "L", ("to 1",))


def test_an_end_that_only_a_fault_can_reach_does_not_count() -> None:
    assert explore(Graph({0: [(9, True)]})).kind == "liveness"
    assert explore(Graph({0: [(9, False)]})).kind == "ok"


def test_a_fault_may_lead_anywhere_that_can_still_end() -> None:
    assert explore(Graph({0: [(9, False), (1, True)], 1: [(9, False)]})).kind == "ok"
    assert explore(Graph({0: [(9, False), (1, True)], 1: []})).kind == "liveness"


def test_a_model_beyond_the_limit_gets_no_verdict() -> None:
    with pytest.raises(TooManyStates, match="more than 5"):
        explore(Graph({n: [(n + 1, False)] for n in range(8)}), limit=5)


def test_states_that_stand_for_each_other_are_visited_once() -> None:
    edges = {0: [(1, False), (2, False)], 1: [(9, False)], 2: [(9, False)]}
    assert explore(Graph(edges)).states == 4
    assert explore(Graph(edges, merged={2: 1})).states == 3


def test_merging_states_with_different_futures_is_noticed_when_a_trace_is_told() -> None:
    edges = {0: [(2, False)], 1: [(3, False)], 2: [(9, False)]}
    with pytest.raises(AssertionError, match="different futures"):
        explore(Graph(edges, bad=frozenset({3}), merged={2: 1}))


def test_a_label_reads_as_a_sentence() -> None:
    assert str(Label("commits", 1, 0b101)) == "p1 commits [0, 2]"
    assert str(Label("advance ends the run")) == "advance ends the run"
    assert members(0b1010) == [1, 3]
