"""What both type checkers know about tasks, calls, runs and resources. Checked, never run."""

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, assert_type

from ramify import (
    AsyncResource,
    AsyncSpawns,
    Call,
    CurrentValues,
    DagPlan,
    EndedRun,
    Engine,
    FailedTask,
    Following,
    Job,
    Node,
    Published,
    Resource,
    ResultRow,
    Return,
    Run,
    Spawns,
    Stream,
    Task,
    TaskError,
    Tasks,
    Topic,
    TopicReader,
    Values,
    current,
)

engine = Engine()
jobs = Tasks()


@engine.task
def plain(path: str, depth: int = 0) -> int:
    return len(path) + depth


@engine.task
def split(path: str) -> list[str]:
    return path.split("/")


@engine.task(retries=1)
def plain_with_options(path: str) -> str:
    return path


@engine.task
def grow(path: str) -> Spawns[int]:
    yield plain.of(path)
    yield grow.of(path)
    return 3


def host_of(url: str) -> str | None:
    return url.partition("/")[0] or None


@engine.task(key="path", lane=host_of)
def grow_with_options(path: str) -> Spawns[str]:
    yield plain.of(path)
    return path


@engine.task
async def fetch(url: str) -> bytes:
    return url.encode()


@engine.task(timeout=3)
async def fetch_with_options(url: str) -> bytes:
    return url.encode()


@jobs.task
async def crawl(url: str) -> AsyncSpawns[int]:
    yield crawl.of(url)
    yield Return(3)


@jobs.task(rate="10/s")
async def crawl_with_options(url: str) -> AsyncSpawns[str]:
    yield crawl.of(url)
    yield Return(url)


@engine.task
def only_spawn(path: str) -> Iterator[Call[Any]]:
    yield plain.of(path)


@engine.task
def add_up(path: str, sizes: Stream[int] = Stream()) -> int:
    assert_type(list(sizes.failures), list[TaskError])
    return sum(sizes) + len(sizes) + sizes.broken


@engine.resource
def database() -> Iterator[dict[str, int]]:
    yield {}


@jobs.resource
async def client() -> AsyncIterator[list[str]]:
    yield []


# A task is known by what it takes and what comes of it in the end, however it is called.
of_grow: Task[[str], int] = grow
of_fetch: Task[[str], bytes] = fetch
of_crawl: Task[[str], int] = crawl

assert_type(plain.of("x"), Call[int])
assert_type(plain.of("x", depth=2), Call[int])
assert_type(plain_with_options.of("x"), Call[str])
assert_type(grow.of("x"), Call[int])
assert_type(grow_with_options.of("x"), Call[str])
assert_type(fetch.of("x"), Call[bytes])
assert_type(fetch_with_options.of("x"), Call[bytes])
assert_type(crawl.of("x"), Call[int])
assert_type(crawl_with_options.of("x"), Call[str])
assert_type(add_up.of("x"), Call[int])

# Called, it is the function it was.
assert_type(plain("x"), int)
assert_type(grow("x"), Spawns[int])
assert_type(grow_with_options("x"), Spawns[str])
assert_type(crawl("x"), AsyncSpawns[int])
assert_type(only_spawn("x"), Iterator[Call[Any]])

# A call keeps its type through its options.
assert_type(grow.of("x").key("k").delay(3).priority(-1), Call[int])

# A run gives what its roots give.
assert_type(engine.run(grow.of("x")), Run[int])
assert_type(engine.run([grow.of("x"), plain.of("y")]), Run[int])
assert_type(engine.start(fetch.of("x"), name="f"), Run[bytes])
assert_type(engine.run(grow.of("x")).results(), Iterator[int])
assert_type(engine.run(grow.of("x")).results(plain_with_options), Iterator[str])
assert_type(sum(engine.run(grow.of("x")).results()), int)
assert_type(engine.run(grow.of("x")).results(rows=True, after="7-1"), Iterator[ResultRow[int]])
assert_type(engine.run(grow.of("x")).results(plain_with_options, rows=True, partial=True), Iterator[ResultRow[str]])
assert_type([row.result for row in engine.run(grow.of("x")).results(rows=True)], list[int])

