"""Pipelines as they are written: ids, options, steps that are shared, and all that is refused where it stands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, Literal

import pytest

from ramify import (
    AsyncSpawns,
    BadPayload,
    ConfigError,
    Engine,
    Pipeline,
    Return,
    Route,
    Steps,
    Stream,
    Tasks,
    current,
    steps,
)
from ramify.testing import using
from tests.shapes.dags import states

here = Tasks()
DAY = timedelta(days=1)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@here.task
def one(n: int) -> int:
    return n


@here.task
def two(n: int, answer: bool) -> int:
    return n + answer


@here.task
def many(n: int) -> list[int]:
    return list(range(n))


@here.task
def yields(n: int) -> Iterator[int]:
    yield from range(n)


@here.task
def total(parts: Stream[int]) -> int:
    return sum(parts)


@here.task
def together(parts: list[int]) -> int:
    return sum(parts)


@here.task
def by_name(parts: dict[str, int]) -> int:
    return sum(parts.values())


@here.task
def word(n: int) -> Literal["a", "b"]:
    return "a" if n else "b"


@here.task
def colour(n: int) -> Colour:
    return Colour.RED if n else Colour.BLUE


@here.task
def is_even(n: int) -> bool:
    return not n % 2


@here.task
def route(n: int) -> Route[int]:
    return Route("a" if n else "b", n)


@here.task
def anything(value: Any) -> Any:
    return value


@here.task
def told(n: int) -> list[Any]:
    me = current()
    return [me.lane, dict(me.headers), me.key, me.attempt]


@here.task
async def yields_slowly(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each


@here.task
async def spawns_slowly(n: int) -> AsyncSpawns[int]:
    yield one.of(n)
    yield Return(n)


engine = Engine("memory:", include=[here])
inner: Any = engine.pipeline("inner", steps(one))


def pipeline(written: Steps[..., Any, Any]) -> Pipeline[..., Any]:
    return engine.pipeline("p", written)


def ids(written: Steps[..., Any, Any]) -> list[str]:
    return [node.id for node in pipeline(written)._dag]


anyhow: Any = one
any_two: Any = two
gated: Any = steps(anything).gate("g", bool)

#: What was written, and what is answered: what is wrong, and what to write instead.
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "not started: a task": (
        lambda: engine.pipeline("p", anyhow),
        "Write steps(one).chain(…).",
    ),
    "not started: nothing": (lambda: engine.pipeline("p", None), "Write steps(task).chain(…)."),  # type: ignore[call-overload]
    "no name": (lambda: engine.pipeline("", steps(one)), "the name of a pipeline is empty. Give it a name."),
    "started twice": (lambda: steps(steps(anyhow)), "steps(): expected a task, got steps(…). Add to them with"),  # type: ignore[arg-type]
    "started in the middle": (
        lambda: steps(one).chain(steps(one)),  # type: ignore[arg-type]
        "chain(steps(…)): expected a task, got steps. Chain the steps one by one; divide, expand and divert take",
    ),
    "a call": (
        lambda: steps(one).chain(one.of(3)),  # type: ignore[arg-type]
        "chain(one.of(…)): expected a task, got a call. Write chain(one).",
    ),
    "a pipeline as a step": (
        lambda: steps(one).chain(inner),
        "chain(inner): expected a task, got a pipeline or a DAG. Write steps(…).run(inner).",
    ),
    "a pipeline as a branch": (
        lambda: steps(many).expand(inner),
        "expand(inner): expected a task, got a pipeline or a DAG. Write steps(…).run(inner).",
    ),
    "a run of a pipeline": (
        lambda: steps(one).run(inner.of(1)),
        "run(inner.of(…)): expected a definition, got a run of it. Write steps(…).run(inner): it takes the value",
    ),
    "a run of a name": (
        lambda: steps(one).run("inner"),  # type: ignore[call-overload]
        "run('inner'): expected a pipeline, a DAG with one param, or a task. Make one with @engine.task.",
    ),
    "a run of steps": (
        lambda: steps(one).run(steps(one)),  # type: ignore[call-overload]
        'run(steps(…)): expected a pipeline, a DAG with one param, or a task, got steps. Make a pipeline of them: '
        'engine.pipeline("name", steps(…))',
    ),
    "a function": (lambda: steps(len), "steps(len): expected a task. Make one with @engine.task."),  # type: ignore[arg-type]
    "collapse of nothing": (
        lambda: steps(anyhow).collapse(total),  # type: ignore[misc]
        "collapse(total): no open branch to join. Write expand(…) first.",
    ),
    "combine of nothing": (
        lambda: steps(anyhow).combine(together),  # type: ignore[misc]
        "combine(together): no open branch to join. Write divide(…) first.",
    ),
    "converge of nothing": (
        lambda: steps(anyhow).converge(one),  # type: ignore[misc]
        "converge(one): no open branch to join. Write divert(…) first.",
    ),
    "met twice": (
        lambda: steps(one).divide([one]).combine(together).combine(anyhow),  # type: ignore[misc]
        "combine(one): no open branch to join. Write divide(…) first.",
    ),
    "the wrong kind": (
        lambda: steps(one).divide([many]).expand(one).combine(anyhow),  # type: ignore[misc]
        "combine(one): the innermost open branch is expand(…). Join it with collapse(…).",
    ),
    "the wrong kind inside": (
        lambda: steps(many).expand(one).divide([one]).collapse(anyhow),  # type: ignore[misc]
        "collapse(one): the innermost open branch is divide(…). Join it with combine(…).",
    ),
    "open inside of what is combined": (
        lambda: pipeline(steps(one).divide([steps(many).expand(one)]).combine(together)),
        "p: a branch ends in an open expand(…), so it has no single result. Join it first: "
        "collapse(…)",
    ),
    "open inside of what is collapsed": (
        lambda: pipeline(steps(many).expand(steps(one).divide([one, one])).collapse(total)),
        "a branch ends in an open divide(…), so it has no single result. Join it first: "
        "combine(…)",
    ),
    "no branches": (
        lambda: steps(one).divide([]),
        "divide([]): expected a list of branches, or a dict of them by name.",
    ),
    "one branch": (lambda: steps(one).divide(anyhow), "expected a list of branches, or a dict of them by name."),
    "a branch without a name": (lambda: steps(one).divide({"": one}), "divide: a name is empty. Give it a name."),
    "no otherwise": (
        lambda: steps(word).divert({"a": anything}),  # type: ignore[call-overload]
        "divert({'a': …}): expected a way for any other value. Give otherwise=….",
    ),
    "no ways": (lambda: steps(word).divert({}, otherwise=anything), "divert({}): expected a dict of ways"),
    "a way that is there twice": (
        lambda: steps(anything).divert({1: anything, "1": anything}, otherwise=anything),
        "divert: the way '1' can never be taken: another one is called '1'.",
    ),
    "a way that no step can return": (
        lambda: steps(anything).divert({print: anything}, otherwise=anything),
        "can never be taken: `way` is a builtin_function_or_method, which cannot be stored",
    ),
    "a way of a Literal that is never taken": (
        lambda: pipeline(steps(word).divert({"c": anything}, otherwise=anything)),
        "p: the way 'c' can never be taken: word returns a, b",
    ),
    "a way of an enum that is never taken": (
        lambda: pipeline(steps(colour).divert({"RED": anything}, otherwise=anything)),
        "p: the way 'RED' can never be taken: colour returns red, blue",
    ),
    "a way of a bool that is never taken": (
        lambda: pipeline(steps(is_even).divert({"yes": anything}, otherwise=anything)),
        "p: the way 'yes' can never be taken: is_even returns True, False",
    ),
    "one name twice": (
        lambda: pipeline(steps(one, id="x").chain(one, id="x")),
        "p: id='x': this id is taken. Give another id.",
    ),
    "one name twice in a branch": (
        lambda: pipeline(steps(many).expand(steps(one, id="x").chain(one, id="x"))),
        "p: id='x': this id is taken. Give another id.",
    ),
    "a gate like a step": (
        lambda: pipeline(steps(one, id="x").gate("x", bool)),
        "p: gate('x'): this name is taken by another gate or step.",
    ),
    "two gates of one name": (
        lambda: pipeline(steps(one).gate("x", bool).chain(two).gate("x", bool).chain(two)),
        "p: gate('x'): this name is taken by another gate or step.",
    ),
    "an empty id": (lambda: steps(one).chain(one, id=""), "chain(one, id=…): an id is empty. Give it a name."),
    "an id that is too long": (lambda: steps(one, id="x" * 256), "steps(one, id=…): an id has 256 characters; at most"),
    "an id that no store keeps": (
        lambda: steps(many).expand(steps(one).run(one, id="a\0b")),
        "run: a name 'a\\x00b' holds a NUL or a lone surrogate",
    ),
    "a step that no store keeps": (lambda: steps(one).chain(one, id="\ud800"), "holds a NUL or a lone surrogate"),
    "a gate like a step before it": (
        lambda: pipeline(steps(one).gate("one", bool)),
        "p: gate('one'): this name is taken by another gate or step.",
    ),
    "an id like a step before it": (
        lambda: pipeline(steps(one).chain(one, id="one")),
        "p: id='one': this id is taken. Give another id.",
    ),
    "a sleep behind a gate": (
        lambda: steps(one).gate("a", bool).sleep(timedelta(1)),
        "gate('a'): expected a step that takes the value and the answer. Add chain(…).",
    ),
    "a sleep behind the gate of a branch": (
        lambda: pipeline(steps(one).divide([steps(one).gate("a", bool)]).sleep(timedelta(1))),
        "gate('a'): expected a step that takes the value and the answer. Add chain(…).",
    ),
    "an unknown option": (
        lambda: steps(one, retires=3),  # type: ignore[call-arg]
        "steps(one, retires=…): unknown option. "
        "A step has the options id, retries, timeout, delay, priority, queue, lane, headers",
    ),
    "options of steps": (
        lambda: steps(many).expand(steps(one), retries=3),
        "expand(steps(…), retries=…): expected options on the steps themselves",
    ),
    "a cap that is none": (
        lambda: steps(many).expand(one, max_items=-1),
        "expand(max_items=-1): expected a whole number, 0 or more",
    ),
    "expand of no list": (
        lambda: pipeline(steps(one).expand(one)),  # type: ignore[misc]
        "p: expand(one): expected a list, got int from one. Return a list there.",
    ),
    "an element that does not fit": (
        lambda: pipeline(steps(many).expand(together)),  # type: ignore[arg-type]
        "p: together(): `parts` takes list[int], and the <each of many> is int",
    ),
    "a value that does not fit": (
        lambda: pipeline(steps(many).chain(one)),  # type: ignore[arg-type]
        "p: one(): `n` takes int, and the <result of many> is list[int]",
    ),
    "items that nobody takes": (
        lambda: pipeline(steps(one).chain(yields).chain(anything)),
        "p: yields yields items, and the next step does not take them. Add expand(…), or return a list.",
    ),
    "items at the end": (
        lambda: pipeline(steps(one).chain(yields)),
        "p: yields yields items, and the next step does not take them. Add expand(…), or return a list.",
    ),
    "items of the first step": (
        lambda: pipeline(steps(yields).chain(anything)),
        "p: the first step, yields, yields items. Return a list.",
    ),
    "a gate with nothing behind it but a gate": (
        lambda: steps(one).gate("a", bool).gate("b", bool),
        "gate('a'): expected a step that takes the value and the answer. Add chain(…).",
    ),
    "a gate that is divided": (
        lambda: steps(one).gate("a", bool).divide([anyhow]),
        "gate('a'): expected a step that takes the value and the answer. Add chain(…).",
    ),
    "a step that takes no answer": (
        lambda: pipeline(steps(one).gate("a", bool).chain(anyhow)),
        "p: one(): too many positional arguments. A step after a gate takes two arguments: the value and the answer",
    ),
    "a gate with no name": (lambda: steps(one).gate("", bool), "gate: a name is empty. Give it a name."),
    "a gate that never times out": (
        lambda: steps(one).gate("a", bool, otherwise=True),
        "gate('a', otherwise=…): expected a timeout after which that is the answer. Give timeout=….",
    ),
    "an otherwise that is no answer": (
        lambda: steps(one).gate("a", bool, timeout=DAY, otherwise="yes"),
        "gate('a', …): `otherwise`: expected bool, got a str",
    ),
    "a time-out of no length": (
        lambda: steps(one).gate("a", bool, timeout=-3),
        "gate('a', timeout=-3): expected seconds or a timedelta, more than 0. Write timedelta(days=3).",
    ),
    "an answer that cannot be stored": (
        lambda: steps(one).gate("a", len),
        "answers of this type cannot be stored",
    ),
    "a sleep that is no time": (
        lambda: steps(one).sleep("3"),  # type: ignore[arg-type]
        "sleep('3'): expected seconds or a timedelta, more than 0. Write timedelta(days=3).",
    ),
    "a sleep for ever": (
        lambda: steps(one).sleep(DAY * 36_500),
        "sleep(datetime.timedelta(days=36500)): expected less than a hundred years.",
    ),
    "a gate that is open for ever": (
        lambda: steps(one).gate("a", bool, timeout=DAY * 40_000),
        "gate('a', timeout=datetime.timedelta(days=40000)): expected less than a hundred years.",
    ),
    "ways that end in a gate": (
        lambda: pipeline(steps(word).divert({"a": gated}, otherwise=anything).converge(any_two)),
        "p: two(): missing a required argument: 'answer'. A branch that ends in a gate gives the answer alone: "
        "chain a step there that takes both",
    ),
    "branches that end in a gate": (
        lambda: pipeline(steps(one).divide([steps(one).gate("g", bool)]).combine(any_two)),
        "A branch that ends in a gate gives the answer alone: chain a step there that takes both",
    ),
    "ways without a gate": (
        lambda: pipeline(steps(word).divert({"a": anything}, otherwise=anything).converge(any_two)),
        "p: two(): missing a required argument: 'answer'",
    ),
    "branches with names for a list": (
        lambda: pipeline(steps(one).divide({"a": one}).combine(together)),  # type: ignore[arg-type]
        "p: together(): `parts` takes list[int], and was given a dict of results",
    ),
    "branches without names for a dict": (
        lambda: pipeline(steps(one).divide([one]).combine(by_name)),  # type: ignore[arg-type]
        "p: by_name(): `parts` takes dict[str, int], and was given a list of results",
    ),
    "items of an async generator": (
        lambda: pipeline(steps(one).chain(yields_slowly).expand(one)),  # type: ignore[misc]
        "yields_slowly: expected an async generator to yield calls, got one of int. Make it a generator without async",
    ),
    "a sleep of nothing": (lambda: steps(one).sleep(timedelta(0)), "sleep(datetime.timedelta(0)): expected seconds"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_with_what_to_write_instead(name: str) -> None:
    write, says = REFUSED[name]
    with pytest.raises(ConfigError, match=re.escape(says)):
        write()


@pytest.mark.parametrize(("option", "value"), [("retries", "often"), ("delay", -1), ("timeout", 0), ("queue", "")])
def test_an_option_that_is_wrong_is_refused_when_the_pipeline_is_defined(option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(BadPayload, match=f"{option}"):
        pipeline(steps(one, **options))
    with pytest.raises(ConfigError, match=f"p: .*{option}"):
        pipeline(steps(one).chain(one, **options))


def test_arguments_of_a_run_are_those_of_the_first_step() -> None:
    made = engine.pipeline("p", steps(two).chain(one))
    assert made.of(3, answer=True).ids == ("two", "one")
    with pytest.raises(BadPayload, match="missing a required argument: 'answer'"):
        made.of(3)  # type: ignore[call-arg]
    with pytest.raises(BadPayload, match="`n`: expected int, got a str"):
        made.of("x", True)  # type: ignore[arg-type]


# ids


def test_a_step_is_called_like_its_task_and_the_second_one_has_a_number() -> None:
    assert ids(steps(one).chain(one).chain(one, id="mine").chain(one)) == ["one", "one#2", "mine", "one#3"]


def test_gates_sleeps_ways_and_where_they_meet_have_ids_of_their_own() -> None:
    written = steps(one).gate("ok", bool).chain(two).sleep(DAY).chain(word).sleep(DAY)
    ways = written.divert({"a": anything}, otherwise=anything).converge(anything)
    assert ids(ways) == [
        "one", "ok", "two", "sleep", "word", "sleep#2", "sleep#2=a", "anything", "sleep#2=otherwise", "anything#2",
        "(anything)", "anything#3",
    ]  # fmt: skip


def test_what_is_chained_while_branches_are_open_is_there_in_each() -> None:
    written = steps(one).divide([one, steps(one, id="x")]).chain(one, id="each").chain(one).combine(together)
    assert ids(written) == ["one", "one#2", "each", "one#3", "x", "each#2", "one#4", "together"]
    gated = steps(one).divide([one, one]).gate("ok", bool).chain(two).combine(together)
    assert [id for id in ids(gated) if id.startswith("ok")] == ["ok", "ok#2"]


def test_two_diverts_of_the_same_steps_and_tasks_do_not_clash() -> None:
    ways = steps(word).divert({"a": anything}, otherwise=anything).converge(one)
    again = ways.chain(word).divert({"a": anything}, otherwise=anything).converge(one)
    assert ids(again)[-7:] == [
        "word#2", "word#2=a", "anything#3", "word#2=otherwise", "anything#4", "(one)#2", "one#2",
    ]  # fmt: skip
    inner = steps(word).divert({"a": anything}, otherwise=anything)
    assert [id for id in ids(steps(one).divide([inner, inner]).combine(anything)) if id[0] == "("] == [
        "(way)", "(way)#2",
    ]  # fmt: skip


def test_steps_do_not_change_and_can_be_shared() -> None:
    common = steps(one).chain(one, id="x")
    first, second = common.chain(many), common.chain(anything)
    assert (ids(common), ids(first), ids(second)) == (
        ["one", "x"],
        ["one", "x", "many"],
        ["one", "x", "anything"],
    )
    assert ids(steps(one).divide({"a": common, "b": common}).combine(by_name)) == [
        "one", "one#2", "x", "one#3", "x#2", "by_name",
    ]  # fmt: skip


def test_ways_are_told_apart_as_their_values_are_stored() -> None:
    taken = {
        "enum": steps(colour).divert({Colour.RED: anything}, otherwise=steps(anything, id="other")),
        "bool": steps(is_even).divert({True: anything}, otherwise=steps(anything, id="other")),
        "literal": steps(word).divert({"b": anything}, otherwise=steps(anything, id="other")),
        "route": steps(route).divert({"b": anything}, otherwise=steps(anything, id="other")),
    }
    for n in (0, 1):
        ends = {name: states(engine.run(pipeline(each).of(n)))["other"] for name, each in taken.items()}
        expected = {"enum": not n, "bool": bool(n), "literal": bool(n), "route": bool(n)}
        assert ends == {name: "done" if other else "skipped" for name, other in expected.items()}


def test_all_that_a_call_can_carry_can_be_said_of_a_step() -> None:
    said: dict[str, Any] = {"lane": "x", "headers": {"trace": "t"}, "priority": -1, "retries": 2, "timeout": 30.0}
    run = engine.run(pipeline(steps(told, **said)).of(1))
    assert list(run.results(told)) == [["x", {"trace": "t"}, "told", 1]]
    run = engine.run(pipeline(steps(one).chain(told, id="mine", **said)).of(1))
    assert list(run.results(told)) == [["x", {"trace": "t"}, "mine", 1]]
    run = engine.run(pipeline(steps(many).expand(told, **said)).of(1))
    assert list(run.results(told)) == [["x", {"trace": "t"}, "told[0].", 1]]
    run = engine.run(pipeline(steps(many).expand(one).chain(told, **said)).of(1))
    assert list(run.results(told)) == [["x", {"trace": "t"}, "one[0].told", 1]]


def test_an_async_step_may_yield_calls_and_its_result() -> None:
    assert states(engine.run(pipeline(steps(spawns_slowly).chain(one)).of(1)))["one"] == "done"


def test_how_a_pipeline_and_a_run_of_it_are_shown() -> None:
    made = pipeline(steps(one).chain(one))
    assert (repr(made), repr(steps(one))) == ("<pipeline p: 2 nodes>", "<1 steps>")
    assert str(made.of(1)) == "p: one(1), 2 nodes"


def test_a_step_may_be_called_like_the_end_of_a_run() -> None:
    made = pipeline(steps(one).divert({"1": one}, otherwise=one).converge(one, id="end"))
    assert "end" in made._dag._ids


class Sent(Route[int], frozen=True):
    """A route by another name."""


@pytest.mark.parametrize("gives", [Route[int] | None, Route[int] | int, Sent, list[Route[int]]])
def test_a_route_that_is_not_all_that_a_step_gives_is_refused(gives: Any) -> None:
    def choose(n: int) -> Any: ...

    choose.__annotations__["return"] = gives
    tasks = Tasks()
    chosen = tasks.task(choose)
    with pytest.raises(ConfigError, match=r"divert: expected a Route, got .* from .*\. Return a Route\[…\] alone"):
        Engine("memory:", include=[tasks, here]).pipeline("p", steps(chosen).divert({"a": one}, otherwise=anything))


def test_a_route_with_a_note_is_a_route() -> None:
    def choose(n: int) -> Annotated[Route[int], "which way"]:
        return Route("a", n)

    tasks = Tasks()
    chosen = tasks.task(choose)
    engine = Engine("memory:", include=[tasks, here])
    with using(engine):
        run = engine.run(engine.pipeline("p", steps(chosen).divert({"a": one}, otherwise=anything)).of(3))
        assert run["one"].state == "done"
