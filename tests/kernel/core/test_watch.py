"""The watch: runs are asked together, a look is one question however many runs are open, and looks are paced."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ramify.kernel.core.steps import Look, Move
from ramify.kernel.core.watch import Watch
from ramify.kernel.settings import LaunchedRuns
from ramify.kernel.tuning import IDLE_LOOK_PAUSE, LONGEST_LOOK_PAUSE, LOOK_EVERY, LOOK_PAUSE, MOST_ASKED
from ramify.model.run import Advanced, RunState
from ramify.store.memory import MemoryStore
from tests.kernel.shop import Shop, wait_until

OPEN = RunState.OPEN


def watch(*runs: int) -> Watch:
    """One that was given these runs, or serves all; it has looked once, and nothing stirred since."""
    made = Watch(runs or None, awaits=False)
    made.look(0.0, idle=True)
    made.found((), 0.0)
    return made


def test_runs_that_are_no_longer_held_are_asked_together() -> None:
    made = watch()
    for run in (1, 2, 2, 3):
        made.took(run, run)
    for run in (1, 2, 3):
        made.dropped(run)
    assert made.next() == Move(((1, 1), (3, 3)))
    made.dropped(2)
    assert made.next() == Move(((2, 2),))
    assert made.next() is None


def test_no_more_runs_are_asked_in_one_verb_than_others_can_wait_for() -> None:
    made = watch()
    for run in range(MOST_ASKED + 1):
        made.took(run, 0)
        made.dropped(run)
    asked = [made.next(), made.next(), made.next()]
    assert [len(move.asked) for move in asked if move is not None] == [MOST_ASKED, 1]


def test_a_run_that_moved_is_not_asked_again_until_somebody_worked_on_it() -> None:
    made = watch()
    made.took(1, 0)
    made.dropped(1)
    assert made.next() == Move(((1, 0),))
    made.advanced(1, Advanced(OPEN, 1, moved=True), 0.0)
    assert made.next() is None
    assert made.rounds == {}, "what nobody here works on is not remembered"


def test_a_run_that_is_elsewhere_is_asked_again_where_it_is() -> None:
    made = watch()
    made.took(1, 0)
    made.dropped(1)
    made.next()
    made.advanced(1, Advanced(OPEN, 4), 0.0)
    assert made.next() == Move(((1, 4),))
    made.advanced(1, Advanced(OPEN, 4), 0.0)
    assert made.next() is None


def test_whoever_serves_every_run_asks_the_store_which_can_be_moved() -> None:
    made = watch()
    made.took(1, 0)
    assert made.look(0.0, idle=True) is None
    made.stirred()
    assert made.look(0.0, idle=True) == Look(MOST_ASKED)
    made.found([(2, 5), (3, 0)], 0.0)
    assert made.next() == Move(((2, 5), (3, 0)))


def test_whoever_was_given_runs_asks_those() -> None:
    made = watch(1, 2)
    made.took(1, 0)
    made.stirred()
    assert made.look(0.0, idle=True) == Move(((2, -1),))


def test_looks_take_a_small_share_of_the_time_whatever_stirs() -> None:
    made = watch()
    made.stirred()
    assert made.look(1.0, idle=True) == Look(MOST_ASKED)
    made.found((), 1.01)
    made.stirred()
    assert made.next_look == 1.01 + LOOK_PAUSE * (1.01 - 1.0)
    assert made.look(1.1, idle=True) is None
    assert made.look(made.next_look, idle=True) == Look(MOST_ASKED)


def test_a_full_answer_is_followed_by_the_next_look_at_once() -> None:
    made = watch()
    made.stirred()
    made.look(1.0, idle=True)
    made.found([(run, 0) for run in range(MOST_ASKED)], 1.5)
    assert made.next() is not None
    assert made.look(1.5, idle=True) == Look(MOST_ASKED)


def test_while_nothing_changes_looks_are_the_rarer_the_longer_they_take() -> None:
    made, took = watch(), 3 * LOOK_EVERY / IDLE_LOOK_PAUSE
    made.stirred()
    assert made.look(1.0, idle=True) == Look(MOST_ASKED)
    made.found((), 1.0 + took)
    assert made.look(1.0 + 2 * LOOK_EVERY, idle=True) is None
    assert made.look(1.1 + 3 * LOOK_EVERY, idle=True) == Look(MOST_ASKED)
    made.found((), 1.1 + 3 * LOOK_EVERY)
    assert made.look(1.1 + 4 * LOOK_EVERY, idle=True) == Look(MOST_ASKED), "a quick one is not put off"
    made.found((), 100.0)
    assert made.look(100.0 + LONGEST_LOOK_PAUSE, idle=True) == Look(MOST_ASKED), "a slow one not for ever"


def test_what_changed_is_looked_at_soon_however_long_looks_take() -> None:
    made = watch()
    made.stirred()
    made.look(1.0, idle=True)
    made.found((), 1.2)
    made.stirred()
    assert made.look(1.2 + LOOK_EVERY, idle=True) == Look(MOST_ASKED)


def test_a_busy_process_looks_now_and_then() -> None:
    made = watch()
    made.stirred()
    assert made.look(0.9 * LOOK_EVERY, idle=False) is None
    assert made.look(LOOK_EVERY, idle=False) == Look(MOST_ASKED)


class Counting(MemoryStore):
    """Counts the questions about runs."""

    looks = asked = 0

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        self.looks += 1
        return super().movable(limit)

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        self.asked += len(asked)
        return super().advance(asked)


def test_a_thousand_open_idle_runs_are_not_asked_in_turn() -> None:
    store = Counting()
    shop = Shop(lambda: store)
    task = shop.task(lambda number: None, kind="nothing")
    idle = [shop.start(task.of(number).delay(3600)) for number in range(1000)]
    assert len(set(idle)) == 1000
    with shop.working():
        for number in range(3):
            run = shop.start(task.of(-number - 1))
            wait_until(lambda run=run: shop.state(run).is_end)  # type: ignore[misc]
    assert store.asked <= 10, f"{store.asked} runs were asked whether they can go on"
    assert 0 < store.looks <= 100
    assert all(not shop.state(run).is_end for run in idle)
    shop.close()


class Still(Counting):
    """One in which nothing changes; time is told to have passed at once."""

    rests = 0

    def wait(self, seconds: float, seen: int) -> int:
        self.rests += 1
        return seen or super().wait(seconds, seen)


def test_a_rest_in_which_nothing_changed_is_no_reason_to_look() -> None:
    store = Still()
    shop = Shop(lambda: store)
    shop.task(lambda number: None, kind="nothing")
    began = time.monotonic()
    with shop.working():
        wait_until(lambda: store.rests > 2_000)
    # Once at the beginning, and now and then.
    assert store.looks <= 2 + (time.monotonic() - began) / LOOK_EVERY
    shop.close()


def test_a_run_that_was_launched_is_asked_once_until_it_answers_and_no_more_when_it_has_ended() -> None:
    launched = LaunchedRuns()
    watch = Watch([1], awaits=True, launched=launched)
    assert watch.look(0.0, idle=True) == Move(((1, -1),))
    launched.add(2)
    watch.stirred()
    assert watch.look(100.0, idle=True) == Move(((1, -1), (2, -1)))
    watch.advanced(2, Advanced(RunState.DONE, 0, moved=True), 100.0)
    watch.stirred()
    assert watch.look(200.0, idle=True) == Move(((1, -1),))
