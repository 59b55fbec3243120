"""What stands where a call is needed, or a call where a value is, is answered with what to write."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ramify import BadPayload, Tasks
from ramify.model.stray import instead_of_call, instead_of_value

jobs = Tasks()


@jobs.task
def leaf(n: int) -> int:
    return n


@jobs.task
def grow(n: int) -> Iterator[Any]:
    yield leaf.of(n)


@jobs.task
async def fetch(n: int) -> int:
    return n


@jobs.task
async def crawl(n: int) -> AsyncIterator[Any]:
    yield leaf.of(n)


@contextmanager
def made(stray: Callable[[], object]) -> Iterator[object]:
    """The stray, and no word of Python's about one that is never awaited."""
    value = stray()
    yield value
    if inspect.iscoroutine(value):
        value.close()


@pytest.mark.parametrize(
    ("stray", "says"),
    [
        (lambda: leaf, "the task leaf itself. Write leaf.of(...)"),
        (lambda: leaf(1), "1 (an int). Make a call with task.of(...); task(...) calls the function"),
        (lambda: grow(1), "a generator: grow(...) calls the function here and now. Write grow.of(...)"),
        (lambda: fetch(1), "a coroutine: fetch(...) calls the function here and now. Write fetch.of(...)"),
        (lambda: crawl(1), "an async generator: crawl(...) calls the function here and now. Write crawl.of(...)"),
        (
            lambda: [leaf.of(1)],
            "a list. Give each call by itself (`yield from calls`, `spawn(*calls)`, `enqueue_many(calls)`)",
        ),
        (lambda: (leaf.of(n) for n in range(2)), "a generator. Give each call by itself"),
        (lambda: None, "None. Give a call, such as task.of(...)"),
        (lambda: leaf.fn, "(a function). Make a call with task.of(...)"),
    ],
)
def test_where_a_call_is_needed_it_is_said_how_to_write_one(stray: Callable[[], object], says: str) -> None:
    with made(stray) as value:
        assert says in instead_of_call(value)


@pytest.mark.parametrize(
    ("stray", "says"),
    [
        (lambda: leaf.of(1), "`return value` is a call of leaf, not a value. Yield it or spawn() it"),
        (lambda: [1, leaf.of(1)], "`return value[1]` is a call of leaf"),
        (lambda: {"next": leaf.of(1)}, "`return value['next']` is a call of leaf"),
        (lambda: fetch(1), "a coroutine of fetch(...) that has not run. Await it, or yield fetch.of(...) as a child"),
        (lambda: grow(1), "a generator of grow(...) that has not run. Return what it yields as a list, or yield"),
        (lambda: (n for n in range(2)), "a generator, which cannot be stored. Return a list"),
    ],
)
@pytest.mark.parametrize("annotation", [Any, int, list[int]])
def test_what_is_returned_in_place_of_a_value_is_said(
    stray: Callable[[], object], says: str, annotation: object
) -> None:
    def handler() -> object: ...

    handler.__annotations__["return"] = annotation
    signature = Tasks().task(handler).handler.signature
    with made(stray) as value, pytest.raises(BadPayload) as caught:
        signature.encode_result(value)
    assert says in str(caught.value)


def test_a_call_is_no_argument_either() -> None:
    with pytest.raises(BadPayload, match="`n` is a call of grow, not a value"):
        leaf.of(grow.of(1))  # type: ignore[arg-type]


def test_other_values_are_not_ours_to_explain() -> None:
    assert instead_of_value(object()) is instead_of_value(3) is None
