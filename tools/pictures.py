"""`python -m tools.pictures [NAME...]`: draw the pictures of the documentation, committed in `docs/pictures/`.

`PICTURES` names each with the function that draws it. A test draws them again and compares; of terminals, on which
commands really run, it compares all but the figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools import charts, drawings, terminal

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"

PICTURES: dict[str, Callable[[], str]] = {
    "one-task.svg": drawings.one_task,
    "log.svg": drawings.log,
    "claims.svg": drawings.claims,
    "rounds.svg": drawings.rounds,
    "joins.svg": drawings.joins,
    "lives.svg": drawings.lives,
    "editions.svg": drawings.editions,
    "survival.svg": drawings.survival,
    "growth-rate.svg": charts.rate,
    "growth-memory.svg": charts.memory,
    "growth-size.svg": charts.size,
    "status.svg": terminal.status,
    "show.svg": terminal.show,
}
#: Pictures of real runs, which take a few seconds, and in which figures differ.
TERMINALS = {"status.svg", "show.svg"}


def main(names: list[str]) -> int:
    """Draw those of these names, or all of them."""
    if unknown := set(names) - set(PICTURES):
        print(f"no picture is called {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        (FOLDER / name).write_text(PICTURES[name](), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
