"""A run at one moment."""

from ramify.inspect.status import Phase, status_of, waits_in_words
from ramify.model.commit import Later, Part
from ramify.model.death import Death
from ramify.model.event import Status
from ramify.model.gate import GATE
from ramify.model.join import NewJoins
from ramify.model.policy import PARKED, SECOND
from ramify.model.run import Follows, RunState
from ramify.testing.conformance import House


def test_counts_are_by_kind_and_add_up(house: House) -> None:
    run = house.run(house.tasks(3), house.tasks(2, kind="copy"))
    worker = house.worker()
    walk = worker.take(10, ["walk"])
    statuses = [Status.DONE, Status.FAILED, Status.SKIPPED]
    worker.commit(Part(walk.token, walk.tasks, statuses))
    status = status_of(house.store, run)
    assert (status.kinds["walk"].added, status.kinds["walk"].pending) == (3, 0)
    assert (status.kinds["copy"].added, status.kinds["copy"].pending) == (2, 2)
    assert (status.total.added, status.total.ended, status.total.failures, status.total.pending) == (5, 3, 1, 2)


def test_the_phase_follows_the_work(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    assert status_of(house.store, run).phase is Phase.PULLING
    claim = worker.take()
    assert status_of(house.store, run).phase is Phase.RUNNING
    worker.done(claim, children=[house.tasks(3)])
    assert status_of(house.store, run).phase is Phase.ROUND_COMPLETE
    house.settle(run)
    assert status_of(house.store, run).phase is Phase.PULLING
    house.finish(run)
    ended = status_of(house.store, run)
    assert (ended.phase, ended.run.state, waits_in_words(ended)) == (Phase.EXHAUSTED, RunState.DONE, None)


def test_what_the_round_waits_for_is_counted_apart_from_what_comes_later(house: House) -> None:
    run = house.run(house.tasks(6))
    worker = house.worker()
    claim = worker.take(4)
    worker.done(claim, claim.tasks[:1], children=[house.tasks(5)])
    status = status_of(house.store, run)
    assert (status.live.round.held, status.live.round.ready, status.live.round.gated) == (3, 2, 0)
    assert status.live.run.gated == 5
    assert waits_in_words(status) == "3 held, 2 ready"


def test_open_gates_are_told_apart_from_what_is_due_later(house: House) -> None:
    gate = house.tasks([b'[{"name":"approval"}]'], kind=GATE, due=house.store.now() + SECOND)
    run = house.run(gate, house.tasks(2, due=house.store.now() + SECOND))
    house.worker()
    status = status_of(house.store, run)
    assert (status.phase, status.live.run.asking, status.live.run.later) == (Phase.WAITING, 1, 2)
    assert waits_in_words(status) == "2 due later, 1 open gate (`ramify gates` says what for)"
    house.clock.advance(1)
    assert status_of(house.store, run).live.run.ready == 3


def test_tasks_due_later_are_told_with_their_time(house: House) -> None:
    due = house.clock.now() + 60 * SECOND
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.RETRYING, later=[Later(claim.tasks, due)])
    status = status_of(house.store, run)
    assert (status.phase, status.live.next_due, status.live.round.later) == (Phase.WAITING, due, 2)
    assert waits_in_words(status, "in 60 s") == "2 due later (next in 60 s)"
    house.clock.advance(61)
    assert status_of(house.store, run).phase is Phase.PULLING


def test_work_of_the_dead_is_not_called_running(house: House) -> None:
    run = house.run(house.tasks(2))
    for _ in range(2):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take().tasks, 5), evidence=True))
    house.worker()
    status = status_of(house.store, run)
    assert (status.phase, status.live.run.held, status.live.run.suspect) == (Phase.PULLING, 0, 2)


def test_a_paused_run_says_how_to_go_on(house: House) -> None:
    run = house.run(house.tasks(2))
    house.store.pause(run)
    status = status_of(house.store, run)
    assert status.phase is Phase.WAITING
    assert "ramify resume" in (waits_in_words(status) or "")


def test_a_run_that_follows_another_says_which(house: House) -> None:
    leader = house.run(house.tasks(), name="leader")
    run = house.run(house.tasks(), follows=Follows(leader))
    house.worker()
    status = status_of(house.store, run)
    assert (status.phase, status.gated_by and status.gated_by.id) == (Phase.WAITING, leader)
    assert waits_in_words(status) == "waits for run leader, which is at round 0"


def test_tasks_behind_a_join_are_told(house: House) -> None:
    waiting = house.tasks(1, kind="sum", waits=True)
    members = house.tasks(1, join=waiting.first)
    run = house.run(members, waiting, joins=[NewJoins.one(waiting.first, 1)])
    assert status_of(house.store, run).live.run.joining == 1


def test_nobody_at_work_is_said(house: House) -> None:
    run = house.run(house.tasks(2))
    status = status_of(house.store, run)
    assert status.phase is Phase.UNATTENDED
    assert waits_in_words(status) == "2 ready; nobody is working on it; start it again with the same line"


def test_a_run_whose_only_program_was_killed_does_not_look_as_if_it_worked(house: House) -> None:
    due = house.clock.now() + 60 * SECOND
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take(2)
    worker.end(claim, claim.tasks[:1], status=Status.DEFERRED, later=[Later(claim.tasks[:1], due)])
    assert status_of(house.store, run).phase is Phase.RUNNING
    worker.store.leave(worker.process)
    status = status_of(house.store, run)
    assert (status.phase, status.live.next_due) == (Phase.UNATTENDED, due)
    assert (waits_in_words(status, "in 60 s") or "").endswith(
        "1 due later (next in 60 s); nobody is working on it; start it again with the same line"
    )


def test_a_run_that_was_left_before_its_end_was_noticed_is_said_to_be_left(house: House) -> None:
    run = house.run(house.tasks(1))
    worker = house.worker()
    worker.done(worker.take())
    worker.store.leave(worker.process)
    assert waits_in_words(status_of(house.store, run)) == "nobody is working on it; start it again with the same line"


def test_a_queue_without_jobs_waits_and_nobody_is_missed(house: House) -> None:
    run = house.any_run(endless=True)
    status = status_of(house.store, run)
    assert status.phase is Phase.WAITING
    assert waits_in_words(status) is None


def test_a_queue_with_jobs_that_nobody_works_on_wants_a_worker(house: House) -> None:
    status = status_of(house.store, house.any_run(house.tasks(1), endless=True))
    assert status.phase is Phase.UNATTENDED
    assert waits_in_words(status) == "1 ready; nobody is working on it; start a worker: `ramify worker FILE:ENGINE`"


def test_what_is_parked_is_not_due(house: House) -> None:
    run = house.run(house.tasks(2, due=PARKED))
    status = status_of(house.store, run)
    assert (status.live.round.later, status.live.next_due) == (2, None)
