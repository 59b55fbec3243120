"""Plots: drawn runs of either shape, and what must come of each once nothing fails and nobody disturbs it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ramify import Engine
from tests.shapes import drawn, drawn_pipeline
from tests.shapes.drawn import Drawn
from tests.shapes.drawn_pipeline import ASKING, WAITING, Sort


@dataclass(frozen=True)
class Plot:
    """What is run, what its tasks give by their keys, what those without keys give, what is set in the context, and
    what the runs give that its tasks start, by what their names end with; `handed_on` by the steps that wait for those.
    All other tasks are skipped.
    """

    root: Any
    ends: Mapping[str, Any]
    context: Mapping[str, Any]
    children: list[str] = field(default_factory=list)
    launched: Mapping[str, list[str]] = field(default_factory=dict)
    handed_on: Mapping[str, Any] = field(default_factory=dict)
    stored: Callable[[str, Any], Any] = lambda kind, value: value


def told(value: Any) -> str:
    """A result in words, the same for those that are equal when they are stored."""
    return msgspec.json.encode(value, order="sorted").decode()


def _drawings(chance: random.Random) -> Iterator[list[Drawn]]:
    while True:
        yield drawn.draw(chance, most=10)


def _has_items(drawing: list[Drawn]) -> bool:
    """Whether some map has several items, once nothing fails."""
    _, results, _ = drawn.carried_out(drawing, mended=True)
    return any(each.sort == "map" and len(result or ()) > 1 for each, result in zip(drawing, results, strict=True))


def dag_plot(engine: Engine, chance: random.Random) -> Plot:
    """A DAG, at whose end another run is started now and then."""
    drawing = next(each for each in _drawings(chance) if _has_items(each) or chance.random() < 0.1)
    dag = engine.dag("drawn")
    nodes = drawn.build(dag, drawing)
    found = zip(drawing, *drawn.carried_out(drawing, mended=True)[:2], strict=True)
    ends: dict[str, Any] = {}
    context: dict[str, Any] = {}
    children: list[str] = []
    for number, (each, end, result) in enumerate(found):
        if end != "done":
            continue
        ends[f"n{number}"] = result
        if each.sort == "map":
            items = ends[f"n{each.over}"]
            ends |= {f"n{number}[{at}]": value for at, value in enumerate(result)}
            context |= {f"{number}:{item}": value for item, value in zip(items, result, strict=True)}
            children += (told(f"{number}:{item}") for item in items if drawn.has_child(item))
    launched: dict[str, list[str]] = {}
    last = f"n{len(nodes) - 1}"
    if chance.random() < 0.3 and last in ends and drawing[-1].sort != "map":
        dag.trigger(drawn.step.of(99, "done", [nodes[-1].out]), id="other", when="always")
        launched["other"] = [told(drawn.mixed(99, [ends[last]]))]
    return Plot(dag.of(), ends, context, children, launched)


def pipeline_plot(engine: Engine, chance: random.Random, sorts: Sequence[Sort] = WAITING) -> Plot:
    """A pipeline with whatever there is."""
    drawing = drawn_pipeline.draw(chance, 2, 3, sorts=sorts)
    value = chance.randrange(100)
    expected = drawn_pipeline.carried_out(drawing, value, mended=True)
    root = engine.pipeline("drawn", drawn_pipeline.build(drawing)).of(value)
    launched = {
        key: sorted(told(drawn_pipeline.pieces(got) if step == "b" and "d" in alone else got)
                    for step, got in alone.items() if step != "g")
        for key, alone in expected.launched.items()
    }  # fmt: skip
    handed_on = {key: [*alone.values()][-1] for key, alone in expected.launched.items()}
    return Plot(root, expected.results, expected.results, [], launched, handed_on, drawn_pipeline.stored)


def quick_pipeline_plot(engine: Engine, chance: random.Random) -> Plot:
    """One that starts no other run: who waits for one looks again after a second."""
    return pipeline_plot(engine, chance, ASKING)
