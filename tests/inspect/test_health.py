"""Is everybody well, and does the work go on? What monitors are told."""

from __future__ import annotations

import pytest

from ramify import ProcessState
from ramify.inspect import health
from ramify.inspect.health import SILENT_SECONDS, Health, health_of, process_health
from ramify.model.codec.wire import write
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.gate import GATE, GateSpec
from ramify.model.join import NewJoins
from ramify.model.policy import PARKED, SECOND
from ramify.model.process import Away, NewProcess, Process, new_process_id
from ramify.model.run import Follows, Order, RunState
from ramify.model.schema import schema_of
from ramify.store.sqlite import SqliteStore
from ramify.testing.conformance import House, Worker


def process(**told: object) -> Process:
    return Process(1, 77, "here", 0, **{"beat_age": 0.0, "reaped": False, "last": 0, **told})  # type: ignore[arg-type]


def looked(house: House) -> Health:
    return health_of(house.store)


def stuck(house: House) -> dict[str, str]:
    return {run.title: run.reason for run in looked(house).stuck}


def worker(house: House, *kinds: str, queues: tuple[str, ...] | None = None) -> None:
    house.store.enter(NewProcess(new_process_id(), 7, "mill", "7.1", kinds=kinds or ("walk", "copy"), queues=queues))


@pytest.mark.parametrize(
    ("told", "state", "trouble"),
    [
        ({}, ProcessState.WORKING, None),
        ({"draining": Said("ann", "new version")}, ProcessState.DRAINING, None),
        ({"beat_age": SILENT_SECONDS}, ProcessState.WORKING, None),
        ({"beat_age": 31.0}, ProcessState.UNREACHABLE, "it was not heard of for 31 s"),
        ({"beat_age": 31.0, "draining": Said("ann")}, ProcessState.UNREACHABLE, "it was not heard of"),
        ({"away": Away(9.0, "the disk is full")}, ProcessState.UNREACHABLE, "for 9 s: the disk is full"),
        ({"writing": 1.0}, ProcessState.WORKING, None),
        ({"writing": 9.0}, ProcessState.UNREACHABLE, "held the lock for writing for 9 s"),
        ({"beat_age": None}, ProcessState.DEAD, "it died"),
    ],
)
def test_which_processes_are_unhealthy(told: dict[str, object], state: ProcessState, trouble: str | None) -> None:
    found = process_health(process(**told), 3)
    assert (found.state, found.healthy, found.tasks) == (state, trouble is None, 3)
    assert (trouble or "") in (found.trouble or "")


def problems(found: Health) -> list[tuple[str, str]]:
    return [(problem.about, problem.text) for problem in found.problems]


def test_an_empty_store_is_healthy(house: House) -> None:
    found = looked(house)
    assert found.healthy
    assert (list(found.processes), list(found.unhealthy), list(found.stuck)) == ([], [], [])
    assert (found.oldest, found.late.tasks, found.at_least) == (None, 0, False)
    assert found.store.name == house.store.describe().name
    assert (found.store.bytes is None) == (found.store.name == "memory")


def test_a_process_is_told_with_what_it_holds(house: House) -> None:
    house.run(house.tasks(5), house.tasks(2, kind="copy"))
    busy, _ = house.worker(), house.worker()
    busy.take(kinds=["walk"])
    house.clock.advance(4)
    found = {each.process: each for each in looked(house).processes}
    assert len(found) == 2
    told = found[busy.process]
    assert (told.state, told.tasks, told.beat_age, told.host) == (ProcessState.WORKING, 5, 4.0, "house")


def test_commands_and_those_who_left_are_not_told_of(house: House) -> None:
    house.store.enter(NewProcess(new_process_id(), kinds=()))
    gone = house.worker()
    gone.store.leave(gone.process)
    assert list(looked(house).processes) == []


def test_a_silent_process_is_unhealthy(house: House) -> None:
    house.worker()
    house.clock.advance(45)
    found = looked(house)
    assert [each.state for each in found.unhealthy] == [ProcessState.UNREACHABLE]
    ((about, text),) = problems(found)
    assert about == "process"
    assert "which holds 0 tasks: it was not heard of for 45 s" in text
    assert not found.healthy


def test_a_store_with_a_stuck_run_is_not_healthy(house: House) -> None:
    tasks = house.tasks(2)
    house.run(tasks, name="walk")
    found = looked(house)
    why = f"task {tasks.first} is ready, and no process works on this store"
    assert problems(found) == [("run", f"run walk is stuck: {why}")]
    assert [problem.advice for problem in found.problems] == ["start one"]
    worker(house)
    assert looked(house).healthy


