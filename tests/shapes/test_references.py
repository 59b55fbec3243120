"""Results as arguments: a call may take what others return, one by one, in lists and dicts, and as streams."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type
from unittest.mock import ANY, Mock

import pytest

from ramify import BadPayload, Call, ConfigError, Engine, NotKnownYet, RunState, Spawns, Stream, current
from ramify.model.call import ReferringCall
from ramify.model.event import Status
from ramify.model.join import SMALL, Rule
from ramify.model.reference import Reference
from ramify.shapes.table import SHAPES
from ramify.testing import attempt
from tests.shapes import graph
from tests.shapes.graph import Graph, Node, Nodes

engine = Engine("memory:")


@dataclass
class Holder:
    """A dataclass of a user that is given references."""

    part: Any
    more: list[Any]


def untold(value: NeverDefined) -> None:  # type: ignore[name-defined]  # noqa: F821  that is what it is for
    pass


@engine.task(retries=0)
def number(n: int) -> int:
    if n < 0:
        raise ValueError(n)
    return n


@engine.task
def name(path: str) -> str:
    return path


@engine.task(retries=0)
def total(left: int, right: int = 0, *, label: str = "") -> int:
    assert type(left) is int
    return left + right


@engine.task(retries=0)
def total_of_list(parts: list[int], named: dict[str, int]) -> int:
    return sum(parts) + sum(named.values())


@engine.task(retries=0)
async def greet(who: str, times: int) -> str:
    return who * times


@engine.task(retries=0)
def maybe(left: int | None, right: int | None) -> list[int | None]:
    return [left, right]


@engine.task
def collect(odd: Stream[int], label: str, even: Stream[int]) -> list[Any]:
    return [list(odd), len(odd), label, list(even), len(even), list(even) == list(even)]


@engine.task
def rest(first: int, others: Stream[int] = Stream()) -> list[int]:
    return [first, -1, *others, len(others), others.broken]


@engine.task(retries=0)
def yields() -> Spawns[None]:
    yield total.of(Node[int](7).out)


@engine.task(retries=0)
def spawns(then: bool) -> None:
    call = total.of(Node[int](7).out)
    if then:
        current().spawn(number.of(1), then=call)
    else:
        current().spawn(call)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHAPES, "graph", graph.plan_of)


@pytest.fixture(params=["memory", "sqlite"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = Engine("memory:" if request.param == "memory" else tmp_path / "graph.db", include=[engine])
    yield made
    made.close()


def test_a_call_takes_the_results_of_others_as_its_own_arguments(here: Engine) -> None:
    work = Graph()
    left = assert_type(work.add(number.of(1)), Node[int])
    both = work.add(total.of(left.out, work.add(number.of(2)).out))
    again = work.add(total.of(both.out, label="twice", right=both.out))
    work.add(total_of_list.of([1, left.out, again.out], {"both": both.out, "ten": 10}))
    work.add(greet.of(work.add(name.of("a\udcff~r0")).out, left.out))
    run = here.run(work)
    assert run.state is RunState.DONE
    assert sorted(run.results("total")) == [3, 6]
    assert list(run.results("total_of_list")) == [1 + 1 + 6 + 3 + 10]
    assert list(run.results("greet")) == ["a\udcff~r0"]


@pytest.mark.parametrize("many", [2, 3 * SMALL])
def test_several_streams_have_their_own_results_in_order(here: Engine, many: int) -> None:
    work = Graph()
    odd = assert_type(work.add_many([number.of(n) for n in range(1, 2 * many, 2)]), Nodes[int])
    even = work.add_many([number.of(n) for n in range(0, 2 * many + 2, 2)])
    work.add(collect.of(odd.out, work.add(name.of("x")).out, even.out))
    expected = [list(range(1, 2 * many, 2)), many, "x", list(range(0, 2 * many + 2, 2)), many + 1, True]
    assert list(here.run(work).results("collect")) == [expected]


def test_a_stream_with_a_default_may_be_passed_and_is_left_alone_when_it_is_not(here: Engine) -> None:
    work = Graph()
    one, more = work.add(number.of(1)), work.add_many([number.of(2), number.of(3)])
    work.add(rest.of(one.out))
    work.add(rest.of(one.out, more.out))
    assert sorted(here.run(work).results("rest")) == [[1, -1, 0, 0], [1, -1, 2, 3, 2, 0]]


def test_more_results_than_a_claim_brings_are_read_before_the_attempt(here: Engine) -> None:
    work = Graph()
    parts = [work.add(number.of(n)) for n in range(3 * SMALL)]
    work.add(total_of_list.of([part.out for part in parts], {}))
    few = Graph(brings=False)
    few.add(total.of(few.add(number.of(4)).out))
    assert list(here.run(work).results("total_of_list")) == [sum(range(3 * SMALL))]
    assert list(here.run(few).results("total")) == [4]


def test_many_results_that_are_too_large_together_are_refused(here: Engine) -> None:
    @here.task
    def text(n: int) -> str:
        return "x" * 20_000

    @here.task(retries=0)
    def long(texts: list[str]) -> int:
        return len(texts)

    work = Graph()
    parts = [work.add(text.of(n)) for n in range(SMALL + 1)]
    work.add(long.of([part.out for part in parts]))
    run = here.run(work)
    (error,) = run.errors()
    assert "may take 1,048,576 (1 MiB). Let the parameter be a Stream" in error.failure.text


def test_a_member_that_did_not_end_well_is_none_where_the_rule_lets_the_task_run(here: Engine) -> None:
    work = Graph(rule=Rule.ALWAYS)
    good, bad = work.add(number.of(1)), work.add(number.of(-1))
    work.add(maybe.of(good.out, bad.out))
    work.add(total.of(bad.out))
    work.add(rest.of(good.out, work.add_many([number.of(5), number.of(-5)]).out))
    run = here.run(work)
    assert list(run.results("maybe", partial=True)) == [[1, None]]
    assert list(run.results("rest", partial=True)) == [[1, -1, 5, 1, 1]]
    assert [error.failure.text for error in run.errors() if error.kind == "total"] == [
        "total(): its stored call does not fit the function. ValidationError: Expected `int`, got `null` - at `left`. "
        "If the function was changed, let it take what it took before, or make a new one under another name"
    ]


def test_a_broken_member_skips_what_takes_its_result(here: Engine) -> None:
    work = Graph()
    work.add(total.of(work.add(number.of(-1)).out))
    run = here.run(work)
    assert run.counts.skipped == 1


PROGRAM = f"""
import os, pathlib, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from ramify import Engine, Stream
from ramify.shapes.table import SHAPES
from tests.shapes import graph

