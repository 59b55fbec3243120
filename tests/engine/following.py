"""Tasks for runs in step, in a module of their own so that worker processes find them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ramify import Fatal, Spawns, Tasks, current
from ramify.engine.engine import Engine

tasks = Tasks()


@tasks.task(key="name")
def lead(name: str, depth: int, width: int = 2) -> Spawns[str]:
    for n in range(width if depth else 0):
        yield lead.of(f"{name}{n}", depth - 1, width)
    return name.upper()


@tasks.task(key="name", retries=0)
def follow(name: str, depth: int, width: int = 2) -> Spawns[tuple[str, int]]:
    """Every name must be there already when it is asked for."""
    found = current().leader.get(name)
    for n in range(width if depth else 0):
        yield follow.of(f"{name}{n}", depth - 1, width)
    return found, current().round


@tasks.task(key="name", retries=0)
def break_at(name: str, depth: int) -> Spawns[str]:
    if not depth:
        raise Fatal(name)
    yield break_at.of(f"{name}0", depth - 1)
    return name


@tasks.task(key="name", retries=0)
def look_for(name: str) -> str:
    try:
        return str(current().leader.get(name))
    except KeyError:
        return f"no {name}"


@tasks.task(retries=0)
def ask_children(name: str) -> list[str]:
    return [f"{child.kind} {child.key} {child.arguments}" for child in current().leader.children(name)]


engine = Engine(Path(tempfile.gettempdir()) / "never-opened.db", include=[tasks])
