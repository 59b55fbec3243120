"""Task functions: what a call of one is, what options do, and what is refused at decoration."""

import functools
import inspect
import pydoc
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ramify import AsyncSpawns, Backoff, BadPayload, Call, ConfigError, Engine, Return, Spawns, Stream, Task, Tasks
from ramify.kernel.core.handler import Calling
from ramify.model.key import Hold
from ramify.model.policy import Rate


def plain(path: str, depth: int = 1) -> int:
    """Measure."""
    return len(path) * depth


def conclude(path: str, *, sizes: Stream[int] = Stream(), depth: int = 1) -> int:
    return sum(sizes) * depth


def grow(path: str) -> Spawns[int]:
    yield Tasks().task(plain).of(path)
    return 3


async def fetch(url: str) -> str:
    return url


async def crawl(url: str) -> AsyncSpawns[Path]:
    yield Return(Path(url))


def hand_on(path: str) -> Spawns[int]:
    return grow(path)


def hand_on_async(path: str) -> AsyncIterator[Call[int]]:
    raise NotImplementedError


def test_a_call_is_the_same_however_its_arguments_were_given() -> None:
    task = Tasks().task(plain)
    assert task.of("/usr", 2) == task.of(path="/usr", depth=2) == task.of("/usr", depth=2)
    assert task.of("/usr").arguments() == (("/usr", 1), {})
    assert repr(task.of("/usr", 2)) == "plain('/usr', 2)"


def test_a_call_shows_what_was_chosen_for_it() -> None:
    call = Tasks().task(plain).of("/usr", 2)
    assert repr(call.key("k").delay(60).priority(-2).lane("a.org")) == (
        "plain('/usr', 2).key('k').delay(60).priority(-2).lane('a.org')"
    )
    assert repr(call.once("o").queue("slow").retries(0).timeout(1.5)) == (
        "plain('/usr', 2).once('o').queue('slow').retries(0).timeout(1.5)"
    )
    assert repr(call.unique("u", keep=3).headers(trace="x").always()) == (
        "plain('/usr', 2).unique('u', keep=3).headers(trace='x').always()"
    )
    assert repr(call.at(datetime(2030, 1, 2, 3, tzinfo=UTC))) == "plain('/usr', 2).at(2030-01-02T03:00:00+00:00)"


def test_help_tells_of_calls() -> None:
    page = pydoc.plain(pydoc.render_doc(Task))
    assert " of(self, *args: 'P.args', **kwargs: 'P.kwargs') -> 'Call[R_co]'" in page
    assert "Make a call of this task, to yield, spawn, enqueue or run" in page
    of = Tasks().task(conclude).of
    assert str(inspect.signature(of)).startswith("(path: str, *, depth: int = 1) -> ")
    assert "Make a call of this task" in pydoc.render_doc(of)
    task = Tasks().task(plain)
    assert Task.of(task, "/usr") == task.of("/usr")


def test_a_task_is_still_its_function() -> None:
    task = Tasks().task(plain)
    assert task("abc", depth=2) == 6
    assert task.__doc__ == "Measure."
    assert repr(task).startswith("<task plain (")


