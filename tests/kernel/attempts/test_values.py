"""current().values(...): values that the whole store shares, changed with the end of a task, exactly if that counts."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from ramify.errors import BadPayload, ConfigError, OutsideTask, StoreUnavailable
from ramify.kernel.attempts.control import Defer, Fatal, Return, Skip
from ramify.kernel.attempts.current import current
from ramify.kernel.attempts.notes import Notes
from ramify.kernel.attempts.values import AttemptValues, CurrentValues, Space
from ramify.kernel.signals import Ended, Saved, Signals, Worked
from ramify.kernel.tuning import PIECE
from ramify.model.codec.wire import Wire
from ramify.model.event import Status, Tally
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import Order
from ramify.model.value import MAX_VALUE, MOST_TRIES, StoredValue, Swap
from ramify.testing import oracle
from tests.kernel.shop import Ear, Shop

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


def stored(shop: Shop) -> dict[str, Any]:
    """The values that have not expired, by name."""
    found = shop.store.reads.values(space="quota")
    return {each.name: ANYTHING.read(each.value) for each in found if each.is_live(shop.store.now())}


def put(shop: Shop, name: str, value: Any, ttl: float | None = None) -> None:
    """Change a value, as another process does; None to delete it."""
    store, process = shop.store, new_process_id()
    expires = None if ttl is None else store.now() + round(ttl * SECOND)
    raw = None if value is None else ANYTHING.seal(value)
    store.enter(NewProcess(process, kinds=()))
    assert store.swap(Stamp(process, 1), [Swap("quota", name, None, store.reserve(1), raw, expires)])
    store.leave(process)


def quota() -> CurrentValues[int]:
    return current().values("quota", int)


class Meddler:
    """Somebody else, who changes values just after a task has read them, so many times."""

    def __init__(self, shop: Shop, times: int, name: str = "acme") -> None:
        self._shop, self._name = shop, name
        self.left = times
        self.tries = 0

    def __call__(self) -> None:
        self.tries += 1
        if self.left:
            self.left -= 1
            put(self._shop, self._name, 1_000 + self.left)


# what an attempt sees and leaves


@COLOURS
def test_what_a_task_changes_is_there_for_those_that_come_after_it(shop: Shop, colour: str) -> None:
    put(shop, "acme", 5)
    put(shop, "old", 1)

    def step(name: str) -> Any:
        values = quota()
        before = [values.get(each) for each in ("acme", "new", "old")]
        if name == "first":
            assert values.update("acme", lambda value: value + 1) == 6
            values.set("new", 1)
            assert values.delete("old")
            assert [values.get(each, -1) for each in ("acme", "new", "old")] == [6, 1, -1], "it sees what it did"
            assert values.update("acme", lambda value: value * 2) == 12
            assert stored(shop) == {"acme": 5, "old": 1}, "and nobody else does yet"
            current().spawn(task.of("second"))
        return before

    task = shop.task(coloured(step, colour), kind="step")
    run = shop.run(task.of("first"))
    assert shop.results(run) == [[5, None, 1], [12, 1, None]]
    assert stored(shop) == {"acme": 12, "new": 1}
    assert oracle.check(shop.store) == []


@COLOURS
@pytest.mark.parametrize("end", [ValueError("no"), Fatal("no"), Skip("no"), Defer(0.01, "not yet")], ids=repr)
def test_an_attempt_that_does_not_end_as_done_has_changed_nothing(quick: Shop, colour: str, end: Exception) -> None:
    def step(name: str) -> Any:
        quota().update("acme", lambda value: value + 1, default=0)
        quota().set("blind", 1)
        seen.append(stored(quick))
        if len(seen) == 1:
            raise end

    seen: list[Any] = []
    quick.run(quick.task(coloured(step, colour), retries=1).of("x"))
    assert seen in ([{}, {}], [{}])
    assert stored(quick) == ({"acme": 1, "blind": 1} if len(seen) == 2 else {})


def test_a_task_that_is_cancelled_while_it_runs_has_changed_nothing(quick: Shop) -> None:
    def step() -> None:
        quota().set("acme", 1)
        quick.store.cancel(current().run_id)
        while not current().cancelled:
            asyncio.run(asyncio.sleep(0.001))

    run = quick.run(quick.task(step).of())
    assert (quick.count(run, Status.CANCELLED), stored(quick)) == (1, {})


def test_a_value_that_was_read_stays_what_it_is_while_the_attempt_lasts(quick: Shop) -> None:
    put(quick, "acme", 1)

    def step() -> list[int | None]:
        values = quota()
        before = [values.get("acme"), values.get("none")]
        put(quick, "acme", 2)
        put(quick, "none", 2)
        return [*before, values.get("acme"), values.get("none"), current().values("quota", int).get("acme")]

    run = quick.run(quick.task(step).of())
    assert quick.results(run) == [[1, None, 1, None, 1]]
    assert stored(quick) == {"acme": 2, "none": 2}, "and who only reads is not disturbed"


def test_spaces_and_types_are_apart_and_values_go_through_the_codec(quick: Shop) -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        at: timedelta

    point = Point(1, timedelta(seconds=2))

    def first() -> None:
        current().values("points", Point).set("p", point)
        current().values("points", list[Point]).set("some", [point])
        quota().set("p", 7)

    def second() -> None:
        assert current().values("points", Point).get("p") == point
        assert current().values("points", list[Point]).get("some") == [point]
        assert quota().get("p") == 7
        with pytest.raises(BadPayload, match="the stored value of 'p' does not fit <class 'int'>"):
            current().values("points", int).get("p")

    quick.run(quick.task(first).of())
    run = quick.run(quick.task(second, retries=0).of())
    assert quick.count(run, Status.DONE) == 1


def test_a_value_expires_by_the_time_that_counts_from_the_end_of_its_task(quick: Shop) -> None:
    def step() -> None:
        quota().set("short", 1, ttl=0.000_001)
        quota().update("long", lambda value: value, default=1, ttl=timedelta(hours=1))
        quota().set("ever", 1, ttl=1e300)

    before = quick.store.now()
    quick.run(quick.task(step).of())
    ends = {each.name: each.expires for each in quick.store.reads.values()}
    assert ends["ever"] is None
    assert before + 3_600_000_000 <= (ends["long"] or 0) <= quick.store.now() + 3_600_000_000
    assert quick.run(quick.task(lambda: quota().get("short"), kind="look").of())
    assert stored(quick) == {"long": 1, "ever": 1}


# what an attempt that changes something has read must still hold


@COLOURS
def test_a_task_whose_value_somebody_else_changed_runs_again_as_the_same_attempt(shop: Shop, colour: str) -> None:
    meddle = Meddler(shop, 2)

    def step(name: str) -> Any:
        value = quota().update("acme", lambda value: value + 1, default=0)
        meddle()
        return [value, current().attempt]

    run = shop.run(shop.task(coloured(step, colour), retries=0).of("x"))
    assert meddle.tries == 3
    assert shop.results(run) == [[1_001, 1]]
    assert stored(shop) == {"acme": 1_001}
    (task,) = shop.tasks(run)
    assert shop.statuses(task) == [Status.DONE]
    assert oracle.check(shop.store) == []


def test_a_value_that_was_only_read_must_hold_too_if_another_was_changed(quick: Shop) -> None:
    put(quick, "limit", 10)
    meddle = Meddler(quick, 1, "limit")

    def step() -> int | None:
        limit = quota().get("limit")
        meddle()
        quota().set("used", limit or 0)
        return limit

    run = quick.run(quick.task(step).of())
    assert (quick.results(run), stored(quick)) == ([1_000], {"limit": 1_000, "used": 1_000})


@pytest.mark.parametrize("before", [None, 5])
def test_that_there_was_none_and_that_there_was_one_must_hold(quick: Shop, before: int | None) -> None:
    put(quick, "acme", before)
    after, tries = 5 if before is None else None, list[int]()

    def step() -> None:
        seen = quota().get("acme")
        tries.append(-1 if seen is None else seen)
        quota().set("seen", tries[-1])
        if len(tries) == 1:
            put(quick, "acme", after)

    quick.run(quick.task(step).of())
    assert tries == ([-1, 5] if before is None else [5, -1])
    assert stored(quick)["seen"] == tries[-1]


def test_a_value_that_expires_meanwhile_is_not_what_was_read(quick: Shop) -> None:
    put(quick, "acme", 5, ttl=0.15)
    tries: list[int | None] = []

    def step() -> None:
        tries.append(quota().get("acme"))
        if len(tries) == 1:
            while quick.store.now() < (quick.store.reads.values()[0].expires or 0):
                asyncio.run(asyncio.sleep(0.005))
        quota().set("seen", 1)

    quick.run(quick.task(step).of())
    assert tries == [5, None]


def test_a_task_that_sets_a_value_without_reading_it_never_runs_again(quick: Shop) -> None:
    meddle = Meddler(quick, 5)

    def step() -> None:
        quota().set("acme", 7)
        meddle()
        quota().set("acme", 8)

    quick.run(quick.task(step).of())
    assert (meddle.tries, stored(quick)) == (1, {"acme": 8})


def test_nothing_of_an_attempt_that_lost_counts(shop: Shop) -> None:
    meddle = Meddler(shop, 1)

    def leaf(n: int) -> int:
        return n

    def total(n: int) -> int:
        return n

    def step() -> Any:
        me, number = current(), meddle.tries
        me.context.set("who", number)
        me.context.set(f"try {number}", True)
        me.spawn(made.of(100 + number))
        me.spawn([made.of(200 + number)], then=sums.of(300 + number))
        me.log.info("try %d", number)
        quota().update("acme", lambda value: value + 1, default=0)
        meddle()
        yield made.of(400 + number)
        return number

    made, sums = shop.task(leaf), shop.task(total)
    run = shop.run(shop.task(step).of(), order=Order.ANY)
    assert meddle.tries == 2
    assert sorted(shop.results(run)) == [1, 101, 201, 301, 401]
    context = {each.name: ANYTHING.read(each.value) for each in shop.store.reads.context(run)}
    assert context == {"who": 1, "try 1": True}
    assert sum(counts.get(Tally.ADDED, 0) for counts in shop.store.reads.counts(run).values()) == 5
    assert oracle.check(shop.store) == []


@pytest.mark.parametrize("colour", ["yields", "spawns", "yields on the event loop"])
def test_very_many_children_of_an_attempt_that_lost_are_discarded(shop: Shop, colour: str) -> None:
    meddle = Meddler(shop, 1)

    def leaf(n: int) -> None:
        pass

    def change() -> None:
        quota().update("acme", lambda value: value + 1, default=0)
        meddle()

    def yields() -> Any:
        yield from (made.of(n) for n in range(PIECE + 2))
        change()

    def spawns() -> Any:
        current().spawn(made.of(n) for n in range(PIECE + 2))
        change()

    async def loops() -> Any:
        for n in range(PIECE + 2):
            yield made.of(n)
        change()

    made = shop.task(leaf)
    root = shop.task({"yields": yields, "spawns": spawns}.get(colour, loops), kind="root")
    run = shop.run(root.of(), order=Order.ANY)
    assert (meddle.tries, shop.count(run, Status.DONE)) == (2, PIECE + 3)
    while shop.store.vacuum().is_more:
        pass
    assert oracle.check(shop.store) == []
    assert len(shop.tasks(run, "leaf")) == PIECE + 2


def test_what_listeners_hear_counts_no_attempt_that_lost(quick: Shop) -> None:
    meddle, ear, signals = Meddler(quick, 3), Ear(), Signals()
    signals.listen(ear)

    def leaf() -> None:
        pass

    def step() -> Any:
        quota().update("acme", lambda value: value + 1, default=0)
        current().spawn(made.of())
        meddle()

    made = quick.task(leaf)
    quick.run(quick.task(step).of(), signals=signals)
    saved: list[Saved] = ear.of(Saved)
    assert (sum(each.outcomes for each in saved), sum(each.children for each in saved)) == (2, 1)
    ends: list[Ended] = [end for each in saved for end in each.ends(True)]
    assert [(end.kind, end.status, end.attempt) for end in ends] == [("step", Status.DONE, 1), ("leaf", Status.DONE, 1)]
    told = [attempts for worked in ear.of(Worked) for attempts in worked.attempts]
    assert sorted((each.kind, each.outcomes, sum(each.times)) for each in told) == [
        ("leaf", (("done", 1),), 1),
        ("step", (("done", 1),), 1),
    ]


def test_an_attempt_that_is_made_again_may_log_as_much_as_any(quick: Shop) -> None:
    meddle = Meddler(quick, 1)

    def step() -> None:
        for n in range(3):
            current().log.info("line %d", n)
        quota().update("acme", lambda value: value + 1, default=0)
        meddle()

    run = quick.run(quick.task(step).of(), log_lines=3)
    lines = quick.store.reads.logs(run).rows
    assert [line.line.text for line in lines] == ["line 0", "line 1", "line 2"] * 2


def test_lines_are_counted_anew_for_one_task_and_no_other() -> None:
    class Of:
        run_id, kind, attempt = 1, "step", 1

        def __init__(self, task: int) -> None:
            self.task = task
            self._notes = notes

    notes = Notes(1)
    for _ in range(2):
        notes.add(Of(1), 20, "x", "one")
        notes.add(Of(2), 20, "x", "two")
        notes.count_anew([1])
    assert [line.text[:4] for line in notes.rest()] == ["one", "two", "one", "(mor"]


@pytest.mark.parametrize("retries", [0, 1])
def test_a_task_that_always_loses_fails_with_an_error_that_names_the_value(quick: Shop, retries: int) -> None:
    meddle = Meddler(quick, 10_000)

    def step() -> None:
        quota().update("acme", lambda value: value + 1, default=0)
        meddle()

    run = quick.run(quick.task(step, retries=retries).of())
    assert meddle.tries == (1 + retries) * (MOST_TRIES + 1)
    (task,) = quick.tasks(run)
    assert quick.statuses(task) == [Status.RETRYING] * retries + [Status.FAILED]
    assert quick.failure(task).type == "ramify.errors.ValueContended"
    assert quick.failure(task).text == (
        "others changed a value 101 times in a row between its read and the end of this task: 'acme' of 'quota'. Read "
        "it at the end of the task, or split it into several values."
    )


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_many_quick_tasks_of_one_process_that_change_one_value_all_get_through(shop: Shop, threads: int) -> None:
    tries: list[int] = []

    def add(n: int) -> None:
        tries.append(n)
        quota().update("acme", lambda value: value + 1, default=0)

    task = shop.task(add, retries=0)
    run = shop.run(*(task.of(n) for n in range(300)), order=Order.ANY, threads=threads)
    assert (shop.count(run, Status.DONE), stored(shop)) == (300, {"acme": 300})
    assert max(map(tries.count, range(300))) <= 20, "they wait for each other instead of losing again and again"


def test_tasks_that_only_read_share_their_part_with_all_others(quick: Shop) -> None:
    parts: list[int] = []
    honest = quick.store.commit

    def commit(stamp: Any, given: Any, want: Any = None) -> Any:
        parts.extend(len(part.tasks) for part in given)
        return honest(stamp, given, want)

    quick.store.commit = commit  # type: ignore[method-assign,assignment]
    put(quick, "acme", 1)
    run = quick.run(*(quick.task(look).of(n) for n in range(50)), order=Order.ANY, threads=0, flush_after=5.0)
    assert quick.count(run, Status.DONE) == 50
    assert len(parts) < 25


def look(n: int) -> int:
    return quota().get("acme", 0) + n


# what is refused


@pytest.fixture
def attempt() -> AttemptValues:
    return AttemptValues(7, lambda space, name: None, lambda: 0)


def test_the_values_of_an_attempt_that_is_over_say_so(quick: Shop) -> None:
    kept: list[CurrentValues[int]] = []

    def step() -> None:
        kept.append(quota())
        kept[-1].set("mine", 1)

    async def slow_step() -> None:
        step()

    def fails() -> None:
        step()
        raise Fatal("no")

    quick.run(quick.task(step).of(), quick.task(slow_step).of(), quick.task(fails).of())
    assert len(kept) == 3
    uses: list[Callable[[CurrentValues[int]], object]] = [
        lambda values: values.get("mine"),
        lambda values: values.set("mine", 2),
        lambda values: values.update("mine", lambda value: value),
        lambda values: values.delete("mine"),
    ]
    for values in kept:
        for use in uses:
            with pytest.raises(OutsideTask, match=r"the attempt of task \d+ is over. Call current\(\).values"):
                use(values)
    assert stored(quick) == {"mine": 1}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("5", "expected int, got a str"),
        (2**70, "70"),
        (True, "would come back as"),
        (object(), "is an object, which cannot be stored"),
    ],
    ids=["text", "huge", "flag", "object"],
)
def test_what_does_not_fit_the_type_is_refused_where_it_is_set(attempt: AttemptValues, value: Any, why: str) -> None:
    values = CurrentValues(attempt, Space[int]("quota", int))
    with pytest.raises(BadPayload, match=r"values\('quota'\): .*acme"):
        values.set("acme", value)
    with pytest.raises(BadPayload, match=r"values\('quota'\): .*acme"):
        values.update("acme", lambda old: value, default=1)
    assert not attempt.close()


@pytest.mark.parametrize(("many", "told"), [(MAX_VALUE - 1, "65,537"), (2_000_000, "2,000,002")])
def test_a_value_over_the_limit_is_refused(attempt: AttemptValues, many: int, told: str) -> None:
    values = CurrentValues(attempt, Space[str]("page", str))
    values.set("fits", "x" * (MAX_VALUE - 2))
    with pytest.raises(BadPayload, match=f"`large` takes {told} bytes, and a value may take 65,536"):
        values.set("large", "x" * many)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (5, "the name of a value must be text, not int"),
        ("", "is empty"),
        ("a\0b", "NUL or a lone surrogate"),
        ("n" * 256, "has 256 characters; at most 255"),
    ],
)
def test_what_is_no_name_is_refused(attempt: AttemptValues, name: Any, why: str) -> None:
    values = CurrentValues(attempt, Space[int]("quota", int))
    for use in (values.get, values.delete, lambda each: values.set(each, 1), lambda each: values.update(each, abs)):
        with pytest.raises(BadPayload, match=why):
            use(name)
    with pytest.raises(BadPayload, match=why.replace("the name of a value", "the space of a value")):
        Space(name, int)


@pytest.mark.parametrize("ttl", [0, -1, timedelta(0), float("nan"), "60", True], ids=repr)
def test_what_is_no_time_to_live_is_refused(attempt: AttemptValues, ttl: Any) -> None:
    values = CurrentValues(attempt, Space[int]("quota", int))
    with pytest.raises(ConfigError, match=r"set\(ttl=.*: expected a time above 0. Give seconds or a timedelta."):
        values.set("acme", 1, ttl=ttl)
    with pytest.raises(ConfigError, match=r"update\(ttl="):
        values.update("acme", abs, default=1, ttl=ttl)
    assert not attempt.close()


def test_a_type_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"values\('quota', .*\): expected a type that JSON can hold"):
        Space("quota", Callable[[], int] | dict[str, int] | list[int] | set[int])


def test_an_update_of_nothing_needs_a_default(attempt: AttemptValues) -> None:
    values = CurrentValues(attempt, Space[int]("quota", int))
    with pytest.raises(KeyError, match=r"update.*'acme'.*there is no such value. Give default="):
        values.update("acme", lambda value: value + 1)
    assert not values.delete("acme")
    assert not attempt.close(), "who deletes nothing has changed nothing"


def test_a_store_that_is_away_is_no_fault_of_the_task(quick: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, tries = type(quick.store.reads), list[int]()
    honest = reads.value

    def away(self: Any, space: str, name: str) -> StoredValue | None:
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnavailable("away")
        return honest(self, space, name)

    monkeypatch.setattr(reads, "value", away)
    run = quick.run(quick.task(lambda: quota().get("acme", 3), kind="step", retries=0).of())
    assert quick.results(run) == [3]


def test_a_task_that_does_not_ask_makes_nothing(quick: Shop) -> None:
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
