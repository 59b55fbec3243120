"""A pipeline as a tree: what each `divide`, `expand` and `divert` opened, up to where it is brought together.

Steps that were chained while branches were open belong to each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ramify.shapes.pipeline.verbs import Divert, Divide, Expand, Gate, Meet, RunOther, Sleep, Step, Verb, check_behind


@dataclass(frozen=True, slots=True)
class DivideElement:
    """Branches that run side by side, and the step that gets what all of them gave."""

    branches: Sequence[Sequence[Element]]
    names: Sequence[str] | None
    into: Step | None


@dataclass(frozen=True, slots=True)
class ExpandElement:
    """The steps for each element, and the step that takes all results."""

    body: Sequence[Element]
    max_items: int | None
    into: Step | None


@dataclass(frozen=True, slots=True)
class DivertElement:
    """Ways of which one is taken, by name, and the step that gets what came of it."""

    ways: Mapping[str, Sequence[Element]]
    otherwise: Sequence[Element]
    into: Step | None


Element = Step | Gate | Sleep | RunOther | DivideElement | ExpandElement | DivertElement


def tree_of(verbs: Sequence[Verb]) -> list[Element]:
    """The elements that verbs stand for."""
    found: list[Element] = []
    at = 0
    while at < len(verbs):
        verb = verbs[at]
        # Behind the gate at the end of a branch comes what was chained to all branches.
        check_behind(verbs[at - 1] if at else None, verb)
        match verb:
            case Step() | Gate() | Sleep() | RunOther():
                found.append(verb)
                at += 1
                continue
            case Meet():
                raise AssertionError("a verb that brings together what nobody parted was let through")
        end = _met_at(verbs, at)
        more = tuple(verbs[at + 1 : end])
        meet = verbs[end] if end < len(verbs) else None
        into = meet.step if isinstance(meet, Meet) else None
        match verb:
            case Divide():
                branches = [tree_of(branch._verbs + more) for _, branch in verb.branches]
                found.append(DivideElement(branches, verb.names, into))
            case Expand():
                found.append(ExpandElement(tree_of(verb.body._verbs + more), verb.max_items, into))
            case Divert():
                ways = {name: tree_of(way._verbs + more) for name, way in verb.ways.items()}
                found.append(DivertElement(ways, tree_of(verb.otherwise._verbs + more), into))
        at = end + 1
    return found


def _met_at(verbs: Sequence[Verb], start: int) -> int:
    """Where what was parted is brought together; behind the last verb when it stays open."""
    depth = 0
    for at in range(start, len(verbs)):
        match verbs[at]:
            case Divide() | Expand() | Divert():
                depth += 1
            case Meet():
                depth -= 1
                if not depth:
                    return at
            case _:
                pass
    return len(verbs)
