"""Sheets: drawings as SVG text, readable in light and dark, with labels that are neither cut nor written over.

A sheet paints its own background, so that it can be read on a page of any colour. Colours follow the reader's
`prefers-color-scheme` by rules in the file itself; nothing is loaded, and the fonts are those of the reader's system.
Widths of text are estimated with those of DejaVu Sans, one of the widest, so that other fonts need less room. A label
that does not fit its box, its sheet or its neighbours raises `DoesNotFit` when it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import hypot
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Place = tuple[float, float]

SIZE = 13

#: Colours by name, in light and in dark.
COLOURS = {
    "paper": ("#ffffff", "#161b22"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#57606a", "#9aa5b1"),
    "rule": ("#c4ccd4", "#444c56"),
    "mute": ("#eef1f4", "#262d36"),
    "accent": ("#0b7285", "#56c2d6"),
    "wash": ("#dff1f4", "#123841"),
    "warn": ("#c92a2a", "#ff8e86"),
    "blush": ("#fdeaea", "#43201f"),
    "second": ("#9a6700", "#e0b050"),
}
#: Boxes by name: the colours of the inside and of the outline, and of text in it.
BOXES = {
    "plain": ("paper", "rule", "ink"),
    "mute": ("mute", "rule", "soft"),
    "wash": ("wash", "accent", "ink"),
    "solid": ("accent", "accent", "paper"),
    "warn": ("blush", "warn", "warn"),
}
_SANS = 'system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif'
_MONO = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
_WIDTHS = (
    (" ", 0.32),
    ("iljI.,:;'|!", 0.32),
    ("ftr()[]-/", 0.41),
    ("mwMW%@…→", 0.93),
    ("ABCDEFGHJKLNOPQRSTUVXYZ", 0.7),
)


class DoesNotFit(ValueError):
    """A label would be cut, or written over another one."""


@dataclass(frozen=True)
class Area:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Area) -> bool:
        """Whether the two have a point inside in common."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def holds(self, other: Area) -> bool:
        """Whether the other one is inside this one."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )


def text_width(text: str, size: float = SIZE, *, mono: bool = False, bold: bool = False) -> float:
    """About how wide a text is, rather too wide than too narrow."""
    if mono:
        return 0.605 * size * len(text)
    widths = (next((width for some, width in _WIDTHS if char in some), 0.62) for char in text)
    return size * sum(widths) * (1.1 if bold else 1.0)


class Sheet:
    """A drawing of this size. `title` says what it shows, for those who cannot see it."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height = width, height
        self._title = title
        self._parts: list[str] = []
        self._labels: list[tuple[Area, str]] = []

    def box(
        self, x: float, y: float, width: float, height: float, look: str = "plain", *, dashed: bool = False
    ) -> Area:
        """A box without text."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(
            f'<rect class="b-{look}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="3"{dash}/>'
        )
        return Area(x, y, width, height)

    def label(
        self,
        area: Area,
        *lines: str,
        colour: str = "ink",
        size: float = SIZE,
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Lines of text in the middle of an area, which they must fit."""
        height = size * 1.35
        top = area.y + (area.height - height * len(lines)) / 2
        for number, line in enumerate(lines):
            y = top + number * height + size * 1.05
            self.text(area.x + area.width / 2, y, line, "middle", colour, size=size, mono=mono, bold=bold, within=area)

    def block(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *lines: str,
        look: str = "plain",
        size: float = SIZE,
        mono: bool = False,
        bold: bool = False,
        dashed: bool = False,
    ) -> Area:
        """A box with text in it."""
        area = self.box(x, y, width, height, look, dashed=dashed)
        self.label(area, *lines, colour=BOXES[look][2], size=size, mono=mono, bold=bold)
        return area

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: Anchor = "start",
        colour: str = "ink",
        *,
        size: float = SIZE,
        mono: bool = False,
        bold: bool = False,
        within: Area | None = None,
    ) -> None:
        """A line of text; `y` is that of its base line."""
        width = text_width(text, size, mono=mono, bold=bold)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        taken = Area(left, y - 0.8 * size, width, size)
        room = within or Area(0, 0, self.width, self.height)
        if not room.holds(taken):
            raise DoesNotFit(f"{text!r} takes {taken}; there is {room}")
        for other, said in self._labels:
            if taken.meets(other):
                raise DoesNotFit(f"{text!r} is written over {said!r}")
        self._labels.append((taken, text))
        style = f"t-{colour}{' m' if mono else ''}{' s' if bold else ''}"
        self._parts.append(
            f'<text class="{style}" x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" text-anchor="{anchor}">'
            f"{escape(text, quote=False)}</text>"
        )

    def note(self, y: float, text: str) -> None:
        """A line of small text from the left edge."""
        self.text(20, y, text, colour="soft", size=12)

    def line(self, places: Sequence[Place], colour: str = "soft", *, width: float = 1.2, dashed: bool = False) -> None:
        """A line through these places."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in places)
        self._parts.append(f'<polyline class="l-{colour}" points="{path}" stroke-width="{_n(width)}"{dash}/>')

    def arrow(self, places: Sequence[Place], colour: str = "soft", *, width: float = 1.2, dashed: bool = False) -> None:
        """A line with a head at its last place."""
        (x0, y0), (x1, y1) = places[-2:]
        length = hypot(x1 - x0, y1 - y0)
        along, across = ((x1 - x0) / length, (y1 - y0) / length), (-(y1 - y0) / length, (x1 - x0) / length)
        back = x1 - 8 * along[0], y1 - 8 * along[1]
        self.line([*places[:-1], back], colour, width=width, dashed=dashed)
        head = [
            (x1, y1),
            (back[0] + 4 * across[0], back[1] + 4 * across[1]),
            (back[0] - 4 * across[0], back[1] - 4 * across[1]),
        ]
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in head)
        self._parts.append(f'<polygon class="f-{colour}" points="{points}"/>')

    def dot(self, x: float, y: float, colour: str = "accent", radius: float = 3) -> None:
        """A small filled circle."""
        self._parts.append(f'<circle class="f-{colour}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>')

    def svg(self) -> str:
        """The drawing."""
        title = escape(self._title)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{title}">\n'
            f"<title>{escape(self._title, quote=False)}</title>\n"
            f"<style>\n{_rules(0)}@media (prefers-color-scheme: dark) {{\n{_rules(1)}}}\n"
            f"text {{ font-family: {_SANS} }}\n.m {{ font-family: {_MONO} }}\n.s {{ font-weight: 600 }}\n</style>\n"
            f'<rect class="f-paper" width="{self.width}" height="{self.height}" rx="6"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )


def _rules(scheme: int) -> str:
    colours = {name: pair[scheme] for name, pair in COLOURS.items()}
    rules = [f".t-{name}, .f-{name} {{ fill: {value} }}" for name, value in colours.items()]
    rules += [f".l-{name} {{ stroke: {value}; fill: none }}" for name, value in colours.items()]
    rules += [
        f".b-{look} {{ fill: {colours[inside]}; stroke: {colours[outline]} }}"
        for look, (inside, outline, _) in BOXES.items()
    ]
    return "".join(f"{rule}\n" for rule in rules)


def _n(value: float) -> str:
    """A number as short as it can be, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
