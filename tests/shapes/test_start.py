"""Starting runs: new, continued, finished, refused. Nobody works on them here."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ramify import Call, ConfigError, Tasks
from ramify.errors import BadPayload, RunEnded, StoreUnavailable, UnknownRun
from ramify.model.decision import Said
from ramify.model.process import NewProcess, new_process_id
from ramify.model.run import Follows, Order, Owner, RunState, StoredRun
from ramify.shapes import start
from ramify.shapes.bounds import Bounds
from ramify.shapes.owner import is_gone, is_here, this_program
from ramify.shapes.start import Begun, How, StartRequest, add, begin
from ramify.shapes.table import plan_of
from ramify.store.contract import Store
from ramify.store.open import open_store
from tests.shapes.losing import Losing


def measure(path: str, depth: int = 0) -> int:
    return len(path) + depth


def count(names: set[str]) -> int:
    return len(names)


jobs = Tasks()
size = jobs.task(measure)
counting = jobs.task(queue="slow", key=lambda names: "names")(count)

Here = Callable[..., Owner]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store("memory:" if request.param == "memory" else tmp_path / "test.db")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def gone() -> Owner:
    """A program that was here and has ended."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    return replace_owner(this_program(stays=True), pid=process.pid, began="1")


def replace_owner(owner: Owner, **changes: Any) -> Owner:
    return msgspec.structs.replace(owner, **changes)


