"""Plays one curve: `python -m bench.curve_player SIDE WIDTH SECONDS`, in the folder where its store is to be.

Prints when it began and how far it was at which time, as JSON. The engine works to the end of its chains; a queue of
mutable rows stops after so many seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.curve import Played
from bench.frontier_player import play
from bench.frontier_turn import Chain
from bench.growth import ROUNDS
from bench.mutable_rows import FORMS, HUNDRED, ONE, drain
from bench.tree import Chains

#: Steps to print, more than there are points.
STEPS = 2_000


def engine(width: int) -> Played:
    """The engine over the chains, read off the starts of its rounds."""
    report = play(Chain(width, ROUNDS))
    marks = [(1 + number * width, at) for number, at in enumerate(report.marks) if number]
    return Played(report.began, [*marks, (report.tasks, report.began + report.seconds)])


def rows(form: str, width: int, seconds: float) -> Played:
    """A queue of mutable rows over the same chains, as far as it gets."""
    began, steps = drain(Path("bench.db"), Chains(width, ROUNDS), FORMS[form], seconds)
    every = max(1, len(steps) // STEPS)
    return Played(began, [*steps[every - 1 : -1 : every], steps[-1]])


def main(argv: Sequence[str]) -> None:
    """Play, and print."""
    side, width, seconds = argv[0], int(argv[1]), float(argv[2])
    played = engine(width) if side == "engine" else rows({"hundred": HUNDRED, "one": ONE}[side], width, seconds)
    print(msgspec.json.encode(played).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
