"""`start`: create a run with its first tasks in one transaction, and open its first round unless it follows another.

If the id exists, or the name in that generation, it answers with that run and changes nothing.
"""

from __future__ import annotations

from ramify.errors import BadPayload, RamifyError, UnknownRun
from ramify.model.key import Hold
from ramify.model.run import Follows, NewRun, Order, Owner, RunState
from ramify.testing.conformance.house import House, refused
from ramify.testing.conformance.registry import case
from ramify.testing.paging import every


@case("start")
def a_started_run_is_open_at_round_0_and_its_tasks_are_offered(house: House) -> None:
    tasks = house.tasks(3)
    run = house.run(tasks)
    assert house.store.reads.run(run).state is RunState.OPEN
    assert house.store.reads.run(run).round == 0
    assert house.offered() == list(tasks.ids)
    assert house.worker().take().round == 0


@case("start")
def a_run_keeps_what_it_was_started_with(house: House) -> None:
    id = house.store.reserve(1)
    new = NewRun(
        id, "crawl", 3, "dag", Order.DEPTH_FIRST, None, True, b"\0params", b"digest\xff", "walk('é')",
        Owner("host", "boot", 7, "123", stays=False), max_tasks=5, definition="étl",
    )  # fmt: skip
    run = house.store.start(new).run
    assert run == house.store.reads.run(id)
    assert NewRun(**{field: getattr(run, field) for field in NewRun.__struct_fields__}) == new
    assert (run.created, run.ended, run.reason) == (house.clock.now(), None, None)
    empty = house.store.start(NewRun(house.store.reserve(1), params=b"", digest=b"")).run
    assert (empty.name, empty.params, empty.digest, empty.owner, empty.definition) == (None, b"", b"", None, None)


@case("start")
def a_run_knows_since_which_commit_a_tail_finds_its_events(house: House) -> None:
    house.finish(house.run(house.tasks()))
    before = house.store.reads.head()
    assert before
    run = house.run(house.tasks())
    since = house.store.reads.run(run).since
    assert since >= before
    assert [start.run for start in house.store.reads.tail(since).starts] == [run]
    assert not house.store.reads.tail(since).events


@case("start")
def started_again_by_id_it_is_the_same_run_and_nothing_changes(house: House) -> None:
    run = house.run(house.tasks(), name="crawl")
    with house.nothing_changes():
        again = house.client().start(NewRun(run, "another"), [house.tasks(2)])
    assert not again.created
    assert again.run == house.store.reads.run(run)


@case("start")
def started_again_by_name_it_is_the_same_run_and_nothing_changes(house: House) -> None:
    run = house.run(house.tasks(), name="crawl")
    with house.nothing_changes():
        again = house.store.start(NewRun(house.store.reserve(1), "crawl"), [house.tasks(2)])
    assert not again.created
    assert again.run.id == run


@case("start")
def the_next_generation_of_a_name_is_a_new_run(house: House) -> None:
    first = house.run(house.tasks(), name="crawl")
    second = house.run(house.tasks(), name="crawl", generation=2)
    found = house.store.reads.find_run("crawl")
    assert found is not None
    assert found.id == second
    assert house.store.reads.run(first).state is RunState.OPEN


@case("start")
def runs_without_a_name_have_nothing_in_common(house: House) -> None:
    assert house.run(house.tasks()) != house.run(house.tasks())
    assert len(house.offered()) == 2


@case("start")
def a_run_started_empty_takes_tasks_later(house: House) -> None:
    run = house.run(endless=True)
    tasks = house.tasks(2)
    house.add(run, tasks)
    house.settle(run)
    assert house.offered() == list(tasks.ids)


@case("start")
def an_endless_run_without_a_barrier_has_begun_before_its_first_task(house: House) -> None:
    run = house.any_run(endless=True)
    assert house.store.reads.run(run).round == 0
    assert house.store.movable(10) == ()
    house.add(run, tasks := house.tasks(2))
    with house.nothing_changes():
        assert not house.store.advance([(run, 0)])[0].moved
    assert house.offered() == list(tasks.ids)


