"""`reads`: pages and counts for people and for checks, bounded and paged by cursor.

Exact reads hold every commit that matters; pages are a snapshot of an open run. (`tail.py` holds the third class.)
"""

from __future__ import annotations

from ramify.errors import BadPayload, UnknownRun
from ramify.model.commit import Part
from ramify.model.event import UNTRIED, History, Status, Tally
from ramify.model.join import NewJoins
from ramify.model.key import Hold
from ramify.model.outcome import Failure
from ramify.model.run import NewRun, RunState
from ramify.model.task import Row
from ramify.store.error_groups import GROUP_SCAN, MOST_GROUPS
from ramify.store.reads import PAGE_LIMIT
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import MANY, House, only, refused
from ramify.testing.conformance.registry import case
from ramify.testing.paging import every


@case("reads")
def a_run_that_does_not_exist_is_said_to_be_unknown(house: House) -> None:
    with refused(UnknownRun):
        house.store.reads.run(house.store.reserve(1))
    assert house.store.reads.find_run("nobody") is None


@case("reads")
def runs_are_paged_and_filtered_by_state(house: House) -> None:
    runs = [house.run(house.tasks()) for _ in range(7)]
    house.finish(runs[3])
    reads = house.store.reads
    assert [run.id for run in every(lambda after: reads.runs(after=after, limit=2))] == runs
    assert [run.id for run in reads.runs(state=RunState.DONE).rows] == [runs[3]]
    still = every(lambda after: reads.runs(state=RunState.OPEN, after=after, limit=4))
    assert [run.id for run in still] == runs[:3] + runs[4:]


@case("reads")
def runs_are_paged_from_the_newest_back(house: House) -> None:
    runs = [house.run(house.tasks()) for _ in range(5)]
    house.finish(runs[1])
    reads = house.store.reads
    found, after, more = list[int](), 0, True
    while more:
        page = reads.runs(newest_first=True, after=after, limit=2)
        found += [run.id for run in page.rows]
        after, more = page.after, page.more
    assert found == runs[::-1]
    still = reads.runs(state=RunState.OPEN, newest_first=True, after=runs[4], limit=2)
    assert ([run.id for run in still.rows], still.more) == ([runs[3], runs[2]], True)


@case("reads")
def runs_are_found_by_how_their_names_begin(house: House) -> None:
    def start(name: str | None, generation: int = 1) -> int:
        run = NewRun(house.store.reserve(1), name, generation, endless=True)
        return house.store.start(run).run.id

    named = [start("jobs/b"), start("jobs/a"), start("jobs/\U0010fffe"), start("jobs/a", 2)]
    for other in ("jobs", "jobs0", "job", "Jobs/a", None):
        start(other)
    reads = house.store.reads
    assert [run.id for run in every(lambda after: reads.runs(prefix="jobs/", after=after, limit=2))] == named
    last = reads.runs(prefix="jobs/", state=RunState.OPEN, newest_first=True, limit=2)
    assert ([run.id for run in last.rows], last.more) == (named[:1:-1], True)


@case("reads")
def tasks_are_paged_from_the_newest_back(house: House) -> None:
    run = house.run(first := house.tasks(3), second := house.tasks(2, kind="other"), third := house.tasks(4))
    house.run(house.tasks(2))
    reads = house.store.reads
    found, after, more = list[int](), 0, True
    while more:
        page = reads.tasks(run, newest_first=True, after=after, limit=2)
        found += [row.id for row in page.rows]
        after, more = page.after, page.more
    assert found == [*first.ids, *second.ids, *third.ids][::-1]
    walks = reads.tasks(run, kind="walk", newest_first=True, after=third.first + 1, limit=3)
    assert ([row.id for row in walks.rows], walks.more) == ([third.first, first.last, first.last - 1], True)


@case("reads")
def a_page_knows_whether_there_is_more(house: House) -> None:
    run = house.run(house.tasks(10))
    reads = house.store.reads
    assert reads.tasks(run, limit=9).more
    assert not reads.tasks(run, limit=10).more
    assert not reads.tasks(run, limit=11).more
    empty = reads.tasks(run, after=reads.tasks(run).after)
    assert (list(empty.rows), empty.more) == ([], False)


