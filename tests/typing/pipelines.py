"""What both type checkers know about pipelines. Checked, never run."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Literal, assert_type

from ramify import Engine, Pipeline, PipelinePlan, Route, Run, Steps, Stream, steps

engine = Engine()
DAY = timedelta(days=1)


@dataclass
class Decision:
    ok: bool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@engine.task
def receive(order: str, priority: int = 0) -> str:
    return order * priority


@engine.task
def count(order: str) -> int:
    return len(order)


@engine.task
def lines(order: str) -> list[str]:
    return [order]


@engine.task
def pack(line: str) -> float:
    return len(line)


@engine.task
def characters(order: str) -> Iterator[str]:
    yield from order


@engine.task
def ship(parcels: Stream[float]) -> str:
    return str(list(parcels))


@engine.task
def merge(parts: list[int]) -> str:
    return str(parts)


@engine.task
def merge_any(parts: list[int | float]) -> str:
    return str(parts)


@engine.task
def merge_named(parts: dict[str, int]) -> str:
    return str(parts)


@engine.task
def decide(order: str, answer: Decision) -> Route[str]:
    return Route("ship" if answer.ok else "refuse", order)


@engine.task
def colour(order: str) -> Colour:
    return Colour.RED if order else Colour.BLUE


@engine.task
def paint(colour: Colour) -> int:
    return len(colour.value)


@engine.task
def either(value: int | float) -> str:
    return str(value)


@engine.task
def settle(order: str, answer: Any) -> str:
    return f"{order} {answer}"


@engine.task
def approvals(answers: list[bool]) -> bool:
    return all(answers)


@engine.task
def several(answers: Stream[bool]) -> bool:
    return all(answers)


@engine.task
async def fetch(order: str) -> bytes:
    return order.encode()


# Each verb gives what its last task gives.
one = engine.pipeline("one", steps(count))
of_one: Pipeline[[str], int] = one
assert_type(one.of("x"), PipelinePlan[int])
assert_type(engine.start(one.of("x")), Run[int])

# The arguments of a run are those of the first step.
first = engine.pipeline("first", steps(receive).chain(count))
first.of("x")
first.of("x", 3)
first.of("x", priority=3)
assert_type(first.of("x"), PipelinePlan[int])
assert_type(engine.pipeline("async", steps(fetch)).of("x"), PipelinePlan[bytes])

# Lists are taken apart and streams of what came of them are brought together.
expanded = engine.pipeline("expanded", steps(lines).expand(pack).collapse(ship))
assert_type(expanded.of("x"), PipelinePlan[str])
yielded = steps(receive).chain(characters).expand(pack).collapse(ship)
assert_type(engine.pipeline("yielded", yielded).of("x"), PipelinePlan[str])
nested = steps(lines).expand(steps(lines).expand(pack).collapse(ship)).chain(pack).collapse(ship)
assert_type(engine.pipeline("nested", nested).of("x"), PipelinePlan[str])
flat = steps(lines).expand(lines).expand(pack).collapse(ship).chain(pack).collapse(ship)
assert_type(engine.pipeline("flat", flat).of("x"), PipelinePlan[str])

# Branches of one type give lists, or dicts by their names; those of several types lists of any of them.
assert_type(engine.pipeline("divided", steps(receive).divide([count, steps(count)]).combine(merge)).of("x").name, str)
named = steps(receive).divide({"a": count, "b": steps(receive).chain(count)}).combine(merge_named)
assert_type(engine.pipeline("named", named).of("x"), PipelinePlan[str])
mixed = steps(receive).divide([count, pack]).combine(merge_any)
assert_type(engine.pipeline("mixed", mixed).of("x"), PipelinePlan[str])

# A gate hands on the value and the answer; at the end of a branch, the answer.
gated = steps(receive).gate("ok", Decision, timeout=DAY, otherwise=Decision(ok=False)).chain(decide)
ways = gated.divert({"ship": count}, otherwise=steps(lines).expand(pack).collapse(ship).chain(count))
assert_type(engine.pipeline("gated", ways.converge(either)).of("x"), PipelinePlan[str])
asked = steps(receive).divide([steps(receive).gate("a", bool), steps(receive).gate("b", bool)]).combine(approvals)
assert_type(engine.pipeline("asked", asked).of("x"), PipelinePlan[bool])
each_asked = steps(lines).expand(steps(receive).gate("each", bool)).collapse(several)
assert_type(engine.pipeline("each asked", each_asked).of("x"), PipelinePlan[bool])

either_way = steps(receive).gate("union", bool | None, timeout=DAY, otherwise=None).chain(settle)
assert_type(engine.pipeline("union", either_way).of("x"), PipelinePlan[str])
literally = steps(receive).gate("literal", Literal["yes", "no"], timeout=DAY).chain(settle)
assert_type(engine.pipeline("literal", literally).of("x"), PipelinePlan[str])

# Ways by name, by enum and by bool; the task behind them takes what any of them gives.
painted = steps(colour).divert({Colour.RED: paint}, otherwise=paint).converge(either)
assert_type(engine.pipeline("painted", painted).of("x"), PipelinePlan[str])
unlike = gated.divert({"ship": count}, otherwise=pack).converge(either)
assert_type(engine.pipeline("unlike", unlike).of("x"), PipelinePlan[str])

# A sleep changes nothing.
slept = steps(lines).sleep(DAY).expand(pack).collapse(ship)
assert_type(engine.pipeline("slept", slept).of("x"), PipelinePlan[str])

# A step may run another pipeline, a task, or a DAG, of which nobody knows what it gives.
inner = engine.pipeline("inner", steps(count))
assert_type(engine.pipeline("outer", steps(receive).run(inner)).of("x"), PipelinePlan[int])
assert_type(engine.pipeline("of a task", steps(receive).run(count)).of("x"), PipelinePlan[int])
graph = engine.dag("graph")
graph.add(count.of(graph.param("order", str)))
assert_type(engine.pipeline("of a DAG", steps(receive).run(graph)).of("x"), PipelinePlan[Any])

# What is open may stay so at the end, and options go with any step.
open_end = engine.pipeline("open", steps(lines, retries=3).expand(pack, id="parcel", max_items=9))
assert_type(open_end.of("x"), PipelinePlan[Any])
one_way = engine.pipeline("one way", gated.divert({"ship": count}, otherwise=steps(lines).expand(pack).collapse(ship)))
assert_type(one_way.of("x"), PipelinePlan[int | str])


def shared(order: Steps[[str], str, Any]) -> Steps[[str], str, Any]:
    return order


engine.pipeline("shared", steps(receive).divide([shared(steps(receive)), receive]))
