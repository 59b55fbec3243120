"""`python -m tools.pictures`: draw the pictures of the documentation, which are committed in `docs/pictures/`.

`PICTURES` names each with the function that draws it. A test draws them again and compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools import charts, drawings

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
}


def main() -> int:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
