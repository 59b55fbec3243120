"""8. Two runs in step.

A run can follow another one: each of its rounds waits until the leader is far enough ahead. The follower reads the
leader's results from the store, so neither keeps them in memory. Here a copy of a tree is compared with the original.
"""

from __future__ import annotations

from ramify import Engine, RunState, Spawns, current

engine = Engine("step.db")

ORIGINAL = {"/": ["a", "b"], "/a": ["x"], "/b": ["y", "z"], "/a/x": [], "/b/y": [], "/b/z": []}
COPY = {"/": ["a", "b"], "/a": [], "/b": ["y", "z", "new"], "/b/y": [], "/b/z": [], "/b/new": []}


def below(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"


@engine.task(key="path")  # a follower asks by this key
def walk(path: str) -> Spawns[list[str]]:
    for name in ORIGINAL[path]:
        yield walk.of(below(path, name))
    return ORIGINAL[path]


@engine.task(key="path")
def check(path: str) -> Spawns[list[str]]:
    wanted, there = current().leader.get(path), COPY[path]
    for name in there:
        if name in wanted:
            yield check.of(below(path, name))
    return [f"missing {below(path, name)}" for name in wanted if name not in there] + [
        f"surplus {below(path, name)}" for name in there if name not in wanted
    ]


def test_a_follower_reads_results_of_its_leader() -> None:
    """`follows=(original, 1)` stays one round behind. `current().leader.get(key)` returns the leader's result for a
    key.
    """
    original = engine.start(walk.of("/"), name="original")  # stored; nothing works on it yet
    copy = engine.run(check.of("/"), name="copy", follows=(original, 1))  # works on both, one round apart
    assert (original.state, copy.state) == (RunState.DONE, RunState.DONE)
    found = [line for lines in copy.results(check) for line in lines]
    assert found == ["missing /a/x", "surplus /b/new"]


@engine.task
def family(path: str) -> list[str | None]:
    return [child.key for child in current().leader.children(path)]


def test_a_follower_sees_the_children_of_a_task() -> None:
    """`leader.children(key)` lists them with their keys."""
    original = engine.start(walk.of("/"), name="original")
    assert list(engine.run(family.of("/b"), follows=original).results()) == [["/b/y", "/b/z"]]