# A node stands for what its call gives, a map for a stream of that.
dag = engine.dag("typed")
one = dag.add(plain.of(dag.param("path", str)))
assert_type(one, Node[int])
assert_type(one.out, int)
several = dag.add(split.of("x"))
assert_type(several.each, str)
mapped = dag.map(plain.of(several.each), on_failed="skip")
assert_type(mapped, Node[Stream[int]])
assert_type(mapped.out, Stream[int])
assert_type(mapped.each, int)
assert_type(several.case("x"), Node[None])
assert_type(dag.of(path="x"), DagPlan)
assert_type(dag.trigger(plain.of("x")), Node[int])
assert_type(one.produces("x"), Node[int])
assert_type(dag.wait("other"), Node[Any])
assert_type(plain.of("x").poll(30, timeout=60), Call[int])

# Values have the type that they were asked for.
numbers = engine.topic("numbers", int, keep=60)
assert_type(numbers, Topic[int])
assert_type(numbers.read("billing"), TopicReader[int])
assert_type(numbers.follow(since=0), Following[int])
assert_type(next(iter(numbers.read("billing"))).value, int)
assert_type(engine.topic("maybe", int | None), Topic[Any])
assert_type(engine.failures, Topic[FailedTask])
assert_type(engine.run_ends, Topic[EndedRun])


@engine.on(numbers)
def hear(number: int) -> str:
    return str(number)


@engine.on(numbers, ordered=True, since=0, retries=2)
async def hear_all(event: Published[int]) -> float:
    return event.number / event.value


@engine.on("numbers.*")
def hear_some(number: int) -> Spawns[int]:
    yield plain.of(str(number))
    return number


assert_type(hear.of(3), Call[str])
assert_type(hear(3), str)
assert_type(hear_all.of(next(iter(numbers.read("billing")))), Call[float])
assert_type(hear_some.of(3), Call[int])

quotas = engine.values("quota", int)
assert_type(quotas, Values[int])
assert_type(quotas.get("acme"), int | None)
assert_type(quotas.get("acme", 0), int)
assert_type(quotas.get("acme", "none"), int | str)
assert_type(quotas.update("acme", lambda used: used + 1, default=0), int)
assert_type(quotas.delete("acme"), bool)
assert_type(dict(quotas.items()), dict[str, int])
assert_type(engine.values("pages", list[str]), Values[list[str]])
assert_type(engine.values("maybe", int | None), Values[Any])
assert_type(current().values("quota", int), CurrentValues[int])
assert_type(current().values("quota", int).get("acme"), int | None)
assert_type(current().values("quota", int).get("acme", 0), int)
assert_type(current().values("quota", int).update("acme", lambda used: used + 1, ttl=60), int)

assert_type(engine.job_for(plain, "x"), Job[int] | None)
assert_type(engine.job_for(fetch, "x"), Job[bytes] | None)
assert_type(engine.enqueue(grow.of("x"), after=engine.job_for(plain, "x")), Job[int])
assert_type(engine.enqueue_many([plain.of("x")], after=engine.job(7)), list[Job[int]])
assert_type(
    engine.enqueue_many([plain.of("x")], then=fetch.of("x"), after=None),
    tuple[list[Job[int]], Job[bytes]],
)
assert_type(engine.find("f"), Run[Any] | None)
assert_type(list(engine.runs()), list[Run[Any]])

assert_type(database, Resource[dict[str, int]])
assert_type(database(), dict[str, int])
assert_type(client, AsyncResource[list[str]])


async def edges() -> None:
    pending = assert_type(fetch("x"), Coroutine[Any, Any, bytes])
    assert_type(await pending, bytes)
    run = engine.start(grow.of("x"))
    assert_type(await run, Run[int])
    assert_type(await client(), list[str])
    async for result in run.aresults():
        assert_type(result, int)
    async with engine.working():
        pass
    with engine.working(queues=["default"], threads=2):
        pass