@case("reads")
def no_page_is_longer_than_the_limit_of_all_pages(house: House) -> None:
    run = house.run(house.tasks(PAGE_LIMIT + 5))
    page = house.store.reads.tasks(run, limit=10 * PAGE_LIMIT)
    assert len(page.rows) == PAGE_LIMIT
    assert page.more


@case("reads")
def a_task_is_read_as_it_was_added(house: House) -> None:
    due = house.clock.now() + SECOND
    tasks = house.tasks(
        [b"a", b"\0"],
        queue="slow",
        lane="a.org",
        priority=-3,
        due=due,
        parents=[None, 9],
        keys=[None, b"k"],
        details=[b"m", None],
    )
    run, at = house.run(tasks), house.clock.now()
    one, two = tasks.ids
    shared = (run, 0, "walk", "slow", "a.org", -3, due)
    assert house.store.reads.task(one) == Row(one, *shared, None, b"a", None, b"m", at)
    assert house.store.reads.task(two) == Row(two, *shared, 9, b"\0", b"k", None, at)
    assert house.store.reads.task(house.store.reserve(1)) is None
    span = only(house.store.reads.spans(run=run).rows)
    assert (span.first, span.last, span.run, span.round, span.kind) == (one, two, run, 0, "walk")
    assert (span.queue, span.lane, span.priority, span.due) == ("slow", "a.org", -3, due)


@case("reads")
def tasks_are_paged_by_id_and_filtered_by_kind(house: House) -> None:
    groups = [house.tasks(3, kind=kind) for kind in ("walk", "copy", "walk")]
    run = house.any_run(*groups)
    house.any_run(house.tasks(5))
    reads = house.store.reads
    ids = [task for group in groups for task in group.ids]
    assert [row.id for row in every(lambda after: reads.tasks(run, after=after, limit=2))] == ids
    walks = every(lambda after: reads.tasks(run, kind="walk", after=after, limit=2))
    assert [row.id for row in walks] == ids[:3] + ids[6:]


@case("reads")
def tasks_are_found_by_kind_and_key(house: House) -> None:
    one, other = house.queue(), house.queue()
    labels = [house.tasks(keys=[b"k"]) for _ in range(3)]
    for tasks in labels:
        house.add(one, tasks)
    house.add(other, house.tasks(keys=[b"k"]))
    house.add(one, house.tasks(kind="copy", keys=[b"k"]), house.tasks(keys=[b"other"]))
    reads = house.store.reads
    assert list(reads.find_tasks(one, "walk", b"k")) == [tasks.first for tasks in labels]
    assert list(reads.find_tasks(one, "walk", b"k", limit=2)) == [tasks.first for tasks in labels[:2]]
    assert list(reads.find_tasks(one, "walk", b"nothing")) == []


@case("reads")
def a_task_is_found_in_its_own_run_whatever_its_hold_also_after_it_has_ended(house: House) -> None:
    for hold in Hold:
        run, other = house.any_run(tasks := house.tasks(keys=[b"k"], hold=hold)), house.queue()
        worker = house.worker()
        for _ in range(2):
            assert list(house.store.reads.find_tasks(run, "walk", b"k")) == [tasks.first]
            assert list(house.store.reads.find_tasks(other, "walk", b"k")) == []
            for claim in worker.claim():
                worker.end(claim, status=Status.FAILED)


