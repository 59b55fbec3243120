"""The graphs of the performance page, drawn from `docs/pictures/growth.json`, which `python -m bench.curve` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log10
from pathlib import Path

import msgspec

from bench.curve import Curve, Curves, Point
from tools.svg import Anchor, Sheet

MEASURED = Path(__file__).parents[1] / "docs" / "pictures" / "growth.json"

LEFT, RIGHT, TOP, BOTTOM = 74, 740, 46, 284
STYLES = (("accent", 2.2), ("second", 1.8), ("warn", 1.8))


def rate() -> str:
    """Tasks a second while the run grows."""
    return _chart("Tasks a second while the run grows", lambda point: point.rate, _short)


def memory() -> str:
    """Memory of the process while the run grows."""
    return _chart("Memory of the process while the run grows", lambda point: point.memory_mb, lambda y: f"{y:,.0f} MB")


def size() -> str:
    """File size while the run grows."""
    return _chart("Size of the file while the run grows", lambda point: point.file_mb, lambda y: f"{y:,.0f} MB")


def _chart(title: str, of: Callable[[Point], float], unit: Callable[[float], str]) -> str:
    curves = msgspec.json.decode(MEASURED.read_bytes(), type=Curves)
    sheet = Sheet(760, 440, title)
    most = max(of(point) for curve in curves.curves for point in _smooth(curve))
    top, step = _scale(most)
    far, stride = _scale(curves.tasks - 1)

    def place(point: Point) -> tuple[float, float]:
        x = LEFT + (RIGHT - LEFT) * point.tasks / far
        return x, BOTTOM - (BOTTOM - TOP) * of(point) / top

    sheet.text(20, 26, title, bold=True)
    for number in range(round(top / step) + 1):
        y = BOTTOM - (BOTTOM - TOP) * number * step / top
        sheet.line([(LEFT, y), (RIGHT, y)], "rule", width=0.8)
        sheet.text(LEFT - 8, y + 4, unit(number * step) if number else "0", "end", "soft", size=11)
    for number in range(round(far / stride) + 1):
        x = LEFT + (RIGHT - LEFT) * number * stride / far
        anchor: Anchor = "end" if number == round(far / stride) else "middle"
        sheet.text(x, BOTTOM + 18, _short(number * stride), anchor, "soft", size=11)
    sheet.text((LEFT + RIGHT) / 2, BOTTOM + 36, "tasks done", "middle", "soft", size=11)
    for (colour, width), curve in zip(STYLES, curves.curves, strict=True):
        path = [place(point) for point in _smooth(curve)]
        sheet.line(path, colour, width=width)
        sheet.dot(*path[-1], colour)
    for number, ((colour, _), curve) in enumerate(zip(STYLES, curves.curves, strict=True)):
        last, y = curve.points[-1], BOTTOM + 62 + 20 * number
        stopped = "" if curve.finished else f": stopped at {_short(last.tasks)} tasks, after {last.seconds:.0f} s"
        sheet.line([(LEFT, y - 4), (LEFT + 18, y - 4)], colour, width=3)
        sheet.text(LEFT + 26, y, f"{curve.name}{stopped}", size=12)
    sheet.text(LEFT, 410, curves.command, colour="soft", mono=True, size=10)
    sheet.text(LEFT, 426, _machine(curves.machine), colour="soft", size=10)
    return sheet.svg()


def _machine(line: str) -> str:
    """What the figures were paid on, without the folder."""
    parts = line.split(", ")
    place = next(number for number, part in enumerate(parts) if " on " in part)
    parts[place] = parts[place].split(" on ")[1]
    return ", ".join(parts)


def _smooth(curve: Curve) -> Sequence[Point]:
    """Every point with the rate of its neighbourhood: of five steps, which hides a single checkpoint of the file."""
    found = []
    for number, point in enumerate(curve.points):
        before = curve.points[max(0, number - 5)]
        seconds, tasks = point.seconds - before.seconds, point.tasks - before.tasks
        found.append(msgspec.structs.replace(point, rate=tasks / seconds) if number and seconds else point)
    return found


def _scale(most: float) -> tuple[float, float]:
    """The end of an axis that holds `most`, and the distance of its marks."""
    digit = 10 ** int(log10(most))
    step = next(digit * share for share in (0.1, 0.2, 0.25, 0.5, 1, 2) if most / (digit * share) <= 6)
    return ceil(most / step - 1e-9) * step, step


def _short(value: float) -> str:
    """A number as people say it: 250 k, 1.5 M."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
