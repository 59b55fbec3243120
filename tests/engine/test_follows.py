"""Two runs in step: a round of the follower opens when its leader is far enough ahead, or has ended in any way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ramify import ConfigError, Engine, RunState
from tests.engine.following import ask_children, break_at, follow, lead, look_for, tasks
from tests.engine.following import engine as shared_engine

Make = Callable[..., Engine]

DEPTH = 5


@pytest.fixture
def engine(make: Make) -> Engine:
    return make(tasks)


@pytest.mark.parametrize("ahead", [0, 1, 3, 50])
@pytest.mark.parametrize("threads", [0, None])
def test_whatever_the_lead_the_follower_finds_what_it_asks_for(engine: Engine, ahead: int, threads: int | None) -> None:
    leader = engine.start(lead.of("a", DEPTH))
    follower = engine.run(follow.of("a", DEPTH), follows=(leader, ahead), threads=threads)
    assert (leader.state, follower.state) == (RunState.DONE, RunState.DONE)
    found = list(follower.results())
    assert len(found) == 2 ** (DEPTH + 1) - 1
    assert all(len(name) == round + 1 for name, round in found)


def test_a_follower_may_start_when_its_leader_has_ended(engine: Engine) -> None:
    leader = engine.run(lead.of("a", 2))
    assert engine.run(follow.of("a", 2), follows=leader).state is RunState.DONE


def test_a_follower_that_goes_deeper_than_its_leader_goes_on(engine: Engine) -> None:
    leader = engine.start(lead.of("a", 1))
    follower = engine.run(follow.of("a", 3), follows=leader)
    assert follower.counts.done == 3, "what the leader found"
    assert follower.counts.failed == 4, "what it never had"


def test_runs_may_follow_one_another_in_a_row(engine: Engine) -> None:
    first = engine.start(lead.of("a", 3))
    second = engine.start(lead.of("a", 3), follows=(first, 0))
    third = engine.run(follow.of("a", 3), follows=(second, 1))
    assert [run.state for run in (first, second, third)] == [RunState.DONE] * 3


def test_two_runs_may_follow_the_same_one(engine: Engine) -> None:
    leader = engine.start(lead.of("a", 3))
    first = engine.start(follow.of("a", 3), follows=leader)
    second = engine.start(follow.of("a", 3).key("other"), follows=leader)
    with engine.working():
        assert first.wait(20)
        assert second.wait(20)
    assert (first.state, second.state) == (RunState.DONE, RunState.DONE)


def test_a_leader_that_fails_or_is_cancelled_holds_nobody_up(engine: Engine) -> None:
    failing = engine.start(break_at.of("a", 2))
    follower = engine.run([look_for.of("a"), look_for.of("a00")], follows=failing)
    assert failing.state is RunState.FAILED
    assert list(follower.results()) == ["a", "no a00"]
    cancelled = engine.start(lead.of("a", 2))
    cancelled.cancel("not wanted")
    assert list(engine.run(look_for.of("a"), follows=cancelled).results()) == ["no a"]


def test_a_paused_leader_holds_its_follower_until_it_goes_on(engine: Engine) -> None:
    leader = engine.start(lead.of("a", 1))
    leader.pause()
    follower = engine.start(follow.of("a", 1), follows=leader)
    with engine.working():
        assert not follower.wait(0.3)
        assert follower.round == -1
        leader.resume()
        assert follower.wait(20)
    assert follower.state is RunState.DONE


def test_a_paused_follower_does_not_hold_its_leader(engine: Engine) -> None:
    leader = engine.start(lead.of("a", 2))
    follower = engine.start(follow.of("a", 2), follows=leader)
    follower.pause()
    with engine.working():
        assert leader.wait(20)
        follower.resume()
        assert follower.wait(20)


def test_a_follower_without_rounds_is_refused(engine: Engine) -> None:
    leader = engine.start(lead.of("a", 2))
    with pytest.raises(ConfigError, match='order="rounds"'):
        engine.start(follow.of("a", 2), follows=leader, order="any")


def test_a_leader_without_rounds_is_followed_from_its_end(engine: Engine) -> None:
    leader = engine.start(lead.of("a", DEPTH), order="any")
    follower = engine.run(follow.of("a", DEPTH), follows=(leader, 0))
    assert follower.state is RunState.DONE


def test_children_of_a_leaders_task_are_told_by_kind_key_and_arguments(engine: Engine) -> None:
    leader = engine.start(lead.of("a", 1, 3))
    (found,) = engine.run(ask_children.of("a"), follows=leader).results()
    assert found[0] == "lead a0 {'name': 'a0', 'depth': 0, 'width': 3}"
    assert len(found) == 3
    (none,) = engine.run(ask_children.of("a0"), follows=leader).results()
    assert none == []
    assert next(engine.run(ask_children.of("zzz"), follows=leader).errors()).failure.type == "KeyError"


def test_the_newest_task_with_a_key_that_ended_well_is_the_one_found(engine: Engine) -> None:
    leader = engine.start([lead.of("a", 0), break_at.of("b", 0), break_at.of("a", 0)])
    follower = engine.run([look_for.of("a"), look_for.of("b")], follows=leader)
    assert list(follower.results()) == ["A", "no b"]


def test_a_failed_leader_that_is_retried_leads_again(engine: Engine) -> None:
    leader = engine.run(break_at.of("a", 1), name="leader")
    leader.retry()
    follower = engine.start(look_for.of("a"), follows=leader)
    with engine.working():
        assert follower.wait(20)
    assert list(follower.results()) == ["a"]


def test_worker_processes_keep_two_runs_in_step(tmp_path: Path) -> None:
    shared_engine._runtime.url = tmp_path / "shared.db"
    try:
        leader = shared_engine.start(lead.of("a", 7))
        follower = shared_engine.run(follow.of("a", 7), follows=(leader, 1), processes=2)
        assert follower.state is RunState.DONE
        assert follower.counts.done == 2**8 - 1
    finally:
        shared_engine.close()
