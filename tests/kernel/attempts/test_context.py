"""current().context: values of a run that its tasks set, each once and together with their end."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_type

import pytest

from ramify.errors import BadPayload, OutsideTask, OverwriteError, StoreUnavailable
from ramify.kernel.attempts.context import Context
from ramify.kernel.attempts.control import Defer, Return, Skip
from ramify.kernel.attempts.current import current
from ramify.model.codec.wire import Wire
from ramify.model.context import ContextValue
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import Order
from tests.kernel.shop import Gate, Shop

ANYTHING = Wire(Any)
COLOURS = pytest.mark.parametrize("colour", ["plain", "generator", "async", "async generator"])


def coloured(fn: Callable[..., Any], colour: str) -> Callable[..., Any]:
    """The same function in another calling."""

    def generator(name: str) -> Any:
        yield from ()
        return fn(name)

    async def coroutine(name: str) -> Any:
        await asyncio.sleep(0)
        return fn(name)

    async def async_generator(name: str) -> Any:
        await asyncio.sleep(0)
        yield Return(fn(name))

    others = {"generator": generator, "async": coroutine, "async generator": async_generator}
    return others.get(colour, fn)


def stored(shop: Shop, run: int) -> dict[str, Any]:
    return {each.name: ANYTHING.read(each.value) for each in shop.store.reads.context(run, limit=1_000)}


@COLOURS
def test_a_value_that_a_task_sets_is_there_for_those_that_come_after_it(shop: Shop, colour: str) -> None:
    def step(name: str) -> Any:
        here = current().context
        before = [here.get("total"), "total" in here]
        if name == "first":
            here.set("total", {"a": [1, None, "\udc80"]})
            current().spawn(task.of("second"))
            assert here["total"] == {"a": [1, None, "\udc80"]}
        return before

    task = shop.task(coloured(step, colour), kind="step")
    run = shop.run(task.of("first"))
    assert shop.results(run) == [[None, False], [{"a": [1, None, "\udc80"]}, True]]
    (found,) = shop.store.reads.context(run)
    first, second = shop.tasks(run)
    assert (found.name, found.task, found.first_set) == ("total", first, found.last_set)
    assert shop.statuses(second) == [Status.DONE]


@COLOURS
def test_an_attempt_that_comes_to_nothing_sets_nothing(shop: Shop, colour: str) -> None:
    def step(name: str) -> Any:
        current().context.set(name, current().attempt)
        assert current().context[name] == current().attempt
        match name:
            case "fails":
                raise ValueError(name)
            case "skips":
                raise Skip("nothing to do")
            case "returns nonsense":
                return object()
            case "defers" | "tries again" if current().attempt == 1 and name not in tried:
                tried.add(name)
                raise Defer(0) if name == "defers" else ConnectionError(name)
        return None

    tried: set[str] = set()
    task = shop.task(coloured(step, colour), kind="step", retries=1)
    names = ("fails", "skips", "returns nonsense", "defers", "tries again", "fine")
    run = shop.run(*map(task.of, names))
    assert stored(shop, run) == {"defers": 1, "tries again": 2, "fine": 1}
    assert shop.count(run, Status.OUTRUN) == 0


def test_what_a_task_sets_is_seen_by_others_once_it_is_committed(shop: Shop) -> None:
    def step(number: int) -> None:
        name = f"value {number - 1}"
        if name in current().context:
            # Tasks that were handed out together have one `current()` after the other, and nothing in common.
            assert shop.store.reads.context_value(current().run_id, name) is not None
        current().context.set(f"value {number}", number)

    task = shop.task(step, retries=0)
    run = shop.run(*(task.of(n) for n in range(300)), order=Order.ANY, threads=1)
    assert shop.count(run, Status.DONE) == 300
    assert stored(shop, run) == {f"value {n}": n for n in range(300)}


def test_what_one_task_has_looked_at_the_next_one_looks_at_again(quick: Shop) -> None:
    values: Any = quick.store._tables.context  # type: ignore[attr-defined]
    turn = threading.Lock()

    def step(number: int) -> int:
        run, here = current().run_id, current().context
        with turn:
            seen: int = here.get("count", 0)
            # As if another process had overwritten it at this moment.
            values[run]["count"] = ContextValue("count", b"%d" % (seen + 1), 0, 0, 0)
        assert here.get("count", 0) == seen or not seen
        return seen

    task = quick.task(step, retries=0)
    run = quick.run(*(task.of(n) for n in range(100)), threads=1)
    assert sorted(quick.results(run)) == list(range(100))


def test_a_name_is_set_once(shop: Shop) -> None:
    def first() -> None:
        current().context.set("total", 1)
        with pytest.raises(OverwriteError, match=r"'total' is set in the context of run .* by this very attempt"):
            current().context.set("total", 2)
        current().spawn(second.of())

    def _second() -> None:
        current().context.set("total", 2)

    second = shop.task(_second, retries=3)
    run = shop.run(shop.task(first).of())
    assert stored(shop, run) == {"total": 1}
    (one,), (two,) = shop.tasks(run, "first"), shop.tasks(run, "second")
    # Trying again would not help, so it is not tried again.
    assert shop.statuses(two) == [Status.FAILED]
    assert shop.failure(two).type == "ramify.errors.OverwriteError"
    assert f"already, by task {one}, and a name is set once" in shop.failure(two).text


def test_a_value_can_be_replaced_by_saying_so(shop: Shop) -> None:
    def step(number: int) -> Any:
        before = current().context.get("total")
        current().context.set("total", number, overwrite=True)
        current().context.set("total", number + 0.5, overwrite=True)
        if number < 3:
            current().spawn(task.of(number + 1))
        return [before, current().context["total"]]

    task = shop.task(step)
    run = shop.run(task.of(1))
    assert shop.results(run) == [[None, 1.5], [1.5, 2.5], [2.5, 3.5]]
    (found,) = shop.store.reads.context(run)
    assert (found.task, found.value) == (shop.tasks(run)[-1], b"3.5")
    assert found.first_set < found.last_set
    assert shop.count(run, Status.OUTRUN) == 0


def test_of_two_that_set_a_name_at_the_same_time_one_is_told(shop: Shop) -> None:
    gate = Gate()

    def step(name: str) -> str:
        current().context.set("winner", name)
        gate.enter()
        return name

    task = shop.task(step)
    run = shop.start(task.of("a"), task.of("b"))
    with shop.working(threads=2):
        gate.wait_for(2)
        gate.open()
    shop.finish(run)
    found = shop.store.reads.context_value(run, "winner")
    assert found is not None
    (loser,) = (task for task in shop.tasks(run) if task != found.task)
    assert shop.statuses(found.task) == [Status.DONE]
    assert shop.statuses(loser) == [Status.OUTRUN, Status.DONE]
    # Both are done, and each has its result.
    assert sorted(shop.results(run)) == ["a", "b"]


def test_a_task_that_is_run_again_may_set_its_own_value_again(shop: Shop) -> None:
    def step(name: str) -> str:
        lives.append(name)
        if name == "child":
            current().context.set("total", len(lives))
        else:
            current().spawn(task.of("child"))
        return name

    lives: list[str] = []
    task = shop.task(step, retries=0)
    run = shop.run(task.of("parent"))
    assert stored(shop, run) == {"total": 2}
    process, child = new_process_id(), shop.tasks(run)[1]
    shop.store.enter(NewProcess(process))
    shop.store.reopen(Stamp(process, 1), run, [child])
    assert stored(shop, run) == {"total": 2}
    shop.finish(run)
    assert stored(shop, run) == {"total": 3}
    assert shop.statuses(child) == [Status.DONE, Status.REOPENED, Status.DONE]


def test_runs_do_not_see_the_values_of_others(quick: Shop) -> None:
    def step(number: int) -> bool:
        found = "total" in current().context
        current().context.set("total", number)
        return found

    task = quick.task(step)
    runs = [quick.run(task.of(n)) for n in range(2)]
    assert [quick.results(run) for run in runs] == [[False], [False]]
    assert [stored(quick, run) for run in runs] == [{"total": 0}, {"total": 1}]


# one attempt's view, by itself


def view(known: dict[str, bytes] | None = None, asked: list[str] | None = None) -> Context:
    def read(run: int, name: str) -> ContextValue | None:
        if asked is not None:
            asked.append(name)
        raw = (known or {}).get(name)
        return None if raw is None else ContextValue(name, raw, 3, 0, 0)

    return Context(1, 7, read)


def test_a_name_is_read_once_and_looked_for_again_while_it_is_absent() -> None:
    known, asked = {"there": b"1"}, list[str]()
    context = view(known, asked)
    assert (context.get("there"), context["there"], "there" in context) == (1, 1, True)
    assert asked == ["there"]
    assert (context.get("late"), context.get("late", 5), "late" in context) == (None, 5, False)
    known |= {"late": b"2", "there": b"3"}
    assert (context.get("late"), context.get("there")) == (2, 1)
    assert asked == ["there", "late", "late", "late", "late"]


def test_a_name_without_a_value_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="absent"):
        view()["absent"]


def test_none_is_a_value_like_others() -> None:
    context = view()
    context.set("nothing", None)
    assert (context["nothing"], "nothing" in context, context.get("nothing", 5)) == (None, True, None)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(2**63), 1.5, "", "a\0b", "\udc80 file", [1, [2]], {"a": {"b": None}}, {"\udcff": "\0"},
    ],
)  # fmt: skip
def test_plain_values_come_back_as_they_are(value: object) -> None:
    context = view()
    context.set("it", value)
    assert context["it"] == value


@pytest.mark.parametrize(
    "value",
    [Point(1, 2), (1, 2), {3, 4}, Path("/usr/\udcff"), Colour.RED, datetime(2026, 1, 2, tzinfo=UTC)],
    ids=repr,
)
def test_other_values_come_back_if_it_is_said_what_they_are(value: Any) -> None:
    context = view()
    context.set("it", value)
    assert context.get("it", of=type(value)) == value
    assert context.get("other", of=type(value)) is None


@pytest.mark.parametrize(
    ("value", "of"), [([Point(3, 4)], list[Point]), ({"at": (5, 6)}, dict[str, tuple[int, int]])], ids=repr
)
def test_what_a_list_or_dict_holds_must_be_said_when_it_is_set(value: Any, of: Any) -> None:
    context = view()
    with pytest.raises(BadPayload, match="and would come back as"):
        context.set("it", value)
    context.set("it", value, of=of)
    assert context.get("it", of=of) == value
    with pytest.raises(BadPayload, match=r"expected .*, got an? "):
        context.set("other", 5, of=of)


def test_the_type_that_is_asked_for_is_the_type_that_comes() -> None:
    context = view({"point": b'{"x":1,"y":2}'})
    assert_type(context.get("point", of=Point), Point | None)
    assert_type(context.get("point", 5, of=Point), Point | int)
    assert context.get("point", of=Point) == Point(1, 2)
    with pytest.raises(BadPayload, match="'point' in the context of run 1 does not fit"):
        context.get("point", of=int)


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "is nan, which JSON cannot hold"),
        ([math.inf], r"\[0\]` is inf"),
        (2**70, "an integer beyond 64 bits"),
        ({1: 2}, "has the key 1"),
        ([(1, 2)], "is a tuple and would come back as a list"),
        (object(), "is an object, which cannot be stored"),
        (lambda: 1, "which cannot be stored"),
        ("x" * 1_048_577, r"takes 1,048,579 bytes"),
        (endless(), "contains itself"),
        (view(), "is a Context, which cannot be stored"),
    ],
    ids=lambda each: each if isinstance(each, str) and len(each) < 60 else "",
)
def test_what_cannot_be_stored_is_refused_where_it_is_set(value: object, why: str) -> None:
    context = view()
    with pytest.raises(BadPayload, match=f"context: `total.*{why}"):
        context.set("total", value)
    assert "total" not in context
    assert not context._close()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (5, "a name in the context must be text, not int"),
        (None, "must be text, not NoneType"),
        ("", "is empty"),
        ("a\0b", "NUL or a lone surrogate"),
        ("\udc80", "NUL or a lone surrogate"),
        ("n" * 256, "has 256 characters; at most 255"),
    ],
)
def test_what_is_no_name_is_refused(name: Any, why: str) -> None:
    context = view()
    for use in (context.get, context.__getitem__, context.__contains__, lambda each: context.set(each, 1)):
        with pytest.raises(BadPayload, match=why):
            use(name)
    with pytest.raises(BadPayload, match=why):
        context.set(name, 1, overwrite=True)


def test_a_value_is_what_it_was_when_it_was_set() -> None:
    context, value = view(), [1]
    context.set("it", value)
    value.append(2)
    context["it"].append(3)
    assert context["it"] == [1]


def test_a_context_that_outlives_its_attempt_says_so(quick: Shop) -> None:
    kept: list[Context] = []

    def step() -> None:
        kept.append(current().context)
        assert kept[-1] is current().context
        kept[-1].set("mine", 1)

    async def slow_step() -> None:
        step()

    run = quick.run(quick.task(step).of(), quick.task(slow_step).of())
    assert len(kept) == 2
    for context in kept:
        with pytest.raises(OutsideTask, match=r"the attempt of task \d+ is over"):
            context.get("mine")
        with pytest.raises(OutsideTask, match=r"the attempt of task \d+ is over"):
            context.set("mine", 2, overwrite=True)
    assert stored(quick, run) == {"mine": 1}


def test_a_store_that_is_away_is_no_fault_of_the_task(quick: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> Any:
        return current().context.get("total", "absent")

    reads, tries = type(quick.store.reads), list[int]()
    honest = reads.context_value

    def away(self: Any, run: int, name: str) -> Any:
        tries.append(run)
        if len(tries) == 1:
            raise StoreUnavailable("away")
        return honest(self, run, name)

    monkeypatch.setattr(reads, "context_value", away)
    run = quick.run(quick.task(step, retries=0).of())
    assert quick.results(run) == ["absent"]


def test_a_task_that_does_not_ask_makes_no_context(quick: Shop) -> None:
    seen: list[bool] = []

    def generator() -> Iterator[Any]:
        seen.append(current()._made)
        yield from ()

    async def async_generator() -> AsyncIterator[Any]:
        seen.append(current()._made)
        for call in list[Any]():
            yield call

    quick.run(quick.task(generator).of(), quick.task(async_generator).of())
    assert seen == [False, False]
