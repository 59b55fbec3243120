"""A program that runs a pipeline, to be killed at a crash point or at any moment.

    python -m tests.crash.engine.pipeline_program

It is told what to do as `program.py` is. SEED draws the pipeline; 0 stands for `SCENE`. Each begun step is a line of
the file WITNESS. Options: `point` and `at` (kill itself there, the n-th time), and `threads`. The work `gate` has an
`answer` for its gate: it comes `before` a kill, or `after` it, or `never`, so that the gate times out.
"""

from __future__ import annotations

import random
import sys
import threading
from datetime import timedelta

from ramify import Engine, GateClosed, Tasks, steps
from ramify.inspect.gates import every_gate
from ramify.kernel.attempts import current
from tests.crash.engine.programs import Options, arm, options_of, saying, serve
from tests.shapes import drawn_pipeline as drawn
from tests.shapes.drawn_pipeline import Drawing, Verb, build, draw

if "pytest" not in sys.modules:
    # Children that are streamed at a time: few, so that small expansions are long streams.
    vars(current)["PIECE"] = 2

NAME = "drawn"
STEP = Verb("step")
#: A chain, an expansion with branches of several steps and a divert in them, a divide, and an expansion in a divide.
SCENE: Drawing = [
    STEP,
    STEP,
    Verb("expand", 0, [[STEP, Verb("divert", 0, [[STEP, STEP], [STEP]]), STEP]]),
    Verb("divide", 0, [[STEP, STEP], [STEP, Verb("expand", 0, [[STEP]])], [STEP]]),
    STEP,
]
#: With which every expansion of it has elements.
VALUE = 3
ASKED, LATE = "asked", "late"
SOON = timedelta(milliseconds=20)

engine = Engine("store.db", include=[drawn.tasks])
asking = Tasks()


@asking.task(max_crashes=None)
def ask(number: int) -> int:
    """What comes before the gate."""
    drawn.heard[0]("ask")
    return number


@asking.task(max_crashes=None)
def told(number: int, answer: str) -> str:
    """What comes of its answer."""
    drawn.heard[0]("told")
    return f"{number} {answer}"


@asking.task(max_crashes=None)
def end(text: str) -> str:
    """What comes at the end."""
    drawn.heard[0]("end")
    return text


engine.include(asking)


def drawing_of(seed: int) -> tuple[Drawing, int]:
    """The pipeline that is meant, and the value it begins with."""
    return (draw(random.Random(seed)), seed % 100) if seed else (SCENE, VALUE)


def main(work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work."""
    options = options_of(given)
    engine._runtime.url = file
    drawn.heard[0] = saying(witness)
    if work == "gate":
        _gate(options)
    else:
        arm(options)
        drawing, value = drawing_of(seed)
        made = engine.pipeline(NAME, build(drawing))
        engine.run(made.of(value), name=NAME, threads=int(options.get("threads", "2")))
    engine.close()


def _gate(options: Options) -> None:
    """A step, a sleep, a gate that is answered or times out, and what follows it."""
    wait = SOON if options.get("answer") == "never" else timedelta(days=1)
    written = steps(ask).sleep(SOON).gate("ok", str, timeout=wait, otherwise=LATE).chain(told).sleep(SOON).chain(end)
    run = engine.start(engine.pipeline(NAME, written).of(7), name=NAME)

    def is_open() -> bool:
        return any(every_gate(engine._runtime.store.reads, run.id))

    if options.get("answer") == "before":
        # Whoever was killed had come this far: the step before the gate is done.
        with engine.working(threads=1):
            while not is_open() and run["ok"].state != "done":
                threading.Event().wait(0.002)
    arm(options)
    with engine.working(threads=1):
        while options.get("answer") != "never" and run["ok"].state != "done":
            if is_open():
                try:
                    run.answer("ok", ASKED)
                except GateClosed:
                    break
            threading.Event().wait(0.002)
        assert run.wait(50)


if __name__ == "__main__":
    serve("tests.crash.engine.pipeline_program")