def start_as(store: Store, ask: StartRequest, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> Begun:
    """Start it as that program would have."""
    with monkeypatch.context() as patch:
        patch.setattr(start, "this_program", lambda *, stays: replace_owner(owner, stays=stays))
        return begin(store, ask)


def end(store: Store, run: StoredRun) -> None:
    store.cancel(run.id, said=Said("enough"))


def ask(*roots: Call[Any], **options: Any) -> StartRequest:
    return StartRequest(*plan_of(roots or size.of("/usr")), **options)


# named


def test_a_named_run_is_started_once_and_then_gone_on_with(store: Store) -> None:
    first = begin(store, ask(name="usr"))
    second = begin(store, ask(name="usr"))
    assert (first.how, second.how) == (How.NEW, How.CONTINUED)
    assert first.run.id == second.run.id
    assert first.said == f"run 'usr' ({first.run.id}) begins"
    assert second.said.endswith("continues")
    assert len(store.reads.tasks(first.run.id).rows) == 1


def test_equal_roots_are_the_same_however_they_were_written(store: Store) -> None:
    names = {f"name {n}" for n in range(50)}
    first = begin(store, ask(size.of("/usr", 0), counting.of(names), name="x"))
    turned = set[str]()
    turned.update(sorted(names, reverse=True))
    again = begin(store, ask(counting.of(turned), size.of(path="/usr", depth=0), name="x"))
    assert again.run.id == first.run.id


def test_the_same_name_with_other_roots_is_refused_and_both_are_shown(store: Store) -> None:
    begin(store, ask(name="usr"))
    with pytest.raises(ConfigError) as refused:
        begin(store, ask(size.of("/var"), name="usr"))
    assert "measure('/usr', 0)" in str(refused.value)
    assert "measure('/var', 0)" in str(refused.value)
    with pytest.raises(ConfigError, match="other roots"):
        begin(store, ask(size.of("/usr"), size.of("/usr"), name="usr"))
    with pytest.raises(ConfigError, match="other roots"):
        begin(store, ask(size.of("/var"), name="usr", again=True))


def test_a_finished_run_is_given_back_and_again_starts_the_next_generation(store: Store) -> None:
    first = begin(store, ask(name="usr"))
    end(store, first.run)
    finished = begin(store, ask(name="usr"))
    assert (finished.how, finished.run.id) == (How.FINISHED, first.run.id)
    assert (
        "had ended as cancelled (enough); retry(cancelled=True) retries its cancelled tasks, again=True"
        in finished.said
    )
    with pytest.raises(ConfigError, match=r"other roots.*Start it again with again=True"):
        begin(store, ask(size.of("/var"), name="usr"))
    second = begin(store, ask(name="usr", again=True))
    assert (second.how, second.run.generation) == (How.NEW, 2)
    assert begin(store, ask(name="usr")).run.id == second.run.id


def test_again_goes_on_with_a_generation_that_has_not_finished(store: Store) -> None:
    first = begin(store, ask(name="usr", again=True))
    assert begin(store, ask(name="usr", again=True)).run.id == first.run.id
    end(store, first.run)
    begin(store, ask(name="usr", again=True))
    assert begin(store, ask(name="usr", again=True)).run.generation == 2


def test_a_paused_or_draining_run_says_so(store: Store) -> None:
    run = begin(store, ask(name="usr")).run
    store.pause(run.id)
    assert begin(store, ask(name="usr")).said.endswith("is paused. resume() continues it")


@pytest.mark.parametrize(
    ("started", "asked", "says"),
    [
        ({"params": {"deep": 1}}, {"params": {"deep": 2}}, "params={'deep': 1}"),
        ({}, {"params": 3}, "params=None"),
        ({}, {"order": Order.ANY}, "order='rounds'"),
        ({"bounds": Bounds(max_tasks=10)}, {"bounds": Bounds(max_tasks=11)}, "max_tasks=10"),
    ],
)
def test_what_a_run_was_started_with_does_not_change(
    store: Store, started: dict[str, Any], asked: dict[str, Any], says: str
) -> None:
    begin(store, ask(name="usr", **started))
    with pytest.raises(ConfigError, match=says):
        begin(store, ask(name="usr", **asked))
    assert begin(store, ask(name="usr")).how is How.CONTINUED


def test_roots_of_a_renamed_task_are_the_same_roots(store: Store) -> None:
    old = Tasks().task(name="weigh")(measure)
    first = begin(store, ask(old.of("/usr"), name="usr"))
    with pytest.raises(ConfigError, match="other roots"):
        begin(store, ask(name="usr"))
    assert begin(store, ask(name="usr", older={"measure": ("weigh",)})).run.id == first.run.id


def test_two_programs_that_start_one_name_at_the_same_moment_get_one_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin(store, ask(name="usr"))
    monkeypatch.setattr(type(store.reads), "find_run", lambda self, name: None)
    late = begin(store, ask(name="usr"))
    assert (late.how, late.run.id) == (How.CONTINUED, first.run.id)
    with pytest.raises(ConfigError, match="other roots"):
        begin(store, ask(size.of("/var"), name="usr"))


@pytest.mark.parametrize("name", ["usr", None])
def test_a_start_whose_answer_was_lost_is_sent_again_and_started_once(
    store: Store, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "_PAUSES", (0.0, 0.0))
    away: Any = Losing(store, {verb: iter(["not answered"]) for verb in ("reserve", "start", "append")})
    begun = begin(away, ask(name=name))
    assert begun.how is How.NEW
    add(away, begun.run.id, [size.of("/var")], lambda many, above: away.reserve(many))
    assert away.lost == ["reserve", "start", "append"]
    assert len(store.reads.runs().rows) == 1
    assert len(store.reads.tasks(begun.run.id).rows) == 2


def test_a_store_that_stays_away_is_said_in_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_PAUSES", (0.0, 0.0))
    tries: list[int] = []

    def away() -> int:
        tries.append(1)
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        start.until_answered(away)
    assert len(tries) == 3


# unnamed


def test_an_unnamed_run_whose_program_is_there_is_left_to_it(store: Store) -> None:
    first = begin(store, ask())
    assert begin(store, ask(busy={first.run.id})).how is How.NEW


def test_an_unnamed_run_that_this_program_has_stopped_working_on_is_gone_on_with(store: Store) -> None:
    first = begin(store, ask())
    again = begin(store, ask())
    assert (again.how, again.run.id) == (How.CONTINUED, first.run.id)


def test_an_unnamed_run_whose_program_is_gone_is_gone_on_with(
    store: Store, gone: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start_as(store, ask(), gone, monkeypatch)
    assert begin(store, ask(size.of("/var"))).how is How.NEW
    assert begin(store, ask(params=3)).how is How.NEW
    again = begin(store, ask())
    assert (again.how, again.run.id) == (How.CONTINUED, first.run.id)


def test_an_unnamed_run_of_another_living_process_is_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        owner = replace_owner(this_program(stays=True), pid=process.pid, began=stat.rpartition(")")[2].split()[19])
        first = start_as(store, ask(), owner, monkeypatch)
        assert begin(store, ask(busy={first.run.id})).how is How.NEW
        assert is_gone(owner, []) is False
        reused = replace_owner(owner, began="1")
        assert is_gone(reused, []) is True
        process.communicate(b"\n")
    assert is_gone(owner, []) is True


def test_a_restart_of_the_machine_ends_every_owner() -> None:
    assert is_gone(replace_owner(this_program(stays=True), boot="another"), []) is True
    assert is_gone(this_program(stays=True), []) is False
    assert is_here(this_program(stays=True))


def test_of_an_owner_elsewhere_the_store_knows(store: Store) -> None:
    owner = replace_owner(this_program(stays=True), host="elsewhere", boot="another", pid=7)
    assert is_gone(owner, store.reads.processes()) is True
    process = new_process_id()
    store.enter(NewProcess(process, 7, "elsewhere", boot="another", pids=owner.pids))
    assert is_gone(owner, store.reads.processes()) is False
    store.leave(process)
    assert is_gone(owner, store.reads.processes()) is True


def test_two_unnamed_starts_of_one_living_program_are_two_runs(store: Store) -> None:
    assert begin(store, ask(stays=False)).run.id != begin(store, ask(stays=False)).run.id


def test_an_unnamed_start_of_a_program_that_is_gone_is_gone_on_with_only_when_nobody_works(
    store: Store, gone: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start_as(store, ask(stays=False), gone, monkeypatch)
    worker = new_process_id()
    store.enter(NewProcess(worker, os.getppid(), socket.gethostname()))
    other = begin(store, ask(stays=False))
    assert other.how is How.NEW
    end(store, other.run)
    store.leave(worker)
    again = begin(store, ask(stays=False))
    assert (again.how, again.run.id) == (How.CONTINUED, first.run.id)


def test_a_run_being_cancelled_is_not_gone_on_with(store: Store, gone: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start_as(store, ask(), gone, monkeypatch)
    end(store, first.run)
    assert begin(store, ask()).how is How.NEW


# what a start takes


def test_params_are_kept_and_what_json_cannot_hold_is_refused(store: Store) -> None:
    params = {"deep": [1, 2.5, None, "é"], "on": True}
    assert start.decode_params(begin(store, ask(params=params)).run.params) == params
    with pytest.raises(BadPayload, match="params"):
        begin(store, ask(params={"x": float("nan")}))
    with pytest.raises(BadPayload, match="params"):
        begin(store, ask(params=object()))


def test_a_start_that_makes_no_sense_is_refused(store: Store) -> None:
    for wrong, says in [
        (ask(name=""), "empty"),
        (ask(again=True), "with a name"),
        (ask(bounds=Bounds(max_tasks=0)), "1 or more"),
        (ask(size.of("a"), size.of("b"), bounds=Bounds(max_tasks=1)), "expected at least 2"),
    ]:
        with pytest.raises(ConfigError, match=says):
            begin(store, wrong)
    assert store.reads.runs().rows == []


def test_an_ended_run_takes_no_more_tasks(store: Store) -> None:
    run = begin(store, ask()).run
    end(store, run)
    with pytest.raises(RunEnded):
        add(store, run.id, [size.of("/var")], lambda many, above: store.reserve(many))


def test_a_run_remembers_its_cap_its_owner_and_its_roots_in_words(store: Store) -> None:
    run = begin(store, ask(bounds=Bounds(max_tasks=9))).run
    assert (run.max_tasks, run.shown, run.owner) == (9, "measure('/usr', 0)", this_program(stays=True))


def test_a_run_may_follow_another_and_never_itself(store: Store) -> None:
    leader = begin(store, ask(name="leader")).run
    follower = begin(store, ask(name="follower", follows=Follows(leader.id, 2))).run
    assert follower.follows == Follows(leader.id, 2)
    assert [run.id for run in start.chain(store, follower)] == [follower.id, leader.id]
    with pytest.raises(ConfigError, match="cannot follow"):
        begin(store, ask(name="leader", follows=Follows(follower.id)))
    with pytest.raises(ConfigError, match="cannot follow"):
        begin(store, ask(name="leader", follows=Follows(leader.id)))
    with pytest.raises(ConfigError, match="follows"):
        begin(store, ask(name="follower", follows=Follows(leader.id, 1)))
    with pytest.raises(UnknownRun):
        begin(store, ask(name="third", follows=Follows(follower.id + 1_000)))
    assert store.reads.run(leader.id).state is RunState.OPEN
