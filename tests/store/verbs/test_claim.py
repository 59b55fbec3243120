"""Claims on rows: nothing is taken that may not be, nothing is lost, and nothing is left that could be taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from ramify.model.claim import Rooms, Want
from ramify.model.death import Deaths
from ramify.model.segment import SegmentState
from ramify.store.changes import Changes
from ramify.store.rows import SegmentRow
from ramify.store.tables import Left, Loaded, Tables
from ramify.store.verbs.claim import Claiming, Taken, fits
from tests.store.verbs.values import KIND, NOW, PROCESS, a_row

APART = Deaths(ran=1, apart=True).packed


@dataclass
class Listed:
    """Rows of a list as candidates, and how many tasks of each bounded run may still be claimed."""

    rows: list[SegmentRow]
    want: Want
    rooms: Mapping[int, int] = field(default_factory=dict)
    held: int = 0
    apart: int = 0

    @property
    def is_bounded(self) -> bool:
        return bool(self.rooms)

    def room(self, run: int) -> int | None:
        return self.rooms.get(run)

    def _able(self, rooms: Rooms, *, apart: bool) -> Iterator[SegmentRow]:
        able = (copy(row) for row in self.rows if row.is_apart is apart and (row.due is None or row.due <= NOW))
        return iter(sorted((row for row in able if fits(row, self.want, rooms)), key=lambda row: row.place))

    def suspects(self, rooms: Rooms) -> Iterator[SegmentRow]:
        return self._able(rooms, apart=True)

    def ready(self, rooms: Rooms) -> Iterator[SegmentRow]:
        return self._able(rooms, apart=False)

    def next_run(self, after: int, rooms: Rooms) -> int | None:
        return min((row.run for row in self.rows if row.run > after and not row.is_apart), default=None)

    def best_of(self, run: int, rooms: Rooms) -> SegmentRow | None:
        return next((row for row in self.ready(rooms) if row.run == run), None)

    def left(self) -> Left:
        return Left(sum(row.count for row in self.ready(Rooms(self.room))))


def wanting(limit: int) -> Want:
    return Want(frozenset([KIND]), limit, busy_lanes=frozenset(["busy"]))


@st.composite
def listed(draw: st.DrawFn) -> Listed:
    rows, first = [], 100
    for number in range(1, draw(st.integers(1, 9))):
        last = first + draw(st.integers(0, 5))
        left = draw(st.one_of(st.none(), st.integers(1, (1 << (last - first + 1)) - 1)))
        row = a_row(number, first, last, draw(st.integers(1, 3)), left=left, rank=draw(st.integers(0, 3)))
        row.due = draw(st.sampled_from([None, None, NOW, NOW + 1]))
        row.lane = draw(st.sampled_from([None, None, "busy"]))
        row.packed_deaths = draw(st.sampled_from([0, 0, 0, APART]))
        rows.append(row)
        first = last + 1
    rooms = draw(st.dictionaries(st.integers(1, 3), st.integers(0, 4)))
    held = draw(st.integers(0, 1))
    return Listed(rows, wanting(draw(st.integers(0, 12))), rooms, held, draw(st.integers(0, held)))


def claiming(found: Listed, changes: Changes, *fresh: SegmentRow, let_go: Counter[int] | None = None) -> Claiming:
    # Without limits a claim asks the tables for nothing but these candidates.
    return Claiming(cast(Tables, None), Loaded(candidates=found), found.want, changes, fresh, let_go)


def taking(
    found: Listed, *fresh: SegmentRow, turn: int = 0, let_go: Counter[int] | None = None
) -> tuple[Taken, Changes]:
    changes = Changes(PROCESS, 1, NOW)
    return claiming(found, changes, *fresh, let_go=let_go).take(turn), changes


@given(found=listed(), turn=st.integers(0, 3))
def test_every_task_stays_set_in_exactly_one_row(found: Listed, turn: int) -> None:
    taken, changes = taking(found, turn=turn)
    after = {row.id: row for row in found.rows}
    after |= {row.id: row for row in (*changes.cut, *changes.claimed)}
    # The rest of a row that was cut first and then claimed whole is written by both.
    assert len(changes.cut) == len({row.id for row in changes.cut})
    tasks = [task for row in (*after.values(), *changes.segments) for task in row.tasks]
    assert sorted(tasks) == sorted(task for row in found.rows for task in row.tasks)
    assert {id(row) for row in (*changes.claimed, *changes.segments)} == {id(row) for row in taken.rows}
    assert all(row.state is SegmentState.CLAIMED and row.owner == PROCESS for row in taken.rows)
    assert len(set(taken.tokens)) == len(taken.rows)


@given(found=listed(), turn=st.integers(0, 3))
def test_as_much_is_taken_as_may_be_and_no_more(found: Listed, turn: int) -> None:
    taken, _ = taking(found, turn=turn)
    assert (claiming(found, Changes(PROCESS, 1, NOW)).find() is None) == bool(taken.rows)
    suspects = list(found.suspects(Rooms(found.room)))
    if found.apart or (suspects and not found.held):
        assert [row.is_apart for row in taken.rows] == [True] * (not found.apart and found.want.limit > 0)
        return
    assert taken.suspects == bool(suspects)
    able = Counter[int]()
    for row in found.ready(Rooms(found.room)):
        able[row.run] += row.count
    most = sum(min(many, found.rooms.get(run, many)) for run, many in able.items())
    assert sum(row.count for row in taken.rows) == min(most, found.want.limit)


def test_a_quarter_goes_to_the_run_whose_turn_it_is_and_the_rest_by_rank() -> None:
    found = Listed([a_row(1, 100, 199, 1), a_row(2, 200, 299, 2, rank=9)], wanting(8))
    taken, _ = taking(found, turn=1)
    assert [(row.run, row.count) for row in taken.rows] == [(2, 2), (1, 6)]
    assert taken.turn == 2
    alone, _ = taking(Listed(found.rows[:1], wanting(8)), turn=0)
    assert alone.turn == 1, "one that was alone had its turn"


def test_what_a_commit_made_ready_is_in_line_with_what_is_stored() -> None:
    found = Listed([a_row(1, 100, 100, rank=2), a_row(2, 200, 200, rank=4)], wanting(3))
    made = [a_row(0, first, first, rank=rank) for first, rank in ((300, 5), (301, 3), (302, 4), (303, 1))]
    taken, _ = taking(found, *made, a_row(0, 304, 304, due=NOW + 1), a_row(0, 305, 305, lane="busy"))
    assert [row.first for row in taken.rows] == [303, 100, 301]


def test_a_commit_may_take_what_it_gives_back() -> None:
    found = Listed([a_row(1, 100, 109)], wanting(8), rooms={1: 0})
    assert not taking(found)[0].rows
    assert [row.count for row in taking(found, let_go=Counter({1: 3}))[0].rows] == [3]
