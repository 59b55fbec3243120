"""`claim`: take segments, or the head of a large one, at most `want.limit` tasks, under fresh tokens.

Only named kinds, wanted queues and runs, and no busy lane; nothing before it is due. Sent again with the same stamp it
returns the same claims. One that finds nothing writes nothing, and sent again it tries again. A crash right after it
leaves claims that the reaper offers again. (`order.py` says who comes first, `suspects.py` what happens to rows whose
owner died, `left.py` and `next_due.py` what a claim says about the tasks it did not take.)
"""

from __future__ import annotations

from itertools import cycle

from ramify.errors import Reaped, StaleStamp
from ramify.model.commit import Part
from ramify.model.death import NO_DEATHS
from ramify.model.event import UNTRIED
from ramify.model.join import NewJoins
from ramify.model.policy import PARKED
from ramify.model.process import Stamp
from ramify.model.run import RunState
from ramify.model.segment import MASK_WIDTH, SegmentState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, plain, refused, tasks_of, want
from ramify.testing.conformance.registry import case


@case("claim")
def a_claim_holds_its_tasks_as_parallel_columns(house: House) -> None:
    tasks = house.tasks([b"a", b"b", b"c"], parents=[1, None, 2])
    run = house.run(tasks)
    claim = house.worker().take()
    assert (claim.run, claim.round, claim.kind, claim.queue, claim.lane) == (run, 0, "walk", "default", None)
    assert list(claim.tasks) == list(tasks.ids)
    assert list(claim.bodies) == [b"a", b"b", b"c"]
    assert list(claim.parents) == [1, None, 2]
    assert not claim.details
    assert not claim.marks
    assert all(claim.history.get(task, UNTRIED) == UNTRIED for task in claim.tasks)
    assert claim.deaths == NO_DEATHS


@case("claim")
def the_row_of_a_claim_names_its_owner(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    worker.take()
    assert [(row.state, row.owner) for row in house.live(run)] == [(SegmentState.CLAIMED, worker.process)]


@case("claim")
def what_is_held_is_not_given_to_anybody_else(house: House) -> None:
    house.run(house.tasks(5))
    worker = house.worker()
    worker.take()
    assert worker.claim() == ()
    assert house.worker().claim() == ()


@case("claim")
def at_most_limit_tasks_are_taken_and_the_rest_stays(house: House) -> None:
    tasks = house.tasks(10)
    house.run(tasks)
    one, two = house.worker(), house.worker()
    first, second = one.take(4), two.take(4)
    assert list(first.tasks) == list(tasks.ids[:4])
    assert list(second.tasks) == list(tasks.ids[4:8])
    assert house.offered() == list(tasks.ids[8:])


@case("claim")
def several_rows_fill_one_claim_up_to_the_limit(house: House) -> None:
    groups = [house.tasks(3) for _ in range(3)]
    house.any_run(*groups)
    claims = house.worker().claim(7)
    assert sum(len(claim.tasks) for claim in claims) == 7
    assert len({claim.token for claim in claims}) == len(claims)


@case("claim")
def a_limit_of_nothing_gives_nothing(house: House) -> None:
    house.run(house.tasks())
    assert house.worker().claim(0) == ()


@case("claim")
def a_wide_row_is_split_before_any_of_its_tasks_is_claimed(house: House) -> None:
    """70,000 tasks in one row: no claim is wider than a mask, none is lost, none is given twice."""
    tasks = house.tasks(70_000)
    run = house.run(tasks)
    assert len(house.live(run)) == 1
    turns = cycle([house.worker(), house.worker()])
    taken: list[int] = []
    while claims := next(turns).claim(20_000):
        assert all(len(claim.tasks) <= MASK_WIDTH for claim in claims)
        taken += tasks_of(claims)
    assert len(taken) == 70_000
    assert sorted(taken) == list(tasks.ids)


@case("claim")
def the_head_of_a_row_with_holes_is_its_first_unfinished_tasks(house: House) -> None:
    tasks = house.tasks(10)
    house.run(tasks)
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, [t for t in tasks.ids if t % 2])
    worker.release(claim)
    left = [t for t in tasks.ids if not t % 2]
    head = worker.take(2)
    assert list(head.tasks) == left[:2]
    assert list(head.bodies) == [tasks.bodies[t - tasks.first] for t in left[:2]]
    assert list(house.worker().take().tasks) == left[2:]


