"""DAGs that are drawn at random, and what must come of them, by an executor of a few lines that knows no store.

A drawing is a list of nodes, each behind those it waits for. It is plain values, so that another process can be given
it. `build` makes a DAG of it, `carried_out` says how each node must end and with which result. What fails in a drawing
fails until somebody mends it: `broken` says whether anything still does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from ramify import Dag, Fatal, Skip, Spawns, Stream, Tasks, current
from ramify.shapes.dag.node import Node, When

WHENS: tuple[When, ...] = ("done", "none-failed", "any-done", "failed", "always")
Act = Literal["done", "failed", "skipped"]
ACTS: tuple[Act, ...] = ("done", "done", "done", "done", "failed", "skipped")
Sort = Literal["step", "list", "map", "sum"]
tasks = Tasks()


class Drawn(msgspec.Struct, frozen=True):
    """One node: a step, a list, a map `over` a list or a map, or a sum `over` a map; and the `needs` it has besides."""

    sort: Sort
    needs: tuple[int, ...] = ()
    when: When = "done"
    act: Act = "done"
    over: int | None = None
    on_failed: Literal["fail", "skip"] = "fail"

    @property
    def all_needs(self) -> tuple[int, ...]:
        """What it waits for."""
        return (*self.needs, *(() if self.over is None or self.over in self.needs else (self.over,)))


Drawing = Sequence[Drawn]


def draw(chance: random.Random, most: int = 14) -> list[Drawn]:
    """A drawing with up to so many nodes."""
    drawn: list[Drawn] = []
    for number in range(chance.randint(1, most)):
        lists = [at for at, each in enumerate(drawn) if each.sort in ("list", "map")]
        maps = [at for at in lists if drawn[at].sort == "map"]
        sorts: list[Sort] = ["step", "step", "list"]
        if lists:
            sorts += ["map", "map"]
        if maps:
            sorts += ["sum", "sum"]
        sort = chance.choice(sorts)
        steps = [at for at, each in enumerate(drawn) if each.sort != "map"]
        needs = tuple(chance.sample(steps, min(len(steps), chance.choice((0, 1, 1, 2, 3)))))
        over = None if sort in ("step", "list") else chance.choice(lists if sort == "map" else maps)
        when = chance.choice(("done", "done", *WHENS)) if needs or over is not None else "done"
        act = "done" if sort == "map" else chance.choice(ACTS)
        # What a map is over must be there; otherwise it fails, which another test tells of.
        when = "done" if sort == "map" else when
        drawn.append(Drawn(sort, needs, when, act, over, chance.choice(("fail", "skip"))))
        assert len(drawn) == number + 1
    return drawn


# what nodes do


def begun(name: str) -> None:
    """Say that a node was begun; programs that are watched say it to somebody."""


def unmended() -> bool:
    """Whether what fails in drawings does fail; programs in which it is mended at some time say so."""
    return True


heard: list[Callable[[str], None]] = [begun]
broken: list[Callable[[], bool]] = [unmended]


def _act(act: str) -> None:
    heard[0](current().key or "")
    if act == "failed" and broken[0]():
        raise Fatal("told to")
    if act == "skipped":
        raise Skip("told to")


def mixed(number: int, values: list[Any]) -> int:
    """A number that tells whether all of these came, in this order."""
    for value in values:
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            number = (number * 31 + (7 if part is None else part + 11)) % 1_000_003
    return number


def pieces(number: int) -> list[int]:
    """What a list gives."""
    return [number * 10 + at for at in range(number % 6)]


def is_bad(item: int) -> bool:
    """Whether a task of a map fails on this."""
    return item % 7 == 3


@tasks.task(retries=0, max_crashes=None)
def step(number: int, act: str, values: list[Any]) -> int:
    """A node that takes results."""
    _act(act)
    return mixed(number, values)


@tasks.task(retries=0, max_crashes=None, name="list")
def a_list(number: int, act: str, values: list[Any]) -> list[int]:
    """A node that gives items."""
    _act(act)
    return pieces(number + len(values))


@tasks.task(retries=0, max_crashes=None)
def piece(item: int, values: list[Any], map: int) -> Spawns[int]:
    """What a map does: it says so in the context, and some items have a child whose key is its own for ever."""
    heard[0](f"{map}:{item}")
    if is_bad(item) and broken[0]():
        raise Fatal(f"{item} is bad")
    current().context.set(f"{map}:{item}", mixed(item, values))
    if has_child(item):
        yield child.of(f"{map}:{item}").once(f"{map}:{item}")
    return mixed(item, values)


def has_child(item: int) -> bool:
    """Whether an item of a map makes a task."""
    return item % 3 == 0


@tasks.task(retries=0, max_crashes=None)
def child(of: str) -> str:
    """What an item of a map has made."""
    return of


@tasks.task(retries=0, max_crashes=None, name="sum")
def a_sum(number: int, act: str, parts: Stream[int], values: list[Any]) -> int:
    """A node that takes the results of a map."""
    _act(act)
    return mixed(number, [list(parts), *values])


def build(dag: Dag, drawing: Drawing) -> list[Node[Any]]:
    """Add the nodes of a drawing."""
    nodes: list[Node[Any]] = []
    for number, each in enumerate(drawing):
        values: list[Any] = [nodes[at].out for at in each.needs]
        id = f"n{number}"
        if each.sort == "map":
            assert each.over is not None
            nodes.append(dag.map(piece.of(nodes[each.over].each, values, number), id=id, on_failed=each.on_failed))
        elif each.sort == "sum":
            assert each.over is not None
            nodes.append(dag.add(a_sum.of(number, each.act, nodes[each.over].out, values), id=id, when=each.when))
        else:
            task = step if each.sort == "step" else a_list
            nodes.append(dag.add(task.of(number, each.act, values), id=id, when=each.when))
    return nodes


# what must come of them


def carried_out(drawing: Drawing, *, mended: bool = False) -> tuple[list[str], list[Any], bool]:
    """How each node must end, its result, and whether any task failed; `mended` when nothing fails."""
    ends: list[str] = []
    results: list[Any] = []
    has_failed = False
    for number, each in enumerate(drawing):
        before = [ends[at] for at in each.all_needs]
        runs = {
            "done": all(how == "done" for how in before),
            "none-failed": "failed" not in before,
            "any-done": "done" in before,
            "failed": "failed" in before,
            "always": True,
        }[each.when]
        values = [results[at] for at in each.needs]
        act = "done" if mended and each.act == "failed" else each.act
        end: str = act if runs else "skipped"
        result: Any = None
        if end == "done" and each.sort == "map":
            items = results[each.over or 0]
            bad = [is_bad(item) and not mended for item in items]
            result = [mixed(item, values) for item, is_left_out in zip(items, bad, strict=True) if not is_left_out]
            if any(bad) and each.on_failed == "fail":
                # Its items were made and one failed, so what would gather them is skipped.
                end, result, has_failed = "skipped", None, True
        elif end == "done":
            over = [] if each.over is None else [results[each.over] or []]
            result = pieces(number + len(values)) if each.sort == "list" else mixed(number, [*over, *values])
        has_failed |= end == "failed"
        ends.append(end)
        results.append(result)
    return ends, results, has_failed
