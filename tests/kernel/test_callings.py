"""The callings: what handlers return and yield is recorded, and whatever else they do harms only their own task."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from ramify.kernel.attempts import coroutines
from ramify.kernel.attempts.control import Defer, Return, Skip
from ramify.kernel.attempts.current import Current, current
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.run import RunState
from tests.kernel.shop import Gate, Shop

MODES = pytest.mark.parametrize("threads", [None, 0], ids=["workers", "inline"])


@MODES
def test_a_plain_handler_leaves_its_result(shop: Shop, threads: int | None) -> None:
    def double(n: int) -> int:
        return 2 * n

    task = shop.task(double)
    run = shop.run(*(task.of(n) for n in range(20)), threads=threads)
    assert shop.results(run) == [2 * n for n in range(20)]
    assert shop.state(run) is RunState.DONE


@MODES
def test_a_generator_yields_children_and_returns_a_result(shop: Shop, threads: int | None) -> None:
    def grow(depth: int) -> Generator[Call[Any], None, int]:
        for _ in range(2 if depth else 0):
            yield made.of(depth - 1)
        return depth

    made = shop.task(grow)
    run = shop.run(made.of(3), threads=threads)
    assert sorted(shop.results(run)) == [0] * 8 + [1] * 4 + [2] * 2 + [3]


@MODES
def test_an_async_handler_leaves_its_result(shop: Shop, threads: int | None) -> None:
    async def double(n: int) -> int:
        return 2 * n

    task = shop.task(double)
    run = shop.run(*(task.of(n) for n in range(20)), threads=threads)
    assert shop.results(run) == [2 * n for n in range(20)]


@MODES
def test_an_async_generator_yields_children_and_says_its_result_with_return(shop: Shop, threads: int | None) -> None:
    async def grow(depth: int) -> AsyncIterator[Call[Any] | Return[int]]:
        for _ in range(2 if depth else 0):
            yield made.of(depth - 1)
        yield Return(depth)

    made = shop.task(grow)
    run = shop.run(made.of(3), threads=threads)
    assert sorted(shop.results(run)) == [0] * 8 + [1] * 4 + [2] * 2 + [3]


def test_a_child_knows_its_parent_and_its_round(shop: Shop) -> None:
    def root() -> Iterator[Call[Any]]:
        yield made_leaf.of()

    def leaf() -> list[Any]:
        return [current().parent, current().round]

    made_leaf = shop.task(leaf)
    run = shop.run(shop.task(root).of())
    assert shop.results(run, "leaf") == [[shop.tasks(run, "root")[0], 1]]


@MODES
@pytest.mark.parametrize("colour", ["generator", "async generator"])
def test_children_of_an_attempt_that_fails_do_not_exist(shop: Shop, threads: int | None, colour: str) -> None:
    tries = []

    def plain(n: int) -> Iterator[Call[Any]]:
        tries.append(n)
        yield made_leaf.of(len(tries))
        if len(tries) < 3:
            raise ValueError("not yet")

    async def asynchronous(n: int) -> AsyncIterator[Call[Any]]:
        tries.append(n)
        yield made_leaf.of(len(tries))
        if len(tries) < 3:
            raise ValueError("not yet")

    def leaf(n: int) -> int:
        return n

    made_leaf = shop.task(leaf)
    root = shop.task(plain if colour == "generator" else asynchronous, kind="root")
    run = shop.run(root.of(1), threads=threads)
    assert shop.results(run, "leaf") == [3]
    assert shop.statuses(shop.tasks(run, "root")[0]) == [Status.RETRYING, Status.RETRYING, Status.DONE]


@MODES
@pytest.mark.parametrize("stray", [None, 7, Return(1), "leaf.of(1)"], ids=repr)
def test_a_handler_that_yields_something_else_fails_at_once_and_says_what(
    quick: Shop, threads: int | None, stray: Any
) -> None:
    def root() -> Iterator[Any]:
        yield root_made.of()
        yield stray

    root_made = quick.task(root)
    run = quick.run(root_made.of(), threads=threads)
    (task,) = quick.tasks(run)
    assert quick.statuses(task) == [Status.FAILED]
    failure = quick.failure(task)
    assert failure.type.endswith("Fatal")
    assert repr(stray) in failure.text
    assert (
        "Write `return value`" if isinstance(stray, Return) else "expected calls to be yielded, got "
    ) in failure.text


@pytest.mark.parametrize("colour", ["plain", "generator", "async", "async generator"])
def test_a_result_that_cannot_be_stored_fails_at_once_and_leaves_no_children(quick: Shop, colour: str) -> None:
    bad: Any = object()

    def plain() -> Any:
        return bad

    def generator() -> Generator[Call[Any], None, Any]:
        yield made_leaf.of()
        return bad

    async def coroutine() -> Any:
        return bad

    async def stream() -> AsyncIterator[Any]:
        yield made_leaf.of()
        yield Return(bad)

    def leaf() -> None: ...

    made_leaf = quick.task(leaf)
    fn: Any = {"plain": plain, "generator": generator, "async": coroutine, "async generator": stream}[colour]
    run = quick.run(quick.task(fn, kind="root").of())
    (task,) = quick.tasks(run)
    assert quick.statuses(task) == [Status.FAILED]
    assert quick.failure(task).type == "ramify.errors.BadPayload"


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_arguments_that_no_longer_fit_the_function_fail_the_task_at_once(quick: Shop, colour: str) -> None:
    def old(text: str) -> None: ...

    def new(number: int) -> None: ...

    async def new_async(number: int) -> None: ...

    call = quick.task(old, kind="changed").of("word")
    quick.task(new if colour == "plain" else new_async, kind="changed")
    run = quick.run(call)
    (task,) = quick.tasks(run)
    assert quick.statuses(task) == [Status.FAILED]
    assert quick.failure(task).type == "ramify.errors.BadPayload"


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Muter(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words at all")


def classless() -> Exception:
    class Classless(Exception):
        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            raise ValueError("no class today")

    return Classless("odd")


def sealed() -> Exception:
    class Sealed(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise SystemExit(f"no {name} today")

    return Sealed("odd")


def nameless() -> Exception:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise KeyboardInterrupt(f"no {name} today")

    class Nameless(Exception, metaclass=Meta):
        def __repr__(self) -> str:
            raise ValueError("no name today")

        def __reduce__(self) -> Any:
            raise ValueError("no pickle today")

    return Nameless("odd")


@pytest.mark.parametrize("colour", ["plain", "generator", "async", "async generator"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: SystemExit(3), Mute, Muter, KeyboardInterrupt, GeneratorExit, lambda: BaseException("odd"),
        lambda: StopIteration(1), classless, sealed, nameless,
    ],
)  # fmt: skip
def test_whatever_a_handler_raises_is_the_outcome_of_its_own_task_only(
    quick: Shop, colour: str, make: Callable[[], BaseException]
) -> None:
    # Made here: pytest looks at what it is given, and some of these refuse that.
    error = make()

    def plain(n: int) -> int:
        if n == 5:
            raise error
        return n

    def generator(n: int) -> Generator[Call[Any], None, int]:
        if n == 5:
            raise error
        if n < 0:
            yield root.of(n)
        return n

    async def coroutine(n: int) -> int:
        if n == 5:
            raise error
        return n

    async def stream(n: int) -> AsyncIterator[Any]:
        if n == 5:
            raise error
        yield Return(n)

    fn: Any = {"plain": plain, "generator": generator, "async": coroutine, "async generator": stream}[colour]
    root = quick.task(fn, kind="root", retries=1)
    run = quick.run(*(root.of(n) for n in range(10)))
    assert sorted(quick.results(run)) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert quick.count(run, Status.FAILED) == 1
    assert quick.state(run) is RunState.FAILED


class Picky(type):
    def __subclasscheck__(cls, other: type) -> bool:
        raise LookupError("no subclasses today")


class Chosen(Exception, metaclass=Picky):
    pass


class Vague(Defer):
    def __init__(self) -> None:
        super().__init__(1)
        self.seconds = float("nan")


@MODES
@pytest.mark.parametrize("colour", ["plain", "async"])
@pytest.mark.parametrize(
    ("error", "policy", "text"),
    [
        (
            ValueError("odd"),
            {"retry_on": (Chosen,)},
            "odd (Ramify could not judge this error: LookupError: no subclasses",
        ),
        (Vague(), {}, "Ramify could not judge this error: ValueError: Defer(nan)"),
    ],
    ids=["policy", "defer"],
)
def test_an_error_that_cannot_be_judged_fails_its_attempt_and_says_why(
    quick: Shop, threads: int | None, colour: str, error: Exception, policy: dict[str, Any], text: str
) -> None:
    def plain() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    task = quick.task(plain if colour == "plain" else coroutine, retries=1, **policy)
    run = quick.run(task.of(), threads=threads)
    (one,) = quick.tasks(run)
    assert quick.statuses(one) == [Status.RETRYING, Status.FAILED]
    assert text in quick.failure(one).text
    assert quick.failure(one).type.endswith(type(error).__name__)


def test_skip_without_a_text_still_skips(quick: Shop) -> None:
    class Wordless(Skip):
        def __str__(self) -> str:
            raise ValueError("no words today")

    def plain() -> None:
        raise Wordless

    run = quick.run(quick.task(plain).of())
    assert quick.statuses(quick.tasks(run)[0]) == [Status.SKIPPED]


def test_an_error_of_our_own_on_the_event_loop_ends_the_attempt(quick: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def coroutine() -> None:
        raise ValueError("odd")

    def give_up(current: Current) -> list[int]:
        raise SystemError("planted")

    monkeypatch.setattr(coroutines, "given_up", give_up)
    run = quick.run(quick.task(coroutine, retries=1).of())
    assert quick.statuses(quick.tasks(run)[0]) == [Status.RETRYING, Status.FAILED]
    assert quick.failure(quick.tasks(run)[0]).text == "planted"


def test_inline_every_colour_runs_in_the_calling_thread(quick: Shop) -> None:
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    def generator() -> Generator[Call[Any], None, bool]:
        yield from ()
        return threading.current_thread() is threading.main_thread()

    async def coroutine() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def stream() -> AsyncIterator[Any]:
        yield Return(threading.current_thread() is threading.main_thread())

    calls = [quick.task(fn).of() for fn in (plain, generator, coroutine, stream)]
    run = quick.start(*calls)
    quick.kernel(run, threads=0).run()
    assert quick.results(run) == [True] * 4


def test_inline_a_debugger_can_stop_in_a_handler(quick: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(threading.current_thread()))

    def plain() -> None:
        breakpoint()

    async def coroutine() -> None:
        breakpoint()

    run = quick.start(quick.task(plain).of(), quick.task(coroutine).of())
    quick.kernel(run, threads=0).run()
    assert stops == [threading.main_thread()] * 2


def test_inline_an_interrupt_from_the_keyboard_ends_the_kernel_and_not_the_task(quick: Shop) -> None:
    def pressed() -> None:
        raise KeyboardInterrupt

    run = quick.start(quick.task(pressed).of())
    with pytest.raises(KeyboardInterrupt):
        quick.kernel(run, threads=0).run()
    assert quick.statuses(quick.tasks(run)[0]) == []
    with pytest.raises(Exception, match="outside a task"):
        current()


def test_workers_run_beside_each_other(quick: Shop) -> None:
    gate = Gate()

    def meet() -> None:
        gate.enter()

    async def meet_too() -> None:
        gate.arrive()

    task, other = quick.task(meet), quick.task(meet_too)
    run = quick.start(*(task.of() for _ in range(4)), other.of())
    with quick.working(run, threads=4):
        gate.wait_for(5)
        assert gate.inside == 4
        gate.open()
    assert quick.count(run, Status.DONE) == 5


def test_a_child_too_large_to_store_fails_its_parent_and_nobody_else(shop: Shop) -> None:
    def root(n: int) -> Iterator[Call[Any]]:
        yield made_leaf.of("x" * (n * 1_000))

    def leaf(text: str) -> int:
        return len(text)

    made_leaf = shop.task(leaf)
    made = shop.task(root, retries=0)
    run = shop.run(*(made.of(n) for n in (1, 2_000, 3)))
    assert sorted(shop.results(run, "leaf")) == [1_000, 3_000]
    assert shop.count(run, Status.FAILED) == 1
