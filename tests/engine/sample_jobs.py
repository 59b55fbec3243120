"""Task functions for the engine's tests. They keep their memory in the module, as a worker process would."""

import threading
from collections.abc import AsyncIterator, Iterator

from ramify import AsyncSpawns, Engine, Return, Spawns, Stream, Tasks, current

jobs = Tasks()
#: An engine at the top of a module, where a worker process finds it.
versioned = Engine(include=[jobs], version="7.1")

#: Names that `fragile` fails for, until somebody takes them out.
broken: set[str] = set()
#: Opened and closed resources, in order.
trace: list[str] = []
#: `gated` waits here, and counts up `inside` when it does.
gate = threading.Event()
inside = threading.Semaphore(0)


@jobs.task
def tree(name: str, depth: int) -> Spawns[int]:
    if depth:
        for n in range(3):
            yield tree.of(f"{name}{n}", depth - 1)
    return len(name)


@jobs.task(key="name")
def keyed_tree(name: str, depth: int) -> Spawns[str]:
    if depth:
        for n in range(2):
            yield keyed_tree.of(f"{name}{n}", depth - 1)
    return name.upper()


@jobs.task(key="name")
def follow(name: str, depth: int) -> Spawns[list[str]]:
    leader = current().leader
    if depth:
        for n in range(2):
            yield follow.of(f"{name}{n}", depth - 1)
    return [leader.get(name), *(f"{kind} {key} {args['depth']}" for kind, key, args in leader.children(name))]


@jobs.task(retries=0)
def fragile(name: str) -> str:
    if name in broken:
        raise ValueError(f"{name} is broken")
    return name


@jobs.task(retries=0)
def several(*names: str) -> Spawns[str]:
    for name in names:
        yield fragile.of(name)
    return ""


@jobs.task
def endless(n: int) -> Spawns[int]:
    yield endless.of(n + 1)
    yield endless.of(n + 1)
    return n


@jobs.task
def fork(*names: str) -> str:
    current().spawn(*(fragile.of(name) for name in names), then=collect.of("all"))
    return "forked"


@jobs.task
def collect(title: str, names: Stream[str] = Stream()) -> str:
    return f"{title}: {' '.join(names)} ({len(names)}, {names.broken} broken)"


@jobs.task
def fork_always(*names: str) -> None:
    current().spawn(*(fragile.of(name) for name in names), then=collect.of("some").always())


@jobs.task
def tell(names: Stream[str] = Stream()) -> list[str]:
    return [
        f"{each.kind} {each.key} {each.arguments} {each.status.name} {each.failure.type}: {each.failure.text}"
        for each in names.failures
    ]


@jobs.task
def fork_told(*names: str) -> None:
    current().spawn(*(fragile.of(name).key(name) for name in names), fork.of(*names), then=tell.of().always())


@jobs.task
def wait_and_tell(*names: str) -> None:
    current().spawn(*(fragile.of(name).delay(9 * place) for place, name in enumerate(names)), then=tell.of().always())


@jobs.task
def with_params(name: str) -> object:
    return [name, current().params, current().run.name]


@jobs.task
def stop_at(n: int) -> Spawns[int]:
    if n == 3:
        current().run.stop("found it")
    yield stop_at.of(n + 1)
    return n


@jobs.task
def gated(name: str) -> str:
    inside.release()
    gate.wait(20)
    return name


@jobs.resource
def database() -> Iterator[str]:
    trace.append("open database")
    yield "database"
    trace.append("close database")


@jobs.resource
async def client() -> AsyncIterator[str]:
    trace.append("open client")
    yield "client"
    trace.append("close client")


@jobs.task
def use_database(name: str) -> str:
    return f"{name} {database()}"


@jobs.task
async def use_client(name: str) -> str:
    return f"{name} {await client()}"


@jobs.task
async def crawl(name: str, depth: int) -> AsyncSpawns[int]:
    if depth:
        yield crawl.of(f"{name}0", depth - 1)
        yield crawl.of(f"{name}1", depth - 1)
    yield Return(len(name))


@jobs.task
def chatty(lines: int) -> None:
    for n in range(lines):
        current().log.debug("line %d", n)