@case("reads")
def a_child_is_found_by_its_key(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    child, staged = house.tasks(keys=[b"k"]), house.tasks(keys=[b"k"])
    worker.stage(claim, staged)
    worker.done(claim, children=[child], publish=[staged.first])
    assert list(house.store.reads.find_tasks(run, "walk", b"k")) == [child.first, staged.first]


@case("reads")
def events_are_read_by_task_and_number(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[2:], Status.RETRYING)
    worker.done(claim)
    events = house.store.reads.events(claim.tasks[0], claim.tasks[2])
    assert [(event.task - claim.tasks[0], event.n) for event in events] == [(0, 1), (1, 1), (2, 1), (2, 2)]
    assert [event.task for event in house.store.reads.events(claim.tasks[1], claim.tasks[1])] == [claim.tasks[1]]


@case("reads")
def the_history_of_a_task_is_what_its_events_add_up_to(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    assert house.store.reads.history(claim.tasks[0]) == UNTRIED
    worker.end(claim, claim.tasks[:1], Status.DEFERRED)
    worker.end(claim, claim.tasks[:1], Status.RETRYING)
    assert house.store.reads.history(claim.tasks[0]) == History(events=2, attempts=1, deferrals=1)
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    assert house.store.reads.history(claim.tasks[0]) == History(3, 2, 1, 0, Status.FAILED, 1)


@case("reads")
def counters_say_what_happened(house: House) -> None:
    run = house.any_run(house.tasks(4), house.tasks(2, kind="copy"))
    workers = [house.worker() for _ in range(3)]
    for worker in workers:
        worker.done(worker.take(1, ["walk"]))
    workers[0].end(workers[0].take(kinds=["copy"]), status=Status.FAILED)
    assert (house.count(run, Tally.ADDED), house.count(run, Status.DONE)) == (4, 3)
    assert (house.count(run, Tally.ADDED, "copy"), house.count(run, Status.FAILED, "copy")) == (2, 2)
    assert set(house.store.reads.counts(run)) == {"walk", "copy"}


@case("reads")
def results_are_paged_by_id_and_filtered(house: House) -> None:
    run = house.any_run(walks := house.tasks(7), copies := house.tasks(2, kind="copy"))
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    statuses = [Status.DONE if i % 3 else Status.FAILED for i in range(7)]
    worker.commit(Part(claim.token, claim.tasks, statuses, [b"%d" % i for i in range(7)]))
    worker.done(worker.take(kinds=["copy"]), copies.ids[:1])
    reads = house.store.reads
    done = every(lambda after: reads.results(run, after=after, limit=2))
    assert [(r.task, r.status, r.value) for r in done] == [
        *((walks.first + i, Status.DONE, b"%d" % i) for i in (1, 2, 4, 5)),
        (copies.first, Status.DONE, None),
    ]
    failed = reads.results(run, status=Status.FAILED).rows
    assert [r.task - walks.first for r in failed] == [0, 3, 6]
    assert [r.task for r in reads.results(run, kind="copy").rows] == [copies.first]


@case("reads")
def results_tell_the_present_life(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.FAILED, values=[b"old"])
    worker.reopen(run, claim.tasks)
    assert list(house.store.reads.results(run, status=Status.FAILED).rows) == []
    house.settle(run)
    worker.done(worker.take(), values=[b"new"])
    assert list(house.store.reads.results(run, status=Status.FAILED).rows) == []
    assert [r.value for r in house.store.reads.results(run).rows] == [b"new"]


@case("reads")
def errors_are_grouped_largest_first(house: House) -> None:
    run = house.any_run(house.tasks(6), house.tasks(1, kind="copy"))
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    often, rare = Failure("OSError", "gone").encode(), Failure("ValueError", "bad").encode()
    statuses = [Status.FAILED] * 4 + [Status.QUARANTINED, Status.DONE]
    worker.commit(Part(claim.token, claim.tasks, statuses, [often, often, rare, often, rare, often]))
    worker.end(worker.take(kinds=["copy"]), status=Status.FAILED, values=[often])
    summary = house.store.reads.errors(run)
    assert summary.complete
    assert [(g.kind, g.type, g.text, g.count) for g in summary.groups] == [
        ("walk", "OSError", "gone", 3),
        ("walk", "ValueError", "bad", 2),
        ("copy", "OSError", "gone", 1),
    ]
    assert set(summary.groups[0].examples) <= {claim.tasks[i] for i in (0, 1, 3)}
    assert summary.groups[0].examples


@case("reads")
def errors_that_differ_in_numbers_and_names_are_one_group_with_an_example_and_its_times(house: House) -> None:
    run = house.any_run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    began = house.clock.now()
    for task, text in zip(claim.tasks, ("row 7 of 'a.csv'", "row 8 of 'b.csv'", "row 9 of 'b.csv'"), strict=True):
        worker.end(claim, [task], Status.FAILED, values=[Failure("ValueError", text).encode()])
        house.clock.advance(1)
    group = only(house.store.reads.errors(run).groups)
    assert (group.text, group.count, group.examples) == ("row # of '…'", 3, tuple(claim.tasks))
    assert group.example == "row 7 of 'a.csv'"
    assert (group.first, group.last) == (began, began + 2 * SECOND)


@case("reads")
def errors_of_all_runs_are_one_summary_without_those_that_are_forgotten(house: House) -> None:
    runs = [house.any_run(house.tasks(2)) for _ in range(3)]
    for claim in (worker := house.worker()).claim(MANY):
        worker.end(claim, status=Status.FAILED, values=[Failure("OSError").encode()] * len(claim.tasks))
    assert only(house.store.reads.errors(None).groups).count == 6
    house.settle(runs[1])
    assert house.store.forget(runs[1], limit=1).more
    assert only(house.store.reads.errors(None).groups).count == 4


@case("reads")
def however_many_errors_differ_only_so_many_groups_are_told_apart(house: House) -> None:
    many = 2 * MOST_GROUPS + 10
    run = house.run(house.tasks([b""] * many))
    worker = house.worker()
    texts = [f"{'x' * (i // 26)}{chr(97 + i % 26)} is unlike" for i in range(many - 2)] + ["often"] * 2
    for claim in worker.claim(MANY):
        worker.end(claim, status=Status.FAILED, values=[Failure("E", texts.pop()).encode() for _ in claim.tasks])
    summary = house.store.reads.errors(run)
    assert summary.complete
    assert len(summary.groups) == MOST_GROUPS
    assert (summary.groups[0].text, summary.groups[0].count) == ("often", 2)
    assert summary.others + sum(group.count for group in summary.groups) == many


@case("reads")
def an_error_summary_looks_at_so_many_failures_and_says_when_there_were_more(house: House) -> None:
    run = house.run(house.tasks([b""] * (GROUP_SCAN + 1)))
    worker = house.worker()
    for claim in worker.claim(MANY):
        worker.end(claim, status=Status.FAILED)
    summary = house.store.reads.errors(run)
    assert not summary.complete
    assert only(summary.groups).count == GROUP_SCAN


@case("reads")
def a_failure_of_any_form_is_an_error_too(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED, values=[b"\xff\0", b"[1, 2]", b""])
    assert sum(group.count for group in house.store.reads.errors(run).groups) == 3


@case("reads")
def a_page_of_nothing_is_refused(house: House) -> None:
    run = house.run(house.tasks())
    for limit in (0, -1):
        with refused(BadPayload):
            house.store.reads.tasks(run, limit=limit)


@case("reads")
def a_failure_without_a_record_is_an_error_too(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    assert [group.count for group in house.store.reads.errors(run).groups] == [1]


@case("reads")
def segments_and_spans_are_paged(house: House) -> None:
    run = house.any_run(*(house.tasks() for _ in range(7)))
    other = house.any_run(house.tasks())
    reads = house.store.reads
    rows = every(lambda after: reads.segments(after=after, limit=3))
    assert len(rows) == 8
    assert [row.id for row in rows] == sorted(row.id for row in rows)
    assert {row.run for row in every(lambda after: reads.segments(run=other, after=after))} == {other}
    spans = every(lambda after: reads.spans(run=run, after=after, limit=2))
    assert len(spans) == 7
    assert [span.first for span in spans] == sorted(span.first for span in spans)


@case("reads")
def joins_are_paged_and_filtered(house: House) -> None:
    groups = [house.tasks(kind="sum", waits=True) for _ in range(5)]
    joins = [NewJoins.one(tasks.first, int(i > 1)) for i, tasks in enumerate(groups)]
    run = house.any_run(*groups, joins=joins)
    reads = house.store.reads
    ids = [join.ids[0] for join in joins]
    assert [join.id for join in every(lambda after: reads.joins(run, after=after, limit=2))] == ids
    assert [join.id for join in reads.joins(run, fired=True).rows] == ids[:2]
    assert [join.id for join in reads.joins(run, fired=False).rows] == ids[2:]


@case("reads")
def a_store_that_was_only_used_is_whole(house: House) -> None:
    run = house.run(house.tasks(5))
    house.finish(run)
    assert not house.store.reads.damage()


@case("reads")
def the_newest_refusals_are_kept(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    for _ in range(5):
        claim = worker.take()
        worker.release(claim)
        worker.commit(Part(claim.token, claim.tasks))
    refusals = house.store.reads.refusals(limit=2)
    assert {refusal.n for refusal in refusals} == {worker.n, worker.n - 3}
    assert len(house.store.reads.refusals()) == 5


@case("reads")
def a_process_is_seen_with_the_last_number_it_used(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    worker.take(1)
    worker.take(1)
    seen = only(house.store.reads.processes())
    assert seen.last == worker.n == 2