def test_what_cannot_be_stored_is_refused_when_the_call_is_made() -> None:
    with pytest.raises(BadPayload, match=r"plain\(\): `depth`"):
        Tasks().task(plain).of("/usr", float("nan"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fn", "colour"),
    [
        (plain, Calling.PLAIN),
        (grow, Calling.GENERATOR),
        (fetch, Calling.ASYNC),
        (crawl, Calling.ASYNC_GENERATOR),
        (hand_on, Calling.GENERATOR),
        (hand_on_async, Calling.ASYNC_GENERATOR),
    ],
)
def test_the_colour_is_that_of_the_function_or_of_what_it_hands_on(fn: Callable[..., Any], colour: Calling) -> None:
    task: Task[..., Any] = Tasks().task(fn)
    assert task.handler.calling is colour


def test_an_async_generator_may_return_what_its_annotation_says() -> None:
    signature = Tasks().task(crawl).handler.signature
    assert signature.decode_result(signature.encode_result(Path("/usr"))) == Path("/usr")


def test_a_task_type_needs_no_third_parameter_at_run_time_either() -> None:
    assert Task[[str], int] == Task[[str], int, Any]


def test_options_become_the_policy() -> None:
    task = Tasks().task(
        name="size", aliases=["old"], queue="slow", retries=1, backoff=Backoff(first=2), retry_on=OSError,
        give_up_on=(FileNotFoundError,), timeout=3, concurrency=2, rate="100/m", max_children=9, max_crashes=None,
    )(plain)  # fmt: skip
    policy = task.handler.policy
    assert (task.kind, task.aliases, task.group.queue) == ("size", ("old",), "slow")
    assert (policy.retries, policy.backoff.first, policy.timeout) == (1, 2, 3)
    assert (policy.retry_on, policy.give_up_on) == ((OSError,), (FileNotFoundError,))
    assert (policy.concurrency, policy.rate, policy.max_children, policy.max_crashes) == (2, Rate((100, 60)), 9, None)


RATES: list[tuple[Any, Rate]] = [
    ("10/s", Rate((10, 1))),
    ("5/hour", Rate((5, 3600))),
    ((3, 0.5), Rate((3, 0.5))),
    (Rate("6/s", burst=2), Rate((6, 1), burst=2)),
]


@pytest.mark.parametrize(("rate", "means"), RATES)
def test_a_rate_is_a_text_or_a_pair_or_a_rate(rate: Any, means: Rate) -> None:
    assert Tasks().task(rate=rate)(plain).handler.policy.rate == means


BAD_OPTIONS = [
    ("name", "", "empty"),
    ("name", 3, "text"),
    ("aliases", "old", "list of older names"),
    ("aliases", ["plain"], "its present name"),
    ("aliases", ["a", "a"], "once"),
    ("queue", "", "empty"),
    ("retries", -1, "whole number, 0 or more"),
    ("retries", 1.5, "whole number"),
    ("retries", True, "whole number"),
    ("backoff", 3, "expected a Backoff"),
    ("retry_on", "OSError", "exception class"),
    ("retry_on", (OSError, 3), "exception class"),
    ("give_up_on", int, "exception class"),
    ("timeout", 0, "more than 0"),
    ("timeout", float("inf"), "expected seconds"),
    ("key", "depht", "one of its parameters \\(path, depth\\)"),
    ("key", 3, "one of its parameters"),
    ("once", "depht", "one of its parameters"),
    ("lane", "host", "one of its parameters"),
    ("concurrency", 0, "1 or more"),
    ("rate", "10", '"10/s"'),
    ("rate", "10/x", '"10/s"'),
    ("rate", (0, 1), "1 or more"),
    ("rate", (1, 0), "above 0"),
    ("rate", 50, '"10/s"'),
    ("max_children", -1, "0 or more"),
    ("max_crashes", 0, "1 or more"),
]


@pytest.mark.parametrize(("option", "value", "says"), BAD_OPTIONS)
def test_a_bad_option_is_refused_at_decoration(option: str, value: Any, says: str) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ConfigError, match=says) as refused:
        Tasks().task(**options)(plain)
    assert f"@task({option}=" in str(refused.value)
    assert "plain" in str(refused.value)


def test_a_time_that_cannot_be_kept_is_refused_as_it_was_written() -> None:
    call = Tasks().task(plain).of("/usr", 2)
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: call.unique("u", keep=3e10), r"^unique\(keep=30000000000\.0\): expected 0 seconds or more"),
        (lambda: call.delay(-1), r"^delay\(-1\): expected 0 seconds or more"),
        (lambda: call.timeout(True), r"^timeout\(True\): expected seconds"),
    ]
    for attempt, says in refused:
        with pytest.raises(BadPayload, match=says):
            attempt()


def test_an_option_that_does_not_exist_is_refused_with_the_nearest_that_does() -> None:
    with pytest.raises(ConfigError, match=r"^@task\(retrys=2\): unknown option\. Did you mean `retries`\?$"):
        Tasks().task(retrys=2)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"^@task\(x=1\): unknown option\. Options are name, aliases, queue, "):
        Tasks().task(x=1)  # type: ignore[call-overload]


def test_key_and_once_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Tasks().task(key="path", once="path")(plain)


def test_a_lambda_a_closure_a_method_and_a_builtin_are_refused() -> None:
    captured = 3

    def closure(path: str) -> int:
        return captured

    class Holder:
        def method(self, path: str) -> int:
            return 3

    refusals: list[tuple[Any, str]] = [
        (lambda path: 3, "lambda"),
        (closure, "captures captured"),
        (Holder.method, "expected a function, got a method"),
        (Holder().method, "expected a function"),
        (functools.partial(plain, depth=3), "expected a function"),
        (len, "expected a function"),
    ]
    for refused, says in refusals:
        with pytest.raises(ConfigError, match=says):
            Tasks().task(refused)