@case("claim")
def tokens_are_fresh_every_time(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    tokens = set()
    for _ in range(5):
        claim = worker.take()
        tokens.add(claim.token)
        worker.release(claim)
    assert len(tokens) == 5


@case("claim")
def a_kind_that_is_not_named_is_never_claimed(house: House) -> None:
    """A task nobody knows waits and costs no attempt."""
    known, unknown = house.tasks(kind="walk"), house.tasks(kind="copy")
    run = house.any_run(unknown, known)
    with house.nothing_changes():
        assert house.worker().claim(kinds=["sum"]) == ()
        assert house.worker().claim(kinds=[]) == ()
    assert tasks_of(house.worker().claim(kinds=["walk"])) == [known.first]
    assert not house.store.reads.events(unknown.first, unknown.last)
    assert tasks_of(house.worker().claim(kinds=["copy"])) == [unknown.first]
    assert house.count(run, 0, "copy") == 1


@case("claim")
def only_the_wanted_queues_are_served(house: House) -> None:
    fast, slow = house.tasks(queue="fast"), house.tasks(queue="slow")
    house.any_run(fast, slow)
    assert house.offered(want(queues=["slow", "other"])) == [slow.first]
    assert house.offered(want(queues=[])) == []
    assert house.offered(want()) == [fast.first, slow.first]


@case("claim")
def only_the_wanted_runs_are_served(house: House) -> None:
    one, two = house.tasks(), house.tasks()
    first, second = house.run(one), house.run(two)
    assert house.offered(want(runs=[second])) == [two.first]
    assert house.offered(want(runs=[])) == []
    assert house.offered(want(runs=[first, second])) == [one.first, two.first]


@case("claim")
def busy_lanes_are_left_alone(house: House) -> None:
    a, b, none = house.tasks(lane="a.org"), house.tasks(lane="b.org"), house.tasks()
    house.any_run(a, b, none)
    assert house.offered(want(busy_lanes=["a.org"])) == [b.first, none.first]
    assert house.offered(want(busy_lanes=["a.org", "b.org"])) == [none.first]


@case("claim")
def nothing_is_given_before_it_is_due(house: House) -> None:
    due = house.clock.now() + 10 * SECOND
    later, now = house.tasks(due=due), house.tasks()
    house.any_run(later, now)
    assert house.offered() == [now.first]
    house.clock.advance(9.999999)
    assert house.offered() == [now.first]
    house.clock.advance(0.000001)
    assert house.offered() == [later.first, now.first]


@case("claim")
def a_parked_task_is_never_due(house: House) -> None:
    parked = house.tasks(due=PARKED)
    run = house.any_run(parked)
    house.clock.advance(10 * 365 * 86_400)
    assert house.offered() == []
    assert house.row_of(parked.first).due == PARKED
    assert not house.advance(run, house.store.reads.run(run).round).state.is_end


@case("claim")
def sent_again_with_the_same_stamp_it_returns_the_same_claims(house: House) -> None:
    """A lost reply would otherwise strand the work with a process that lives and does not know of it."""
    groups = [house.tasks(3, keys=[b"k"] * 3, details=[b"m"] * 3) for _ in range(3)]
    house.any_run(*groups)
    worker = house.worker()
    first = worker.ask(want(5))
    house.worker().claim(2)
    again = worker.store.claim(worker.last, want(5))
    assert first.claims
    assert plain(again) == plain(first)
    for claim in again.claims:
        worker.done(claim)


@case("claim")
def sent_again_it_returns_the_same_claims_to_another_client_of_the_process(house: House) -> None:
    """The connection was lost; the answer is the store's, not the connection's."""
    house.run(house.tasks(5))
    worker = house.worker()
    first = worker.ask(want(3))
    assert plain(house.client().claim(worker.last, want(3))) == plain(first)


@case("claim")
def sent_again_after_its_row_was_taken_back_it_is_still_answered(house: House) -> None:
    """Reopening a join's member takes the row of its task away from whoever holds it; the token is void."""
    waiting = house.tasks(kind="sum", waits=True)
    member = house.tasks(join=waiting.first)
    run = house.any_run(member, waiting, joins=[NewJoins.one(waiting.first, 1)])
    worker, other = house.worker(), house.worker()
    other.done(other.take())
    claim = worker.take()
    other.reopen(run, [member.first, waiting.first])
    again = worker.store.claim(worker.last, want())
    assert {c.token for c in again.claims} <= {claim.token}
    assert worker.commit(Part(claim.token, claim.tasks)).refused == (claim.token,)
    assert house.finish(run).state is RunState.DONE


@case("claim")
def a_claim_that_finds_nothing_writes_nothing(house: House) -> None:
    """Not even its stamp: idle processes would keep the disk busy, and wake one another for ever.

    Where a verb may be carried out late, the first one that goes on to take uses its number up; the others only look.
    """
    house.run(house.tasks(2, kind="copy"))
    worker, other = house.worker(), house.client()
    worker.take(1, ["copy"])
    seen = other.wait(0, 0)
    with house.nothing_changes():
        for _ in range(3):
            assert worker.ask(want(kinds=["walk"])).claims == ()
            assert worker.ask(want(0)).claims == ()
    assert other.wait(0, seen) == seen
    (process,) = house.store.reads.processes()
    assert process.last == (2 if house.store.describe().delivers_late else 1)


@case("claim")
def one_that_found_nothing_tries_again_when_it_is_sent_again(house: House) -> None:
    worker = house.worker()
    assert worker.ask(want()).claims == ()
    tasks = house.tasks()
    house.run(tasks)
    found = worker.store.claim(worker.last, want())
    assert tasks_of(found.claims) == [tasks.first]
    assert plain(worker.store.claim(worker.last, want())) == plain(found)


@case("claim")
def one_that_found_nothing_is_stale_after_a_later_number(house: House) -> None:
    worker = house.worker()
    assert worker.ask(want()).claims == ()
    late = worker.last
    house.run(house.tasks(4))
    worker.take(1)
    with house.nothing_changes(), refused(StaleStamp):
        worker.store.claim(late, want())


@case("claim")
def one_that_finds_nothing_is_refused_to_the_reaped_and_the_stale(house: House) -> None:
    worker, frozen = house.worker(), house.worker()
    house.run(house.tasks())
    worker.done(worker.take())
    with refused(StaleStamp):
        worker.store.claim(Stamp(worker.process, worker.n - 1), want())
    house.write_off(frozen)
    with refused(Reaped):
        frozen.claim()


@case("claim")
def an_older_stamp_is_stale_and_takes_nothing(house: House) -> None:
    house.run(house.tasks(4))
    worker = house.worker()
    worker.take(1)
    worker.take(1)
    with house.nothing_changes(), refused(StaleStamp):
        worker.store.claim(Stamp(worker.process, worker.n - 1), want())


@case("claim")
def numbers_may_have_gaps(house: House) -> None:
    """A verb that never left the process used up its number all the same."""
    house.run(house.tasks(4))
    worker = house.worker()
    worker.take(1)
    worker.n += 10
    worker.take(1)


@case("claim")
def a_process_that_was_reaped_is_given_nothing(house: House) -> None:
    """It would hold the work for ever: nobody reaps a process twice."""
    house.run(house.tasks(4))
    frozen = house.worker()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        frozen.claim()


@case("claim")
def the_claim_of_a_process_that_was_reaped_is_not_given_out_again(house: House) -> None:
    """The late copy of a claim that was answered before the process was reaped."""
    house.run(house.tasks(4))
    frozen = house.worker()
    frozen.take()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        frozen.store.claim(frozen.last, want())