SHAPES["graph"] = graph.plan_of
engine = Engine("graph.db")

@engine.task
def number(n: int) -> int:
    print("number", n)
    return n

@engine.task
def add(left: int, right: int) -> int:
    if left == 3 and not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return left + right

@engine.task
def collect(parts: Stream[int], more: Stream[int]) -> list[int]:
    return [*parts, *more]

if __name__ == "__main__":
    work = graph.Graph()
    some = work.add_many([number.of(n) for n in range(100)])
    three = work.add(add.of(work.add(number.of(100)).out, work.add(number.of(-97)).out))
    six = work.add(add.of(three.out, three.out))
    work.add(collect.of(some.out, work.add_many([number.of(7)]).out))
    work.add(add.of(six.out, 1))
    run = engine.run(work, name="graph", threads=1)
    print(run.begun.value, run.state.value, sorted(run.results("add")), list(run.results("collect"))[0][-3:])
"""


def test_a_run_with_references_is_killed_and_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    outputs = []
    for code in (-signal.SIGKILL, 0):
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        outputs.append(done.stdout.splitlines())
    assert outputs[1][-1] == "continued done [3, 6, 7] [98, 99, 7]"
    assert "number 100" not in outputs[1], "its result was committed before the kill"


# what is refused, and where


def test_a_reference_is_refused_where_nothing_supplies_it() -> None:
    here = Engine("memory:", include=[engine])
    call = total.of(Node[int](7).out)
    says = "total with the <result of 7>, which is not known here"
    run = here.run([yields.of(), spawns.of(True), spawns.of(False)])
    assert [says in error.failure.text for error in run.errors()] == [True] * 3
    for wrong in (call, [call]):
        with pytest.raises(ConfigError, match=says):
            here.run(wrong)
    with pytest.raises(ConfigError, match=says):
        here.start(number.of(1)).add(call)
    here.close()


USES: list[Callable[[Any], object]] = [
    lambda out: out == 3, lambda out: out != 3, lambda out: [out] == [3], lambda out: out == [],
    lambda out: out in [3], lambda out: out < 3, lambda out: out >= 3, lambda out: out[0], lambda out: out + 1,
    lambda out: 1 + out, lambda out: out - 1, lambda out: 2 * out, lambda out: out / 2, lambda out: -out,
    lambda out: out % 2, lambda out: out @ out, lambda out: out | {}, lambda out: list(out), lambda out: [*out],
    lambda out: max(out), lambda out: "x" in out, lambda out: len(out), lambda out: bool(out), lambda out: not out,
    lambda out: int(out), lambda out: float(out), lambda out: range(out), lambda out: round(out), lambda out: str(out),
    lambda out: f"{out}", lambda out: dict(out),
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_a_reference_that_is_taken_for_its_result_says_that_this_is_not_known_yet(use: Callable[[Any], object]) -> None:
    for stands in (Node[int](7).out, Node[list[int]](8).out):
        with pytest.raises(NotKnownYet, match=r"^<result of \d> is not known yet, .* Do that in a task that takes it$"):
            use(stands)


def test_a_name_that_a_result_may_have_is_not_known_yet_either() -> None:
    out: Any = Node[str](7).out
    with pytest.raises(AttributeError, match=r"<result of 7> is not known yet, so it cannot be asked for its \.upper"):
        out.upper()
    assert not hasattr(out, "upper")
    assert not callable(out)


def test_references_are_still_compared_with_each_other() -> None:
    here, there = Node[int](7).out, Node[int](7).out
    other: Any = Node[int](8).out
    assert here == there
    assert here != other
    assert here in [other, there]
    assert [other, here].index(there) == 1
    assert {here: 1}[there] == 1
    assert (here, 3) == (there, 3)
    made, same = Holder(here, [other]), Holder(there, [other])
    assert made == same
    # What is equal to anything may say so.
    assert here == ANY
    called = Mock()
    called(here, n=3)
    called.assert_called_once_with(there, n=ANY)


def test_what_is_refused_has_no_exception_of_ours_above_it() -> None:
    out: Any = Node[str](7).out

    class Unknown:
        pass

    text: Any = Reference(7, of=str)
    odd: Any = [out, Unknown()]
    wrongs: list[Callable[[], object]] = [
        lambda: number.of(text),
        lambda: number.of([out]),  # type: ignore[arg-type]
        lambda: total_of_list.of(odd, {}),
        lambda: number.of("x"),  # type: ignore[arg-type]
        lambda: number.handler.signature.decode(b'["x"]'),
        lambda: number.handler.signature.decode_result(b'"x"'),
        lambda: Engine("memory:").task(untold),
    ]
    for wrong in wrongs:
        with pytest.raises((BadPayload, ConfigError)) as refused:
            wrong()
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__ or refused.value.__context__ is None
    with pytest.raises(BadPayload, match=r"`parts\[1\]` is an Unknown, which cannot be stored"):
        total_of_list.of(odd, {})


def test_a_key_lane_or_once_that_would_be_taken_from_a_reference_is_refused() -> None:
    here = Engine("memory:")
    out: Any = Node[str](7).out
    for options in (
        {"key": "path"}, {"lane": "path"}, {"once": "path"}, {"once": True},
        {"key": lambda path: path.upper()}, {"lane": lambda path: f"x{path}"}, {"key": lambda path: path and "x"},
    ):  # fmt: skip

        @here.task(name=f"load{len(here._runtime.table())}", **options)
        def load(path: str) -> None: ...

        with pytest.raises(BadPayload, match=r"<result of 7>.*not known yet.*(another argument|Give a key)") as no:
            load.of(out)
        assert type(no.value) is BadPayload
    with pytest.raises(BadPayload, match=r"not known yet\. Give a key"):
        name.of(out).once()
    assert isinstance(name.of(out).once("mine").lane("here"), ReferringCall)
    here.close()


def test_a_key_of_another_argument_is_taken_as_ever() -> None:
    here = Engine("memory:")

    @here.task(key="day", lane=lambda day, rows: day)
    def publish(day: str, rows: int) -> None: ...

    call = publish.of("monday", Node[int](7).out)
    assert (call.label, call.in_lane) == (b"monday", "monday")
    here.close()


def test_what_cannot_be_stored_beside_a_reference_is_refused_at_once() -> None:
    out: Any = Node[int](7).out
    many: Any = Nodes[int](range(3)).out
    wrong: Any = total
    unlike: Any = collect
    untold: Any = name
    lists: Any = total_of_list
    for call, says in (
        (lambda: wrong.of(out, "x"), "`right`: expected int, got a str"),
        (lambda: wrong.of(out, right=object()), "`right` is an object, which cannot be stored"),
        (lambda: wrong.of(out, 1, 2), "too many positional arguments"),
        (lambda: wrong.of(many), "`left` was given the <results of range(0, 3)>, which are a stream"),
        (lambda: total_of_list.of([1], {out: 1}), "a reference is a key of a dict"),
        (lambda: collect.of(out, "x", many), "`odd` is a Stream and was given <result of 7>"),
        (lambda: unlike.of([1, 2], "x", many), "`odd` is a Stream and was given [1, 2]"),
        (lambda: unlike.of("x"), "`odd` is a Stream: pass a reference to it, or give it a default"),
        (lambda: untold.of([out]), "`path` takes str, and was given a list of results"),
        (lambda: lists.of(["x" * 2**20, out], {}), "1 MiB"),
    ):  # fmt: skip
        with pytest.raises(BadPayload, match=re.escape(says)):
            call()


def test_references_have_slots_in_the_order_in_which_they_are_met() -> None:
    one, two, many = Node[int](1), Node[int](2), Nodes[int](range(3))
    call = rest.of(two.out, many.out)
    assert isinstance(call, ReferringCall)
    assert [(repr(each), first) for each, first in call.slots()] == [
        ("<result of 2>", 0),
        ("<results of range(0, 3)>", 1),
    ]
    assert call.body == b'{"~":{"first":"~r0","others":"~r1+3"}}'
    assert total.of(two.out, one.out).body == b'{"~":["~r0","~r1"]}'
    assert total.of(two.out, two.out).body == b'{"~":["~r0","~r0"]}'
    assert repr(total.of(two.out, label="~")) == "total(left='<result 0>', label='~')"
    assert two.out == Node[int](2).out
    with pytest.raises(AttributeError, match="never changes"):
        vars_of: Any = two.out
        vars_of.size = 3


def test_an_attempt_in_a_test_is_told_the_results() -> None:
    two, many = Node[int](2), Nodes[int](range(2))
    assert attempt(total.of(two.out, 3), results=[4]).result == 7
    assert attempt(rest.of(two.out, many.out), results=[4, 5, 6]).result == [4, -1, 5, 6, 2, 0]
    with pytest.raises(ConfigError, match="Give them as results="):
        attempt(total.of(two.out))


def test_a_stored_call_that_takes_results_is_shown_with_their_slots(here: Engine) -> None:
    work = Graph()
    work.add(total.of(work.add(number.of(1)).out, 2))
    run = here.run(work)
    assert [row.arguments for row in run.results("total", rows=True)] == [("<result 0>", 2)]
    (task,) = [row.task for row in run.results("total", rows=True)]
    assert here._runtime.store.reads.history(task).ended is Status.DONE


def test_types_of_calls_are_kept() -> None:
    assert_type(total.of(Node[int](1).out), Call[int])
    assert_type(collect.of(Nodes[int](range(1)).out, "x", Nodes[int](range(2)).out), Call[list[Any]])
