"""`stage`: write rows of a streamed fan-out under a staged segment, guarded by the claim's token. False: token void.

Nothing of it is visible until a part of that claim publishes it; without that it becomes garbage, which is listed and
which only `vacuum` removes.
"""

from __future__ import annotations

from ramify.errors import BadPayload, Reaped, StaleStamp
from ramify.model.commit import Part
from ramify.model.event import Status, Tally
from ramify.model.process import Stamp
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, Worker, refused
from ramify.testing.conformance.registry import case


@case("stage")
def staged_tasks_are_invisible(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(3, parents=claim.tasks[0], keys=[b"k"] * 3)
    assert worker.stage(claim, staged)
    reads = house.store.reads
    assert house.offered() == []
    assert house.count(run, Tally.ADDED) == 1
    assert reads.task(staged.first) is None
    assert [row.id for row in reads.tasks(run).rows] == list(claim.tasks)
    assert reads.find_tasks(run, "walk", b"k") == []
    assert [span.first for span in reads.spans(run=run).rows] == list(claim.tasks)
    assert [
        (row.state, row.owner, row.first, row.last) for row in house.segments(run) if row not in house.live(run)
    ] == [(SegmentState.STAGED, worker.process, staged.first, staged.last)]


@case("stage")
def published_they_are_children_like_others(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    blocks = [house.tasks(5, parents=claim.tasks[0]), house.tasks(2, kind="copy", parents=claim.tasks[0])]
    for block in blocks:
        assert worker.stage(claim, block)
    house.clock.advance(7)
    worker.done(claim, publish=[block.first for block in blocks])
    at = house.clock.now()
    assert house.count(run, Tally.ADDED) == 6
    assert house.count(run, Tally.ADDED, "copy") == 2
    assert [(row.round, list(row.tasks)) for row in house.live(run)] == [(1, list(block.ids)) for block in blocks]
    assert house.offered() == []
    house.settle(run)
    assert house.offered() == [*blocks[0].ids, *blocks[1].ids]
    row = house.store.reads.task(blocks[0].first + 1)
    assert row is not None
    assert (row.parent, row.body, row.added) == (claim.tasks[0], b"1", at)


@case("stage")
def published_into_a_paused_run_they_wait(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(2)
    worker.stage(claim, staged)
    house.store.pause(run)
    worker.done(claim, publish=[staged.first])
    assert house.offered() == []
    house.store.resume(run)
    assert house.offered() == list(staged.ids)


@case("stage")
def a_part_may_publish_some_and_discard_others(house: House) -> None:
    run = house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    good, bad, open = house.tasks(2), house.tasks(3), house.tasks(4)
    for block in (good, bad, open):
        worker.stage(claim, block)
    worker.done(claim, claim.tasks[:1], publish=[good.first], discard=[bad.first])
    assert _states(house, run) == {bad.first: SegmentState.GARBAGE, open.first: SegmentState.STAGED}
    worker.done(claim, claim.tasks[1:], publish=[open.first])
    assert _states(house, run) == {bad.first: SegmentState.GARBAGE}
    assert house.offered() == [*good.ids, *open.ids]


@case("stage")
def pieces_of_one_block_of_ids_are_one_range(house: House) -> None:
    """A block is filled as the stream goes; it is published, or discarded, by its first id."""
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    block = house.store.reserve(9)
    for first in range(block, block + 9, 3):
        worker.stage(claim, NewTasks(first, "walk", [b"%d" % id for id in range(first, first + 3)]))
    assert len(_states(house, run)) == 1
    worker.done(claim, publish=[block])
    assert house.offered() == list(range(block, block + 9))
    assert list(worker.take().bodies) == [b"%d" % id for id in range(block, block + 9)]


@case("stage")
def a_failed_attempt_discards_and_the_next_one_stages_anew(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    first, second = house.tasks(3), house.tasks(3)
    worker.stage(claim, first)
    worker.end(claim, status=Status.RETRYING, discard=[first.first])
    worker.stage(claim, second)
    worker.done(claim, publish=[second.first])
    assert house.offered() == list(second.ids)
    assert _states(house, run) == {first.first: SegmentState.GARBAGE}


@case("stage")
def what_a_finished_claim_did_not_publish_becomes_garbage(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(3)
    worker.stage(claim, staged)
    worker.done(claim)
    assert _states(house, run) == {staged.first: SegmentState.GARBAGE}
    assert house.count(run, Tally.ADDED) == 1


@case("stage")
def a_release_turns_staged_rows_to_garbage(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(3)
    worker.stage(claim, staged)
    worker.release(claim)
    assert _states(house, run) == {staged.first: SegmentState.GARBAGE}


@case("stage")
def the_reaper_turns_staged_rows_to_garbage(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(3)
    worker.stage(claim, staged)
    house.bury(worker)
    assert _states(house, run) == {staged.first: SegmentState.GARBAGE}
    again = house.worker()
    again.done(again.take())
    assert house.count(run, Tally.ADDED) == 1


@case("stage")
def a_void_token_stages_nothing(house: House) -> None:
    house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.release(claim)
    with house.nothing_changes():
        assert worker.stage(claim, house.tasks(3)) is False


@case("stage")
def a_reaped_process_stages_nothing(house: House) -> None:
    house.any_run(house.tasks())
    frozen = house.worker()
    claim = frozen.take()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        frozen.stage(claim, house.tasks(3))


@case("stage")
def a_refused_part_publishes_nothing(house: House) -> None:
    """The rows stay with the claim they were staged under."""
    house.any_run(house.tasks(), house.tasks())
    worker = house.worker()
    one, two = worker.claim()
    staged = house.tasks(3)
    worker.stage(one, staged)
    worker.release(two)
    with house.nothing_changes():
        assert worker.commit(Part(two.token, two.tasks, publish=[staged.first])).refused
    worker.done(one, publish=[staged.first])
    assert house.offered() == sorted([*two.tasks, *staged.ids])


@case("stage")
def staged_again_with_the_same_stamp_it_is_staged_once(house: House) -> None:
    house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(3)
    assert worker.stage(claim, staged)
    with house.nothing_changes():
        assert house.client().stage(worker.last, claim.token, [staged])
    worker.done(claim, publish=[staged.first])
    assert house.offered() == list(staged.ids)


@case("stage")
def an_older_stamp_stages_nothing(house: House) -> None:
    house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    _stage(worker, claim.token, house.tasks())
    _stage(worker, claim.token, house.tasks())
    with house.nothing_changes(), refused(StaleStamp):
        worker.store.stage(Stamp(worker.process, worker.n - 1), claim.token, [house.tasks()])


@case("stage")
def several_groups_are_staged_in_one_go_and_each_is_a_range(house: House) -> None:
    house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    groups = [house.tasks(2, lane=lane) for lane in ("left", "right", "middle")]
    assert worker.stage(claim, *groups)
    worker.done(claim, publish=[groups[0].first, groups[2].first])
    assert house.offered() == [*groups[0].ids, *groups[2].ids]


@case("stage")
def of_several_groups_all_are_staged_or_none(house: House) -> None:
    house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    with house.nothing_changes(), refused(BadPayload):
        worker.stage(claim, house.tasks(2), NewTasks(claim.tasks[0], "walk", [b""]))


@case("stage")
def a_stream_of_several_masks_width_is_published_whole(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    blocks = [house.tasks(20_000) for _ in range(2)]
    for block in blocks:
        worker.stage(claim, block)
    worker.done(claim, publish=[block.first for block in blocks])
    assert house.count(run, Tally.ADDED) == 40_001
    assert sum(len(row.tasks) for row in house.live(run)) == 40_000


def _states(house: House, run: int) -> dict[int, SegmentState]:
    """The rows that are not live, by their first id."""
    live = house.live(run)
    return {row.first: row.state for row in house.segments(run) if row not in live}


def _stage(worker: Worker, token: bytes, tasks: NewTasks) -> None:
    assert worker.store.stage(worker.stamp(), token, [tasks])


@case("stage")
def the_rows_of_two_parents_are_two_ranges(house: House) -> None:
    """Each parent publishes its own: one that ends must not publish, or lose, what another is still staging."""
    house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    first = house.store.reserve(4)
    for at, parent in enumerate(claim.tasks):
        worker.stage(claim, NewTasks(first + 2 * at, "walk", [b""] * 2, parents=parent))
    worker.done(claim, claim.tasks[:1], publish=[first])
    assert house.offered() == [first, first + 1]
    worker.done(claim, claim.tasks[1:], publish=[first + 2])
    assert house.offered() == [first, first + 1, first + 2, first + 3]
