"""Headers go on in all that a task makes: children, continuations, what follows jobs, and runs that it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest

from ramify import AsyncSpawns, Backoff, Current, Engine, Return, Spawns, Stream, Tasks, current, steps
from ramify.kernel.tuning import PIECE
from ramify.testing import using

GIVEN = {"request": "r-7", "tenant": "acme"}
family = Tasks()


@family.task
def child(name: str) -> tuple[str, dict[str, str]]:
    return name, dict(current().headers)


@family.task
def after(name: str, results: Stream[Any] = Stream()) -> tuple[str, dict[str, str]]:
    assert len(results)
    return name, dict(current().headers)


@family.task
def yielding() -> Spawns[None]:
    yield child.of("yielded")
    yield child.of("its own").headers(tenant="other")
    yield child.of("with extras").retries(7)


@family.task
async def slowly_yielding() -> AsyncSpawns[None]:
    yield child.of("yielded")
    yield Return(None)


@family.task
def spawning() -> None:
    current().spawn(child.of("spawned"))
    current().spawn(child.of("member"), then=after.of("continuation"))


@family.task
def very_fertile(many: int) -> None:
    current().spawn(child.of(str(n)) for n in range(many))


@family.task
def very_fertile_by_yield(many: int) -> Spawns[None]:
    for n in range(many):
        yield child.of(str(n))


@family.task(retries=1, backoff=Backoff(first=0))
def second_time() -> Spawns[None]:
    yield child.of("yielded")
    if current().attempt == 1:
        raise ValueError("not yet")


@family.task
def numbers(n: int) -> list[str]:
    return [str(each) for each in range(n)]


@family.task
def same(many: Stream[tuple[str, dict[str, str]]]) -> str:
    assert [headers for _, headers in many] == [GIVEN] * 2
    return "x"


service = Engine("memory:", include=[family])
report = service.dag("report")
report.add(child.of("reported"))
etl = service.dag("etl")
etl.add(numbers.of(1))
etl.trigger(report.of())
inner = service.pipeline("inner", steps(child))
outer = service.pipeline("outer", steps(numbers).expand(child).collapse(same).run(inner))


@service.task
def start() -> None:
    service.start(etl.of(), name="night")
    service.start(outer.of(2), name="deep")


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine("memory:", include=[family])
    yield engine
    engine.close()


def told(run: Any) -> dict[str, dict[str, str]]:
    """What headers those had of a run who tell."""
    return {each[0]: each[1] for each in run.results() if each is not None}


def test_children_have_the_headers_of_the_task_that_made_them_beside_their_own(engine: Engine) -> None:
    assert told(engine.run(yielding.of().headers(**GIVEN))) == {
        "yielded": GIVEN,
        "its own": {"request": "r-7", "tenant": "other"},
        "with extras": GIVEN,
    }


@pytest.mark.parametrize("make", [slowly_yielding, second_time], ids=lambda task: task.kind)
def test_so_have_those_of_async_generators_and_of_later_attempts(engine: Engine, make: Any) -> None:
    assert told(engine.run(make.of().headers(**GIVEN))) == {"yielded": GIVEN}


def test_spawned_children_and_continuations_have_them_too(engine: Engine) -> None:
    found = told(engine.run(spawning.of().headers(**GIVEN)))
    assert found == dict.fromkeys(["spawned", "member", "continuation"], GIVEN)


@pytest.mark.parametrize("make", [very_fertile, very_fertile_by_yield], ids=lambda task: task.kind)
def test_so_have_very_many(engine: Engine, make: Any) -> None:
    found = told(engine.run(make.of(PIECE + 3).headers(request="r-7")))
    assert len(found) == PIECE + 3
    assert all(headers == {"request": "r-7"} for headers in found.values())


def test_one_task_of_a_chunk_passes_nothing_on_to_the_children_of_another(engine: Engine) -> None:
    run = engine.run([yielding.of().headers(request="r-7"), yielding.of(), yielding.of().headers(request="r-8")])
    found = [each[1] for each in cast("Iterable[Any]", run.results()) if each is not None and each[0] == "yielded"]
    assert sorted(map(str, found)) == ["{'request': 'r-7'}", "{'request': 'r-8'}", "{}"]


def test_what_is_around_an_attempt_can_add_to_what_it_passes_on_and_to_nothing_else(engine: Engine) -> None:
    @engine.around
    def span(me: Current) -> Iterator[None]:
        if me.kind == "yielding":
            me._pass_on({"span": me.headers["request"]})
        yield

    # So many that some of them are in one chunk, one after the other.
    requests = [f"r-{n}" for n in range(300)]
    run = engine.run([yielding.of().headers(request=each) for each in requests], threads=1)
    found = [each[1] for each in cast("Iterable[Any]", run.results()) if each is not None and each[0] == "yielded"]
    assert sorted(found, key=str) == sorted(({"request": each, "span": each} for each in requests), key=str)


def test_what_follows_a_job_has_its_headers(engine: Engine) -> None:
    first = engine.enqueue(child.of("first").headers(**GIVEN))
    follower = first.then(after.of("after").headers(tenant="other"))
    assert follower.headers == {"request": "r-7", "tenant": "other"}
    assert engine.job(10_000).headers == {}


def test_what_follows_several_jobs_has_the_headers_that_all_of_them_have(engine: Engine) -> None:
    calls = [child.of("a").headers(**GIVEN), child.of("b").headers(request="r-8", tenant="acme")]
    _, total = engine.enqueue_many(calls, then=after.of("after"))
    assert total.headers == {"tenant": "acme"}
    _, total = engine.enqueue_many([*calls, child.of("c")], then=after.of("after"))
    assert total.headers == {}


def test_runs_that_a_task_starts_have_its_headers_and_pass_them_on() -> None:
    with using(service) as bench:
        service.enqueue(start.of().headers(**GIVEN))
        bench.finish()
        found = [told(service.find(name)) for name in ("night/report", "deep/inner")]
    assert found == [{"reported": GIVEN}, {"x": GIVEN}]