def test_a_task_that_has_been_ready_for_longer_than_the_limit_is_a_problem(house: House) -> None:
    tasks = house.tasks(2)
    house.run(tasks, name="walk")
    worker(house)
    house.clock.advance(20)
    assert health_of(house.store, max_age=21).healthy
    found = health_of(house.store, max_age=19)
    which = f"task {tasks.first} ('walk', queue 'default')"
    assert problems(found) == [("age", f"{which} has been ready for 20 s; the limit is 19 s")]


def test_a_task_that_others_overtake_by_priority_still_grows_old(house: House) -> None:
    old = house.tasks()
    run = house.any_run(old)
    worker(house)
    house.clock.advance(100)
    house.add(run, house.tasks(priority=-10))
    found = health_of(house.store, max_age=99)
    assert found.oldest is not None
    assert (found.oldest.task, found.healthy) == (old.first, False)


def test_only_processes_that_take_work_count_as_workers(house: House) -> None:
    def healthy_with(least: int) -> bool:
        return health_of(house.store, min_workers=least).healthy

    house.store.enter(NewProcess(new_process_id(), kinds=()))
    found = health_of(house.store, min_workers=1)
    assert problems(found) == [("workers", "no processes take work from this store; there should be at least 1")]
    worker(house)
    leaving = house.worker()
    assert healthy_with(2)
    assert not healthy_with(3)
    house.store.drain(leaving.process, Said("new version", "ann"))
    assert looked(house).healthy
    assert healthy_with(1)
    assert not healthy_with(2)


def test_the_first_in_line_is_the_one_that_was_added_first_whatever_its_priority(house: House) -> None:
    run = house.any_run(old := house.tasks(2, priority=5))
    house.clock.advance(10)
    house.any_run(house.tasks(kind="copy", priority=-3))
    found = looked(house).oldest
    assert found is not None
    assert (found.task, found.run, found.kind, found.queue) == (old.first, run, "walk", "default")
    assert found.seconds == pytest.approx(10, abs=0.01)


def test_queues_that_have_work_are_told_of_one_by_one(house: House) -> None:
    house.any_run(house.tasks(3, queue="mail"), mail := house.tasks(kind="copy", queue="mail"))
    house.worker().take(kinds=["walk"])
    house.clock.advance(10)
    house.any_run(house.tasks(2))
    default, found = looked(house).queues
    assert (default.queue, default.running, found.queue, found.running) == ("default", 0, "mail", 3)
    assert default.oldest is not None
    assert default.oldest.seconds == pytest.approx(0, abs=0.01)
    assert found.oldest is not None
    assert found.oldest.task == mail.first
    assert found.oldest.seconds == pytest.approx(10, abs=0.01)
    assert looked(house).oldest == found.oldest


def test_in_a_depth_first_run_the_age_of_a_task_does_not_grow_with_its_depth(house: House) -> None:
    house.run(house.tasks(), order=Order.DEPTH_FIRST)
    one = house.worker()
    one.done(one.take(), children=[house.tasks()])
    one.done(one.take(), children=[house.tasks()])
    house.clock.advance(3)
    found = looked(house).oldest
    assert found is not None
    assert found.seconds == pytest.approx(3, abs=0.01)


def test_due_tasks_that_nobody_began_are_late(house: House) -> None:
    now = house.store.now()
    early, later = house.tasks(3, due=now + 5 * SECOND), house.tasks(2, due=now + 8 * SECOND, kind="copy")
    house.any_run(early, later, house.tasks(due=PARKED), house.tasks(due=now + 99 * SECOND))
    assert (looked(house).late.tasks, looked(house).oldest) == (0, None)
    house.clock.advance(15)
    late = looked(house).late
    assert (late.tasks, late.at_least) == (5, False)
    assert late.oldest is not None
    assert late.oldest.task == early.first
    assert late.oldest.seconds == pytest.approx(10, abs=0.01)
    assert looked(house).oldest == late.oldest


