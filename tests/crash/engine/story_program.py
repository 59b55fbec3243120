"""A program that works on whatever a store has, to be killed at any moment.

    python -m tests.crash.engine.story_program

It is told what to do as `program.py` is; the work is the shape of what is drawn. What fails in drawings fails until
the file `MENDED` is beside the store.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ramify import Engine
from ramify.kernel.attempts import current
from tests.crash.engine.programs import serve
from tests.shapes.story import PLOTS

if "pytest" not in sys.modules:
    # Items that are streamed at a time: few, so that small maps are long streams.
    vars(current)["PIECE"] = 2

MENDED = "mended"


def main(shape: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work, until standard input ends."""
    drawing, _ = PLOTS[shape]
    drawing.broken[0] = lambda: not (Path(file).parent / MENDED).exists()
    with Engine(file, include=[drawing.tasks]).working(threads=1 + seed % 2):
        sys.stdin.read()


if __name__ == "__main__":
    serve("tests.crash.engine.story_program")
