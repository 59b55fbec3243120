"""Pipelines that are drawn at random, and what must come of them, by an interpreter of a few lines that knows no store.

A drawing is a list of verbs, plain values, so that another process can be given it. `build` makes steps of it,
`carried_out` says how each step must end, by its key, and with which result. What fails in a drawing fails until
somebody mends it: `broken` says whether anything still does. Gates are answered with `ANSWER`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal

import msgspec

from ramify import Fatal, Route, Steps, Stream, Tasks, current, steps
from ramify.model.event import Status
from ramify.model.key import key_text
from ramify.model.run import RunState
from ramify.model.task import is_own
from ramify.store.contract import Store
from ramify.testing import oracle
from ramify.testing.paging import every

Sort = Literal["step", "divide", "expand", "divert", "gate", "sleep", "run", "ask"]
SORTS: tuple[Sort, ...] = ("step", "step", "divide", "expand", "expand", "divert")
#: With what waits for people and for a time; and also for runs of their own, one of which asks people as well.
ASKING: tuple[Sort, ...] = (*SORTS, "gate", "sleep")
WAITING: tuple[Sort, ...] = (*ASKING, "expand", "run", "run", "ask")
ANSWER = 5
SOON = timedelta(milliseconds=10)
tasks = Tasks()


class Verb(msgspec.Struct, frozen=True):
    """What follows: a step, a wait that a step takes up, or a fan-out with its `branches` (of an expand one; of a
    divert the ways, the last of them for anything else), which is brought together by a step unless it stays `open`, as
    only the last of all may.
    """

    sort: Sort
    bad: int = 0
    branches: Sequence[Drawing] = ()
    open: bool = False


#: The first of them is always a step.
Drawing = list[Verb]


def draw(
    chance: random.Random, depth: int = 3, most: int = 4, *, sorts: Sequence[Sort] = SORTS, inside: bool = False
) -> Drawing:
    """A drawing with fan-outs inside of each other, up to so deep."""
    drawn = [Verb("step", _bad(chance))]
    for _ in range(chance.randint(0, most)):
        sort = chance.choice(sorts) if depth else "step"
        several = {"divide": chance.randint(1, 3), "expand": 1, "divert": chance.randint(2, 3)}.get(sort, 0)
        branches = [draw(chance, depth - 1, 2, sorts=sorts, inside=True) for _ in range(several)]
        drawn.append(Verb(sort, _bad(chance), branches))
    if not inside and drawn[-1].branches and chance.random() < 0.3:
        drawn[-1] = msgspec.structs.replace(drawn[-1], open=True)
    return drawn


def _bad(chance: random.Random) -> int:
    """Of how many values a step fails on one; 0 for never."""
    return chance.choice((0, 0, 0, 0, 0, 0, 7, 3))


# what steps do


def begun(name: str) -> None:
    """Say that a step was begun; programs that are watched say it to somebody."""


def unmended() -> bool:
    """Whether what fails in drawings does fail; programs in which it is mended at some time say so."""
    return True


heard: list[Callable[[str], None]] = [begun]
broken: list[Callable[[], bool]] = [unmended]


def mixed(value: Any) -> int:
    """A number that tells whether all of this came, in this order."""
    number = 17
    for part in value if isinstance(value, list) else [value]:
        number = (number * 31 + (mixed(part) if isinstance(part, list) else part) + 11) % 1_000_003
    return number


def result(value: Any, bad: int) -> int:
    """What a step makes of a value; ValueError on a bad one."""
    found = mixed(value)
    if bad and found % bad == 1:
        raise ValueError(f"{found} is bad")
    return found


def _done(value: Any) -> int:
    me = current()
    heard[0](me.key or "")
    try:
        found = result(value, int(me.headers.get("bad", "0")) if broken[0]() else 0)
    except ValueError as error:
        raise Fatal(str(error)) from None
    me.context.set(me.key or "", found)
    return found


@tasks.task(retries=0, max_crashes=None)
def step(value: int) -> int:
    """A number of a number."""
    return _done(value)


@tasks.task(retries=0, max_crashes=None)
def parts(value: int) -> list[int]:
    """What is expanded: none to three."""
    return elements(_done(value))


@tasks.task(retries=0, max_crashes=None)
def chosen(value: int) -> Route[int]:
    """Which way to go."""
    found = _done(value)
    return Route(str(found % 3), found)


@tasks.task(retries=0, max_crashes=None)
def combined(values: list[Any]) -> int:
    """What branches came to."""
    return _done(values)


@tasks.task(retries=0, max_crashes=None)
def collapsed(values: Stream[Any]) -> int:
    """What elements came to."""
    return _done(list(values))


@tasks.task(retries=0, max_crashes=None)
def answered(value: int, answer: int) -> int:
    """What comes of an answer."""
    return _done([value, answer])


@tasks.task(retries=0, max_crashes=None)
def several(value: int) -> list[int]:
    """What is expanded in a run of its own: one to three."""
    return pieces(_done(value))


def elements(number: int) -> list[int]:
    """What a list has."""
    return [number + at for at in range(number % 4)]


def pieces(number: int) -> list[int]:
    """What a list has that is never empty."""
    return [number + at for at in range(1 + number % 3)]


#: What runs of their own do.
run_alone = tasks.pipeline(
    "run_alone",
    steps(step, id="a", headers={"bad": "3"}).chain(several, id="b").expand(step, id="c").collapse(collapsed, id="d"),
)
ask_alone = tasks.pipeline(
    "ask_alone", steps(step, id="a").gate("g", int).chain(answered, id="b", headers={"bad": "5"})
)


def carried_out_alone(sort: Sort, value: int) -> dict[str, Any]:
    """What the steps of a run of its own come to; the last of them is what it comes to itself."""
    first = mixed(value)
    if sort == "ask":
        return {"a": first, "g": ANSWER, "b": mixed([first, ANSWER])}
    found = {f"c[{at}].": mixed(each) for at, each in enumerate(pieces(mixed(first)))}
    return {"a": first, "b": mixed(first), **found, "d": mixed([*found.values()])}


# how they are written


def build(drawing: Drawing) -> Steps[[int], Any, Any]:
    """Steps of a drawing, whose ids are their places in it."""
    made: Steps[[int], Any, Any] = _built(drawing, "")
    return made


def _built(drawing: Drawing, place: str) -> Any:
    made: Any = None
    for at, verb in enumerate(drawing):
        following = drawing[at + 1].sort if at + 1 < len(drawing) else "step"
        said: Any = {"id": f"{place}{at}", "headers": {"bad": str(verb.bad)}}
        task = _task(following)
        if verb.sort == "step":
            made = steps(task, **said) if made is None else made.chain(task, **said)
            continue
        before = f"{place}{at}"
        branches = [_built(branch, f"{before}{letter}") for letter, branch in zip("abc", verb.branches, strict=False)]
        match verb.sort:
            case "gate":
                made = made.gate(f"{before}?", int).chain(answered, **said).chain(task, id=f"{before}+")
            case "sleep":
                made = made.sleep(SOON).chain(step, **said).chain(task, id=f"{before}+")
            case "run" | "ask":
                other = run_alone if verb.sort == "run" else ask_alone
                made = made.run(other, id=f"{before}!").chain(step, **said).chain(task, id=f"{before}+")
            case "divide":
                made = made.divide(branches)
                made = made if verb.open else made.combine(combined, **said).chain(task, id=f"{before}+")
            case "expand":
                made = made.expand(branches[0])
                made = made if verb.open else made.collapse(collapsed, **said).chain(task, id=f"{before}+")
            case _:
                made = made.divert({str(n): way for n, way in enumerate(branches[:-1])}, otherwise=branches[-1])
                made = made if verb.open else made.converge(step, **said).chain(task, id=f"{before}+")
    return made


def _task(following: str) -> Any:
    return {"expand": parts, "divert": chosen}.get(following, step)


# what must come of them


class Ended(Exception):
    """A branch that goes no further: it failed, or it had nothing to do."""

    def __init__(self, *, failed: bool) -> None:
        self.failed = failed


class Expected(msgspec.Struct):
    """How steps must end that are begun, by their keys, and the results of those that are done; of steps that start a
    run, what that comes to, step by step. `mended` when nothing fails.
    """

    results: dict[str, int] = {}
    failed: set[str] = set()
    launched: dict[str, dict[str, Any]] = {}
    mended: bool = False

    def act(self, key: str, value: Any, bad: int = 0) -> int:
        """Let a step end."""
        try:
            self.results[key] = result(value, 0 if self.mended else bad)
        except ValueError:
            self.failed.add(key)
            raise Ended(failed=True) from None
        return self.results[key]

    def carry_out(self, drawing: Drawing, value: int, prefix: str, place: str) -> int:
        """The number that a drawing comes to."""
        for at, verb in enumerate(drawing):
            id = f"{place}{at}"
            if verb.sort == "step":
                value = self.act(prefix + id, value, verb.bad)
                continue
            found: Any
            match verb.sort:
                case "gate":
                    found = [value, ANSWER]
                case "sleep":
                    found = value
                case "run" | "ask":
                    self.launched[f"{prefix}{id}!"] = alone = carried_out_alone(verb.sort, value)
                    found = [*alone.values()][-1]
                case "divide":
                    found = self._each([(each, value, prefix, f"{id}{letter}")
                                        for letter, each in zip("abc", verb.branches, strict=False)])  # fmt: skip
                    if None in found:
                        raise Ended(failed=False)
                case "expand":
                    # A single step is the task of its element; several have a task that begins them.
                    body = verb.branches[0]
                    first = f"{prefix}{id}a0"
                    found = self._each([
                        (body, each, f"{first}[{n}]." if len(body) > 1 else f"{first}[{n}].\0", f"{id}a")
                        for n, each in enumerate(elements(value))
                    ])  # fmt: skip
                    found = [each for each in found if each is not None]
                    if not found:
                        raise Ended(failed=False)
                case _:
                    way = min(value % 3, len(verb.branches) - 1)
                    found = self._each([(verb.branches[way], value, prefix, f"{id}{'abc'[way]}")])[0]
                    if found is None:
                        raise Ended(failed=False)
            if not verb.open:
                value = self.act(f"{prefix}{id}+", self.act(prefix + id, found, verb.bad))
        return value

    def _each(self, branches: Sequence[tuple[Drawing, int, str, str]]) -> list[int | None]:
        """What branches come to, all of which go to their ends; None for one that had nothing to do."""
        found: list[int | None] = []
        has_failed = False
        for branch in branches:
            try:
                found.append(self.carry_out(*branch))
            except Ended as ended:
                has_failed |= ended.failed
                found.append(None)
        if has_failed:
            raise Ended(failed=True)
        return found


def carried_out(drawing: Drawing, value: int, *, mended: bool = False) -> Expected:
    """What must come of a drawing that begins with this value."""
    expected = Expected(mended=mended)
    with suppress(Ended):
        expected.carry_out(drawing, value, "", "")
    # The task of a single step for each element has the key of the element.
    expected.results = {key.partition("\0")[0]: value for key, value in expected.results.items()}
    expected.failed = {key.partition("\0")[0] for key in expected.failed}
    return expected


def complaints(store: Store, run: int, drawing: Drawing, value: int) -> list[str]:
    """What is wrong with a run of a drawing that has ended, perhaps after retries."""
    return [*oracle.check(store), *_differences(store, run, carried_out(drawing, value))]


def _differences(store: Store, run: int, expected: Expected) -> Iterator[str]:
    """Each life of a task ended once, what was replaced does not count, and each key means one task."""
    state = RunState.HALTED if expected.failed else RunState.DONE
    if (found := store.reads.run(run).state) is not state:
        yield f"the run is {found.value}, not {state.value}"
    seen = set()
    for row in every(lambda after: store.reads.tasks(run, after=after)):
        key, events = key_text(row.key) or "", store.reads.events(row.id, row.id)
        if events[-1].status is Status.REPLACED:
            continue
        lives = 1 + sum(event.status is Status.REOPENED for event in events)
        if sum(event.status.is_end for event in events) != lives:
            yield f"{key} ended {[event.status.name for event in events]}"
        if is_own(row.kind):
            continue
        if key in seen:
            yield f"{key} ({row.id}) counts beside another task"
        seen.add(key)
        how = Status.FAILED if key in expected.failed else Status.DONE if key in expected.results else Status.SKIPPED
        if events[-1].status is not how:
            yield f"{key} ended as {events[-1].status.name}, not {how.name}"
        elif how is Status.DONE and (got := msgspec.json.decode(events[-1].value or b"")) != (
            due := stored(row.kind, expected.results[key])
        ):
            yield f"{key} gave {got}, not {due}"
    if lost := sorted({*expected.results, *expected.failed} - seen):
        yield f"{lost} are lost"


def stored(kind: str, number: int) -> Any:
    """What a step gives whose number is this."""
    match kind:
        case "parts":
            return elements(number)
        case "chosen":
            return {"name": str(number % 3), "value": number}
        case _:
            return number
