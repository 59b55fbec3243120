"""`commit`: write events, children, arrivals, key releases, counters and masks, and take the next claim.

All or nothing per part; a part with a void token is refused, recorded and changes nothing, and the other parts of the
batch do not care. Parts may be partial: what they do not name stays claimed. Sent again with the same stamp it answers
as it did the first time, refused parts included. (`retries.py` holds outcomes that are not ends, `columns.py` bad
input, `keys.py` and `joins.py` what follows from an end.)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

from ramify.errors import Reaped, StaleStamp
from ramify.model.commit import Part
from ramify.model.event import Status, Tally
from ramify.model.process import Stamp, new_token
from ramify.model.run import Order, RunState
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, Worker, only, plain, refused, tasks_of, want
from ramify.testing.conformance.registry import case
from ramify.testing.paging import every


@case("commit")
def an_end_is_one_event_and_the_task_leaves_its_row(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    answer = worker.commit(Part(claim.token, claim.tasks, [Status.DONE, Status.FAILED], [b"\0value\xff", None]))
    assert answer.seq > 0
    assert not answer.refused
    one, two = house.store.reads.events(claim.tasks[0], claim.tasks[1])
    assert (one.task, one.n, one.status, one.value, one.seq) == (
        claim.tasks[0],
        1,
        Status.DONE,
        b"\0value\xff",
        answer.seq,
    )
    assert (two.task, two.n, two.status, two.value) == (claim.tasks[1], 1, Status.FAILED, None)
    assert house.live(run) == []


@case("commit")
def every_way_to_end_is_kept_and_counted(house: House) -> None:
    ends = [Status.DONE, Status.FAILED, Status.CANCELLED, Status.SKIPPED, Status.QUARANTINED]
    run = house.run(house.tasks(5))
    worker = house.worker()
    claim = worker.take()
    worker.commit(Part(claim.token, claim.tasks, ends))
    assert [house.ended(task) for task in claim.tasks] == ends
    assert [house.count(run, status) for status in ends] == [1] * 5
    assert house.count(run, Tally.ADDED) == 5


@case("commit")
def how_long_an_attempt_took_is_in_its_event(house: House) -> None:
    house.run(house.tasks(4))
    worker = house.worker()
    claim = worker.take()
    one, two, three, four = claim.tasks
    worker.commit(Part(claim.token, [one, two], [Status.RETRYING, Status.DONE], [None, b"2"], took={one: 1_500}))
    worker.commit(Part(claim.token, [one, three, four], values=[b"1", None, b"4"], took={one: 2**40, four: 7}))
    events = house.store.reads.events(one, four)
    assert [(event.task, event.n, event.took) for event in events] == [
        (one, 1, 1_500), (one, 2, 2**40), (two, 1, None), (three, 1, None), (four, 1, 7),
    ]  # fmt: skip
    assert [event.value for event in events] == [None, b"1", b"2", None, b"4"]
    assert sorted(house.store.reads.tail(0).events, key=lambda event: (event.task, event.n)) == events


@case("commit")
def rows_that_end_together_keep_their_times(house: House) -> None:
    house.run(*(house.tasks(lane=f"lane {n}") for n in range(3)))
    worker = house.worker()
    claims = worker.claim(3)
    worker.commit(*(Part(claim.token, claim.tasks, took={claim.tasks[0]: 1_000 + n}) for n, claim in enumerate(claims)))
    assert [event.took for claim in claims for event in house.store.reads.events(claim.tasks[0], claim.tasks[0])] == [
        1_000, 1_001, 1_002,
    ]  # fmt: skip


@case("commit")
def what_a_partial_commit_does_not_name_stays_claimed(house: House) -> None:
    run = house.run(house.tasks(6))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[1:4])
    assert list(house.live(run)[0].tasks) == [claim.tasks[0], *claim.tasks[4:]]
    assert house.offered() == []
    worker.done(claim, [claim.tasks[5]])
    worker.done(claim, [claim.tasks[0], claim.tasks[4]])
    assert house.live(run) == []


@case("commit")
def the_order_of_tasks_in_a_part_does_not_matter(house: House) -> None:
    house.run(house.tasks(4))
    worker = house.worker()
    claim = worker.take()
    backwards = list(claim.tasks)[::-1]
    worker.commit(Part(claim.token, backwards, Status.DONE, [b"%d" % task for task in backwards]))
    assert all(house.store.reads.events(t, t)[0].value == b"%d" % t for t in claim.tasks)


@case("commit")
def a_token_nobody_gave_out_changes_nothing(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    token = new_token()
    with house.nothing_changes():
        answer = worker.commit(Part(token, claim.tasks, children=[house.tasks(parents=claim.tasks[0])]))
    assert answer.refused == (token,)
    assert answer.seq == 0


@case("commit")
def a_void_token_changes_nothing(house: House) -> None:
    """After a release the work belongs to whoever claims it next."""
    house.run(house.tasks(3))
    worker, other = house.worker(), house.worker()
    old = worker.take()
    worker.release(old)
    new = other.take()
    with house.nothing_changes():
        assert worker.commit(Part(old.token, old.tasks)).refused == (old.token,)
    other.done(new)


@case("commit")
def the_token_of_another_process_is_void(house: House) -> None:
    house.run(house.tasks())
    claim = house.worker().take()
    with house.nothing_changes():
        assert house.worker().commit(Part(claim.token, claim.tasks)).refused == (claim.token,)


@case("commit")
def the_token_of_a_finished_row_is_void(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.done(claim)
    with house.nothing_changes():
        assert worker.commit(Part(claim.token, claim.tasks)).refused == (claim.token,)


@case("commit")
def a_refused_part_does_not_harm_the_others(house: House) -> None:
    run = house.any_run(house.tasks(), house.tasks())
    worker = house.worker()
    one, two = worker.claim()
    worker.release(one)
    lost, kept = house.tasks(parents=one.tasks[0]), house.tasks(parents=two.tasks[0])
    answer = worker.commit(Part(one.token, one.tasks, children=[lost]), Part(two.token, two.tasks, children=[kept]))
    assert answer.refused == (one.token,)
    assert answer.seq > 0
    assert house.ended(one.tasks[0]) is None
    assert house.ended(two.tasks[0]) is Status.DONE
    assert house.offered() == sorted([one.tasks[0], kept.first])
    assert house.store.reads.task(lost.first) is None
    assert house.count(run, Tally.ADDED) == 3


@case("commit")
def a_refused_part_is_recorded(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    worker.release(claim)
    worker.commit(Part(claim.token, claim.tasks))
    refusal = only(house.store.reads.refusals())
    assert (refusal.process, refusal.n, refusal.token) == (worker.process, worker.n, claim.token)
    assert (refusal.tasks, refusal.at) == (3, house.clock.now())


@case("commit")
def the_late_commit_of_a_reaped_process_is_refused_and_recorded(house: House) -> None:
    """It was frozen, taken for dead, and thaws with its work done."""
    house.run(house.tasks(2))
    frozen = house.worker()
    claim = frozen.take()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        frozen.commit(Part(claim.token, claim.tasks, children=[house.tasks(parents=claim.tasks[0])]))
    refusal = only(house.store.reads.refusals())
    assert (refusal.process, refusal.n, refusal.token, refusal.tasks) == (frozen.process, frozen.n, claim.token, 2)
    assert len(house.offered()) == 2


@case("commit")
def sent_again_with_the_same_stamp_it_answers_as_the_first_time(house: House) -> None:
    house.any_run(house.tasks(3), house.tasks())
    worker = house.worker()
    one, two = sorted(worker.claim(), key=lambda claim: claim.tasks[0])
    worker.release(two)
    parts = [
        Part(one.token, one.tasks[:2], children=[house.tasks(4, parents=one.tasks[0])]),
        Part(two.token, two.tasks),
    ]
    first = worker.store.commit(worker.stamp(), parts, want(2))
    assert first.claimed.claims
    with house.nothing_changes():
        again = house.client().commit(worker.last, parts, want(2))
    assert (again.seq, again.refused) == (first.seq, first.refused)
    assert plain(again.claimed) == plain(first.claimed)
    assert len(house.store.reads.refusals()) == 1


@case("commit")
def sent_again_after_its_row_was_finished_it_still_answers_as_the_first_time(house: House) -> None:
    """The token is gone with the row, and that must not be taken for a refusal."""
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    first = worker.done(claim)
    with house.nothing_changes():
        again = worker.store.commit(worker.last, [Part(claim.token, claim.tasks)])
    assert (again.seq, again.refused) == (first.seq, ())


@case("commit")
def sent_again_when_every_part_was_refused_it_is_still_refused(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.release(claim)
    parts = [Part(claim.token, claim.tasks)]
    worker.commit(*parts)
    again = worker.store.commit(worker.last, parts)
    assert (again.seq, again.refused) == (0, (claim.token,))
    assert len(house.store.reads.refusals()) == 1


@case("commit")
def an_older_stamp_is_stale_and_changes_nothing(house: House) -> None:
    """The copy of a commit that was delivered late, after the next verb."""
    house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    part = Part(claim.token, claim.tasks[:1])
    worker.commit(part)
    worker.done(claim, claim.tasks[1:2])
    for n in (worker.n - 1, 1):
        with house.nothing_changes(), refused(StaleStamp):
            worker.store.commit(Stamp(worker.process, n), [part])


@case("commit")
def children_are_written_with_their_parents_end(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    walks = house.tasks([b"a", b"b"], parents=[claim.tasks[0], claim.tasks[1]])
    copies = house.tasks([b"c"], kind="copy", queue="slow", lane="a.org", parents=claim.tasks[1])
    worker.done(claim, children=[walks, copies])
    rows = [house.store.reads.task(task) for task in (*walks.ids, *copies.ids)]
    assert [(row.parent, row.body, row.kind, row.queue, row.lane, row.round) for row in rows if row] == [
        (claim.tasks[0], b"a", "walk", "default", None, 1),
        (claim.tasks[1], b"b", "walk", "default", None, 1),
        (claim.tasks[1], b"c", "copy", "slow", "a.org", 1),
    ]
    assert house.count(run, Tally.ADDED) == 4
    assert house.count(run, Tally.ADDED, "copy") == 1


@case("commit")
def children_land_in_the_round_after_their_parents_and_wait_for_it(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    child = house.tasks(parents=claim.tasks[0])
    worker.done(claim, claim.tasks[:1], children=[child])
    assert house.row_of(child.first).round == 1
    assert house.offered() == []
    worker.done(claim, claim.tasks[1:])
    house.settle(run)
    assert house.worker().take().round == 1


@case("commit")
def children_in_a_run_without_a_barrier_are_offered_at_once(house: House) -> None:
    for order in (Order.ANY, Order.DEPTH_FIRST):
        house.run(house.tasks(2), order=order)
        worker = house.worker()
        claim = worker.take()
        child = house.tasks(parents=claim.tasks[0])
        worker.done(claim, claim.tasks[:1], children=[child])
        assert house.offered() == [child.first]
        worker.done(claim, claim.tasks[1:])
        assert [c.round for c in house.worker().claim()] == [1]


@case("commit")
def the_next_claim_is_taken_in_the_same_verb(house: House) -> None:
    house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take(1)
    child = house.tasks(parents=claim.tasks[0])
    answer = worker.commit(Part(claim.token, claim.tasks, children=[child]), then=want())
    assert tasks_of(answer.claimed.claims) == sorted([claim.tasks[0] + 1, child.first])
    for next in answer.claimed.claims:
        worker.done(next)


@case("commit")
def without_a_want_nothing_is_claimed(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    assert worker.done(worker.take(1)).claimed.claims == ()
    assert len(house.offered()) == 1


@case("commit")
def the_next_claim_can_be_asked_for_again(house: House) -> None:
    house.any_run(house.tasks(3))
    worker = house.worker()
    claim = worker.take(1)
    parts = [Part(claim.token, claim.tasks)]
    first = worker.commit(*parts, then=want(1))
    house.worker().take(1)
    again = worker.store.commit(worker.last, parts, want(1))
    assert plain(again.claimed) == plain(first.claimed)
    worker.done(again.claimed.claims[0])


@case("commit")
def the_log_follows_the_order_of_commits(house: House) -> None:
    house.run(house.tasks(4))
    one, two = house.worker(), house.worker()
    first, second = one.take(2), two.take(2)
    seqs = [
        two.done(second, second.tasks[:1]).seq,
        one.done(first, first.tasks[:1]).seq,
        two.done(second, second.tasks[1:]).seq,
        one.done(first, first.tasks[1:]).seq,
    ]
    assert seqs == sorted(set(seqs))
    assert [event.seq for event in house.log()] == seqs


@case("commit")
def the_commits_of_a_wide_row_lose_nothing(house: House) -> None:
    tasks = house.tasks(20_000)
    run = house.run(tasks)
    worker = house.worker()
    while claims := worker.claim(5_000):
        for claim in claims:
            worker.done(claim, claim.tasks[::2])
            worker.done(claim, claim.tasks[1::2])
    assert house.live(run) == []
    assert house.count(run, Status.DONE) == 20_000
    assert len(house.store.reads.events(tasks.first, tasks.last)) == 20_000


@case("commit")
def several_processes_at_once_do_everything_once(house: House) -> None:
    """A tree of 1 + 5 + 25 + 125 tasks: every one exists once and ends once, whoever does it."""
    run = house.any_run(house.tasks([b"r"]))
    workers = [house.worker() for _ in range(3)]
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(lambda worker: _grow(worker, run), workers))
    assert house.store.reads.run(run).state is RunState.DONE
    paths = [b"r" + bytes(path) for depth in range(4) for path in product(b"01234", repeat=depth)]
    found = [row.body for row in every(lambda after: house.store.reads.tasks(run, after=after))]
    assert sorted(found) == sorted(paths)
    assert house.count(run, Status.DONE) == len(house.log()) == 156


def _grow(worker: Worker, run: int) -> None:
    """Give every task five children, down to the third level, until the run has ended."""
    seen = 0
    for _ in range(5_000):
        claims = worker.claim(4)
        for claim in claims:
            children = [
                NewTasks(worker.store.reserve(5), "walk", [body + b"%d" % i for i in range(5)], task)
                for task, body in zip(claim.tasks, claim.bodies, strict=True)
                if len(body) < 4
            ]
            worker.done(claim, children=children)
        if not claims:
            if worker.store.advance([(run, worker.store.reads.run(run).round)])[0].state.is_end:
                return
            seen = worker.store.wait(0.01, seen)
