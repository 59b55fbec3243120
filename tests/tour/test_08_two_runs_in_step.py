"""8. Two runs in step.

A run may follow another: its round opens when the other is far enough ahead. So what the first has found is there when
the second asks for it, and neither has to keep it in memory. Here a copy of a tree is checked against the original.
"""

from __future__ import annotations

from ramify import Engine, RunState, Spawns, current

engine = Engine("step.db")

ORIGINAL = {"/": ["a", "b"], "/a": ["x"], "/b": ["y", "z"], "/a/x": [], "/b/y": [], "/b/z": []}
COPY = {"/": ["a", "b"], "/a": [], "/b": ["y", "z", "new"], "/b/y": [], "/b/z": [], "/b/new": []}


def below(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"


@engine.task(key="path")  # the key is what a follower asks by
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


def test_one_run_reads_what_the_other_has_found() -> None:
    original = engine.start(walk.of("/"), name="original")  # registered; nobody works on it yet
    copy = engine.run(check.of("/"), name="copy", follows=(original, 1))  # works on both, one round apart
    assert (original.state, copy.state) == (RunState.DONE, RunState.DONE)
    found = [line for lines in copy.results(check) for line in lines]
    assert found == ["missing /a/x", "surplus /b/new"]


@engine.task
def family(path: str) -> list[str | None]:
    return [child.key for child in current().leader.children(path)]


def test_it_also_sees_what_grew_out_of_what() -> None:
    original = engine.start(walk.of("/"), name="original")
    assert list(engine.run(family.of("/b"), follows=original).results()) == [["/b/y", "/b/z"]]