def test_where_much_is_late_it_is_told_how_much_at_least(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOKED", 2)
    now = house.store.now()
    house.any_run(*(house.tasks(due=now + n * SECOND) for n in range(1, 4)))
    house.clock.advance(9)
    late = looked(house).late
    assert (late.tasks, late.at_least) == (2, True)


def test_a_paused_run_is_stuck_and_says_who_paused_it(house: House) -> None:
    house.store.pause(house.run(house.tasks(), name="walk"), Said("too loud", "ann"))
    (run,) = looked(house).stuck
    assert run.reason == "paused by ann: too loud"
    assert run.advice == "ramify resume walk"


def test_a_run_that_nobody_works_on_is_stuck(house: House) -> None:
    tasks = house.tasks(2)
    house.run(tasks, name="walk")
    assert stuck(house) == {"walk": f"task {tasks.first} is ready, and no process works on this store"}
    worker(house)
    assert stuck(house) == {}


def test_a_run_whose_kind_or_queue_nobody_serves_is_stuck(house: House) -> None:
    house.run(sums := house.tasks(kind="sum"), name="sums")
    house.run(mails := house.tasks(queue="mail"), name="mails")
    house.run(house.tasks(), name="walk")
    worker(house, "walk", queues=("default",))
    assert stuck(house) == {
        "sums": f"task {sums.first} is ready, and none of 1 live process knows the kind 'sum'",
        "mails": f"task {mails.first} is ready, and no live process that knows 'walk' serves the queue 'mail'",
    }


def test_more_stuck_runs_than_were_looked_at_are_hinted_at(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOKED", 2)
    for n in range(3):
        house.run(house.tasks(), name=f"walk-{n}")
    found = looked(house)
    assert (len(found.stuck), found.at_least) == (2, True)


def test_a_run_that_could_go_on_and_that_nobody_moves_is_stuck(house: House) -> None:
    run = house.run(house.tasks(), name="walk")
    one = house.worker()
    one.done(one.take())
    assert stuck(house) == {}
    one.store.leave(one.process)
    assert stuck(house) == {"walk": "it can continue, and no process works on this store"}
    assert house.settle(run).state is RunState.DONE
    assert stuck(house) == {}


def test_a_run_that_waits_for_a_time_an_answer_or_another_run_is_not_stuck(house: House) -> None:
    now = house.store.now()
    spec = GateSpec("approval", schema_of(bool), timeout=60.0)
    house.any_run(house.tasks(due=now + 60 * SECOND), name="sleeps")
    house.any_run(house.tasks([write([spec])], kind=GATE, keys=[b"approval"], due=PARKED), name="asks")
    leader = house.run(house.tasks(), name="leader")
    house.run(house.tasks(), follows=Follows(leader), name="follows")
    waiting = house.tasks(kind="sum", waits=True)
    house.run(house.tasks(2, join=waiting.first), waiting, joins=[NewJoins.one(waiting.first, 2)], name="joins")
    worker(house)
    assert stuck(house) == {}


def test_a_stalled_run_is_stuck_for_a_day(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    run = house.run(house.tasks(), waiting, joins=[NewJoins.one(waiting.first, 2)], name="walk")
    house.finish(run)
    assert stuck(house) == {"walk": f"stalled: 1 tasks wait for joins that can never fill: {waiting.first}"}
    house.clock.advance(86_401)
    assert stuck(house) == {}


def test_a_run_of_which_everything_is_in_quarantine_is_stuck(house: House) -> None:
    ended, endless = house.run(house.tasks(2), name="walk"), house.queue(house.tasks(kind="copy"))
    one = house.worker()
    for claim in (one.take(kinds=["walk"]), one.take(kinds=["copy"])):
        one.end(claim, status=Status.QUARANTINED)
    house.settle(ended)
    assert stuck(house) == dict.fromkeys(("walk", f"#{endless}"), "all of its tasks are in quarantine")
    house.add(endless, house.tasks(kind="copy"))
    assert list(stuck(house)) == ["walk"]


def test_what_the_dead_hold_is_stuck_while_nobody_works(house: House) -> None:
    if house.store.describe().name == "memory":
        pytest.skip("the reference store knows a death only by missing beats")
    house.run(house.tasks(), name="walk")
    one = house.worker()
    one.take()
    one.store.close()
    found = looked(house)
    assert [(each.state, each.tasks, each.beat_age) for each in found.unhealthy] == [(ProcessState.DEAD, 1, None)]
    (run,) = found.stuck
    assert "is dead, and nobody works" in run.reason
    house.worker()
    assert stuck(house) == {}


def test_the_durability_is_the_weakest_that_a_live_process_chose(house: House) -> None:
    file = house.store.describe().file
    if file is None:
        pytest.skip("memory leaves no choice")
    assert looked(house).store.durability is None
    house.worker()
    assert looked(house).store.durability == "power"
    weak = SqliteStore(file, durability="process", clock=house.clock)
    Worker(weak)
    found = looked(house).store
    assert (found.durability, found.keeps) == ("process", "every commit that returned, except power loss")
    weak.close()
    assert looked(house).store.durability == "power"
