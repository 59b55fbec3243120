"""`ramify jobs`: what is in the queues, without the program that works on them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from ramify import Engine, Tasks
from ramify.testing import Workbench, using
from tests.cli.conftest import HOSTILE, RAW, Desk

here = Tasks()


@here.task(retries=0)
def mail(to: str, ok: bool = True) -> None:
    if not ok:
        raise ValueError("bounced")


@here.task(queue="slow")
def report(day: int) -> None:
    pass


@pytest.fixture
def bench(desk: Desk) -> Iterator[Workbench]:
    with using(Engine("unused.db", include=[here]), desk.folder / "walk.db") as prepared:
        yield prepared


def test_without_jobs_there_is_nothing_to_show(desk: Desk) -> None:
    assert desk.out("jobs") == "no such jobs\n"
    assert desk.json("jobs") == []


def test_jobs_come_from_the_newest_back_and_say_where_they_stand(desk: Desk, bench: Workbench) -> None:
    engine = bench.engine
    first, second = engine.enqueue_many([mail.of("ann").key("a"), mail.of("bob", False)])
    bench.drain(raising=False)
    bench.advance(3_600)
    third = engine.enqueue(report.of(5))
    head, *rows = desk.out("jobs").splitlines()
    assert head.split() == ["job", "state", "for", "queue", "call"]
    assert [row.split()[:2] for row in rows] == [
        [str(third.id), "queued"],
        [str(second.id), "failed"],
        [str(first.id), "done"],
    ]
    assert rows[2].endswith('default  mail("ann")  key a')
    assert " slow " in rows[0]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--queue", "slow"], ["day 1"]),
        (["--kind", "mail"], ["ann", "bob", "cid"]),
        (["--state", "failed"], ["bob"]),
        (["--state", "queued", "--kind", "mail"], ["cid"]),
        (["--key", "a"], ["ann"]),
        (["--header", "tenant=acme"], ["bob"]),
        (["--older", "30m"], []),
        (["--newer", "30m"], ["ann", "bob", "cid", "day 1"]),
        (["--state", "running"], []),
        (["--queue", "none"], []),
    ],
)
def test_jobs_are_chosen(desk: Desk, bench: Workbench, options: list[str], found: list[str]) -> None:
    engine = bench.engine
    ann, bob = engine.enqueue_many([mail.of("ann").key("a"), mail.of("bob", False).headers(tenant="acme")])
    day = engine.enqueue(report.of(1))
    bench.drain(raising=False)
    cid = engine.enqueue(mail.of("cid"))
    names = {ann.id: "ann", bob.id: "bob", day.id: "day 1", cid.id: "cid"}
    assert sorted(names[each["job"]] for each in desk.json("jobs", *options)) == found


def test_a_long_list_comes_in_pages(desk: Desk, bench: Workbench) -> None:
    jobs = bench.engine.enqueue_many([*(report.of(n) for n in range(3)), *(mail.of(str(n)) for n in range(4))])
    shown: list[int] = []
    before = "0"
    while before:
        *rows, last = desk.out("jobs", "-n", "3", "--before", before).splitlines()[1:]
        more = last.startswith("… more: --before ")
        shown += [int(row.split()[0]) for row in (rows if more else [*rows, last])]
        before = last.split()[-1] if more else ""
    assert shown == sorted((job.id for job in jobs), reverse=True)


def test_programs_are_told_all_of_a_job(desk: Desk, bench: Workbench) -> None:
    job = bench.engine.enqueue(mail.of("ann").key("a").headers(tenant="acme").priority(3).lane("eu"))
    (told,) = desk.json("jobs")
    assert told.pop("since") == (enqueued := told.pop("enqueued"))
    assert datetime.fromisoformat(enqueued) == job.enqueued_at
    assert told == {
        "job": job.id,
        "state": "queued",
        "queue": "default",
        "kind": "mail",
        "key": "a",
        "headers": {"tenant": "acme"},
        "priority": 3,
        "lane": "eu",
        "arguments": ["ann"],
    }


def test_what_was_typed_wrong_is_told(desk: Desk) -> None:
    assert "expected NAME=VALUE, such as tenant=acme" in desk.err("jobs", "--header", "tenant", code=2)
    assert "expected a number with s, m, h, d or w, got 'soon'" in desk.err("jobs", "--older", "soon", code=2)


def test_nothing_hostile_reaches_the_terminal(desk: Desk, bench: Workbench) -> None:
    bench.engine.enqueue(mail.of(HOSTILE).key(HOSTILE))
    shown = desk.out("jobs")
    assert not set(RAW) & set(shown)


def test_all_that_is_for_runs_works_for_queues(desk: Desk, bench: Workbench) -> None:
    job = bench.engine.enqueue(mail.of("ann"))
    desk.out("pause", "jobs/default")
    bench.drain()
    assert job.state == "queued"
    desk.out("resume", "jobs/default")
    assert str(job.id) in desk.out("tasks", "jobs/default")
    desk.out("cancel", "jobs/default", str(job.id))
    assert job.state == "cancelled"


def test_a_job_is_named_by_its_id_alone(desk: Desk, bench: Workbench) -> None:
    job = bench.engine.enqueue(mail.of("ann"))
    assert f"task {job.id}" in desk.out("why", str(job.id))
    assert desk.out("cancel", str(job.id)) == f"task {job.id}: cancelled\n"
    assert [found["status"] for found in desk.json("events", str(job.id))] == ["cancelled"]
    assert desk.out("retry", str(job.id)).startswith("1 task of jobs/default begins again\n")
    bench.drain()
    assert job.state == "done"