@case("start")
def a_follower_starts_with_nothing_open(house: House) -> None:
    leader = house.run(house.tasks())
    follower = house.run(house.tasks(kind="copy"), follows=Follows(leader))
    assert house.store.reads.run(follower).round == -1
    assert house.store.reads.run(follower).follows == Follows(leader)
    assert house.worker().claim(kinds=["copy"]) == ()


@case("start")
def nobody_follows_a_run_that_does_not_exist(house: House) -> None:
    with house.nothing_changes(), refused(UnknownRun):
        house.run(house.tasks(), follows=Follows(house.store.reserve(1)))


@case("start")
def no_run_follows_itself(house: House) -> None:
    run = house.store.reserve(1)
    with house.nothing_changes(), refused(RamifyError):
        house.store.start(NewRun(run, follows=Follows(run)), [house.tasks()])


@case("start")
def a_name_that_some_store_could_not_keep_is_refused_by_all(house: House) -> None:
    for name in ("", "a\0b", "\ud800", "x" * 256):
        with house.nothing_changes(), refused(BadPayload):
            house.run(house.tasks(), name=name)
        with house.nothing_changes(), refused(BadPayload):
            house.run(house.tasks(), definition=name)
    house.run(house.tasks(), name="x" * 255)
    assert house.store.reads.find_run("x" * 255) is not None


@case("start")
def a_bad_first_task_leaves_no_run(house: House) -> None:
    run = house.store.reserve(1)
    with house.nothing_changes(), refused(BadPayload):
        house.store.start(NewRun(run, "crawl"), [house.tasks(), house.tasks(kind="")])
    with refused(UnknownRun):
        house.store.reads.run(run)
    assert house.store.reads.find_run("crawl") is None


@case("start")
def the_keys_of_first_tasks_are_taken(house: House) -> None:
    root = house.tasks(keys=[b"/"], hold=Hold.ONCE)
    run = house.any_run(root)
    again = house.tasks(keys=[b"/"], hold=Hold.ONCE)
    assert house.add(run, again).ids == ((root.first,),)
    assert house.offered() == [root.first]


@case("start")
def a_first_task_whose_key_is_taken_is_dropped_and_answered_with_its_holder(house: House) -> None:
    house.queue(held := house.tasks(keys=[b"k"], hold=Hold.UNIQUE))
    tasks = house.tasks(3, keys=[b"a", b"k", b"b"], hold=Hold.UNIQUE)
    started = house.store.start(NewRun(house.store.reserve(1)), [tasks])
    assert started.created
    assert started.added.ids == ((tasks.first, held.first, tasks.first + 1),)
    assert started.added.taken == {(0, 1)}
    again = house.store.start(NewRun(started.run.id), [tasks])
    assert (again.created, again.added.ids) == (False, ())


@case("start")
def an_unnamed_run_is_found_by_its_digest_and_its_owner_until_it_has_ended(house: House) -> None:
    mine, other = Owner("host", "boot", 7, "1"), Owner("host", "boot", 8, "2", stays=False)
    runs = [house.run(house.tasks(), digest=b"d", owner=owner) for owner in (mine, other, mine, mine)]
    house.run(house.tasks(), digest=b"d", owner=mine, name="named")
    house.run(house.tasks(), digest=b"e", owner=mine)
    house.run(house.tasks(), digest=b"d")
    reads = house.store.reads
    assert sorted(reads.owners(b"d"), key=lambda owner: owner.pid) == [mine, other]
    assert (list(reads.owners(b"x")), list(reads.owners(b""))) == ([], [])
    house.store.pause(runs[2])
    found = every(lambda after: reads.unnamed(b"d", mine, after=after, limit=2))
    assert [run.id for run in found] == [runs[0], runs[2], runs[3]]
    assert found[0] == reads.run(runs[0])
    house.store.cancel(runs[0])
    house.store.cancel(runs[1])
    assert list(reads.owners(b"d")) == [mine]
    assert [run.id for run in reads.unnamed(b"d", mine).rows] == runs[2:]
