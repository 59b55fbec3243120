"""A program that runs a drawn DAG, to be killed at a crash point or at any moment.

    python -m tests.crash.engine.dag_program

It is told what to do as `program.py` is. SEED draws the DAG; 0 stands for `SCENE`. Each begun node is a line of the
file WITNESS. Options: `point` and `at` (kill itself there, the n-th time), `queues`, and `threads`.
"""

from __future__ import annotations

import random
import sys

from ramify import Engine, Tasks
from ramify.kernel.attempts import current
from tests.crash.engine.programs import arm, options_of, saying, serve
from tests.shapes import drawn
from tests.shapes.drawn import Drawn, build, draw

if "pytest" not in sys.modules:
    # Items of a map that are streamed at a time: few, so that small maps are long streams. Not where other tests run.
    vars(current)["PIECE"] = 2

NAME = "drawn"
#: A fan-out, a fan-in, a map and a map over a map, with something that fails and is cleaned up behind.
SCENE: list[Drawn] = [
    Drawn("step"),
    *(Drawn("step", (0,)) for _ in range(6)),
    Drawn("step", (1, 2, 3, 4, 5, 6)),
    *(Drawn("step", (7,)) for _ in range(9)),
    Drawn("list", (7,)),  # 17 and one value: no items
    Drawn("list", tuple(range(8, 13))),  # 18 and five values: five items, one of which is bad
    Drawn("map", (7,), over=18, on_failed="skip"),
    Drawn("map", over=19),
    Drawn("sum", (16,), over=20),
    Drawn("step", (7,), act="failed"),
    Drawn("step", (22,)),
    Drawn("step", (22, 21), when="failed"),
]
JOINS = 1_000

engine = Engine("store.db", include=[drawn.tasks])
racing = Tasks()


@racing.task(max_crashes=None)
def side(number: int) -> int:
    """A member of a join."""
    return number


@racing.task(max_crashes=None, queue="both")
def joined(left: int, right: int) -> int:
    """What two processes make ready."""
    drawn.heard[0](f"joined {left}")
    assert left == right
    return left


engine.include(racing)


def drawing_of(seed: int) -> list[Drawn]:
    """The DAG that is meant."""
    return draw(random.Random(seed), most=25) if seed else SCENE


def main(work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work."""
    options = options_of(given)
    engine._runtime.url = file
    drawn.heard[0] = saying(witness)
    arm(options)
    if work == "race":
        _race(options["queues"].split(","))
    else:
        dag = engine.dag(NAME)
        build(dag, drawing_of(seed))
        engine.run(dag.of(), name=NAME, threads=int(options.get("threads", "2")))
    engine.close()


def _race(queues: list[str]) -> None:
    """Joins of two members each, of which this process serves one, and another process the other."""
    dag = engine.dag(NAME)
    for number in range(JOINS):
        left = dag.add(side.of(number).queue("left"), id=f"left {number}")
        right = dag.add(side.of(number).queue("right"), id=f"right {number}")
        dag.add(joined.of(left.out, right.out), id=f"joined {number}")
    run = engine.start(dag.of(), name=NAME)
    with engine.working(queues=[*queues, "both"], threads=2):
        assert run.wait(50)


if __name__ == "__main__":
    serve("tests.crash.engine.dag_program")