def test_a_function_in_another_decorator_is_found_by_name_and_welcome() -> None:
    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        return plain(*args, **kwargs) + 1

    task = Tasks().task(wrapped)
    assert task.kind == "plain"
    assert task("abc") == 4


def by_length(path: str, depth: int = 1) -> str | None:
    return None if depth > 9 else str(len(path))


def test_a_key_is_a_parameter_or_a_function_of_the_arguments() -> None:
    named = Tasks().task(key="path")(plain)
    assert named.of("/usr").label == b"/usr"
    assert named.of(path="/usr", depth=3).label == b"/usr"
    assert named.of("/usr").group.hold is Hold.LABEL
    assert Tasks().task(key="depth")(plain).of("/usr").label == b"1"
    computed = Tasks().task(key=by_length)(plain)
    assert computed.of("/usr").label == b"4"
    assert computed.of("/usr", 10).label is None


def test_a_key_that_is_no_text_is_refused() -> None:
    def listed(names: list[str]) -> None: ...

    with pytest.raises(BadPayload, match="expected text as its key"):
        Tasks().task(key="names")(listed).of(["a"])


def test_once_on_the_decorator_holds_the_key_of_every_call() -> None:
    task = Tasks().task(once="path")(plain)
    assert (task.of("/usr").group.hold, task.of("/usr").label) == (Hold.ONCE, b"/usr")
    by_all = Tasks().task(once=True)(plain)
    assert by_all.of("/usr", 2).label == by_all.of(path="/usr", depth=2).label != by_all.of("/usr", 3).label
    assert by_all.of("/usr").label == Tasks().task(plain).of("/usr").once().label


def test_calls_of_all_lanes_share_one_group() -> None:
    task = Tasks().task(lane="path", queue="web")(plain)
    assert task.of("a").group is task.of("b", 2).group
    assert (task.of("a").in_lane, task.of("b").in_lane) == ("a", "b")
    assert task.of("b").group.queue == "web"
    assert Tasks().task(lane=by_length)(plain).of("x", 10).in_lane is None
    chosen = Tasks().task(plain)
    assert chosen.of("a").lane("x").group is chosen.of("b").lane("y").group


def add_up(path: str, sizes: Stream[int] = Stream()) -> int:
    return sum(sizes)


def test_a_stream_is_no_part_of_the_call() -> None:
    task = Tasks().task(add_up)
    assert (task.handler.stream, task.handler.streams) == ("sizes", {"sizes": int})
    assert task.of("/usr").arguments() == (("/usr",), {})
    with pytest.raises(BadPayload):
        task.of("/usr", Stream())
    with pytest.raises(BadPayload, match="sizes"):
        task.of("/usr", sizes=Stream())
    assert task("/usr") == 0


def needs_stream(sizes: Stream[int]) -> int:
    return 0


def two_streams(a: Stream[int] = Stream(), b: Stream[int] = Stream()) -> int:
    return 0


def stream_first(sizes: Stream[int] = Stream(), path: str = "") -> int:
    return 0


def stream_before_keyword(path: str, sizes: Stream[int] = Stream(), *, deep: bool = False) -> int:
    return 0


@pytest.mark.parametrize(("fn", "says"), [(two_streams, "second Stream"), (stream_first, "last")])
def test_a_stream_that_calls_could_trip_over_is_refused(fn: Callable[..., int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Tasks().task(fn)


def test_a_stream_without_a_default_is_passed_or_the_call_is_refused() -> None:
    engine = Engine("memory:")
    call = engine.task(needs_stream).of()  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="Pass a reference to it, give it a default"):
        engine.run(call)


def test_a_keyword_may_follow_a_stream() -> None:
    task = Tasks().task(stream_before_keyword)
    assert task.of("x", deep=True).arguments() == (("x",), {"deep": True})


def test_iterators_of_calls_are_generators_too() -> None:
    def only_spawn(path: str) -> Iterator[Call[Any]]:
        yield Tasks().task(plain).of(path)

    task = Tasks().task(only_spawn)
    assert task.handler.calling is Calling.GENERATOR
    assert task.handler.signature.encode_result(None) is None
