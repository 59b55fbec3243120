"""A graph as an SVG picture: a column for each level, boxes in the colours of their states, and arrows between them.

A graph too long for the width of a screen has a row for each level instead, and its arrows go down.

Promises: whatever nodes are called, the picture is well-formed and holds nothing but text and shapes: no script, no
link, nothing that is loaded. The same graph gives the same picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from statistics import fmean

from ramify.inspect.folding import Box, remarks_of, state_of, title_of, took_of
from ramify.inspect.graph import Graph, Role
from ramify.inspect.palette import COLOURS
from ramify.inspect.text import columns, safe_text, shortened, shortened_inside

#: Columns of text that a box has room for.
_WIDEST = 40
#: In pixels: a column of text in three sizes, the height of boxes and of arrows that pass, and the room around them.
_HUGE, _LARGE, _SMALL = 8.5, 7.9, 6.7
_HEIGHT, _BEND, _GAP, _WAY, _DROP, _EDGE, _HEAD = 46, 8, 16, 64, 36, 24, 48
#: A picture that is wider is drawn from the top down, if that is narrower.
_SCREEN = 1_400
_SHOWN = "#1f2328"
_GREY = "#57606a"
_ROUND = (Role.CASE, Role.END, Role.GATE, Role.SLEEP, Role.WAY, Role.MEET)


@dataclass(slots=True, eq=False)
class _Spot:
    """Where a box is, or where arrows pass a level on their way to one further on."""

    level: int
    height: float = 0
    width: float = 0
    before: list[_Spot] = field(default_factory=list)
    x: float = 0
    y: float = 0

    def middle(self, *, down: bool) -> float:
        """Where arrows meet it, across the way they go."""
        return self.x + self.width / 2 if down else self.y + self.height / 2


class _Picture:
    """Boxes and arrows with their places, from the left to the right or from the top down."""

    def __init__(self, boxes: Sequence[Box], labels: Sequence[Sequence[str]], *, down: bool) -> None:
        self.down = down
        levels = {first: level for level, first in enumerate(sorted({box.first for box in boxes}))}
        self.spots = [
            _Spot(levels[box.first], _HEIGHT, _width(label)) for box, label in zip(boxes, labels, strict=True)
        ]
        self.ways, bends = _ways(boxes, self.spots, down=down)
        self.width, self.height = _lay_out([*self.spots, *bends], len(levels), down=down)


def svg(graph: Graph, boxes: Sequence[Box], about: str) -> Iterator[str]:
    """The lines of the picture, with some words about the graph at its top."""
    labels = [_label(graph, box) for box in boxes]
    laid_out = _Picture(boxes, labels, down=False)
    if laid_out.width > _SCREEN:
        laid_out = min(laid_out, _Picture(boxes, labels, down=True), key=lambda picture: picture.width)
    right, bottom = max(laid_out.width, 2 * _EDGE + columns(safe_text(about)) * _HUGE), laid_out.height
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{bottom:.0f}" '
        f'viewBox="0 0 {right:.0f} {bottom:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace">'
    )
    yield f"<title>{_escaped(graph.name)}</title>"
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'
    yield _text(_EDGE, _EDGE + 6, 14, about, "bold")
    yield (
        '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{_GREY}"/></marker>'
    )
    yield f'<g fill="none" stroke="{_GREY}" stroke-opacity="0.7">'
    for way in laid_out.ways:
        yield f'<path d="{_path_down(way) if laid_out.down else _path(way)}" marker-end="url(#arrow)"/>'
    yield "</g>"
    for box, label, spot in zip(boxes, labels, laid_out.spots, strict=True):
        yield from _drawn(graph, box, label, spot, behind=4 if laid_out.down else -4)
    yield "</svg>"


def _label(graph: Graph, box: Box) -> list[str]:
    about = " · ".join(filter(None, [state_of(graph, box), took_of(graph, box), *remarks_of(graph, box)]))
    return [shortened_inside(safe_text(title_of(graph, box)), _WIDEST), shortened(safe_text(about), _WIDEST)]


def _width(label: Sequence[str]) -> float:
    title, about = label
    return 24 + max(columns(title) * _LARGE, columns(about) * _SMALL, 40)


def _ways(boxes: Sequence[Box], spots: Sequence[_Spot], *, down: bool) -> tuple[list[list[_Spot]], list[_Spot]]:
    """The way of each arrow from box to box, and where they pass levels; those from one box pass together."""
    ways: list[list[_Spot]] = []
    bends: dict[tuple[int, int], _Spot] = {}
    for box, end in zip(boxes, spots, strict=True):
        for need in box.needs:
            way = [spots[need]]
            for level in range(spots[need].level + 1, end.level):
                bend = bends.get((need, level))
                if bend is None:
                    size = (_HEIGHT, _BEND) if down else (_BEND, 0)
                    bend = bends[need, level] = _Spot(level, *size, before=[way[-1]])
                way.append(bend)
            # Levels that were taken together have their arrows within the level.
            if spots[need].level < end.level:
                end.before.append(way[-1])
                ways.append([*way, end])
    return ways, list(bends.values())


def _lay_out(spots: Sequence[_Spot], count: int, *, down: bool) -> tuple[float, float]:
    """Give each spot its place, near what leads to it; how wide and high all of it is."""

    def across(spot: _Spot) -> float:
        return spot.width if down else spot.height

    stacks: list[list[_Spot]] = [[] for _ in range(count)]
    for spot in spots:
        stacks[spot.level].append(spot)
    sizes = [sum(across(spot) + _GAP for spot in stack) - _GAP for stack in stacks]
    largest = max(sizes, default=0)
    along = float(_HEAD if down else _EDGE)
    for stack, size in zip(stacks, sizes, strict=True):
        stack.sort(key=lambda spot: fmean(each.middle(down=down) for each in spot.before) if spot.before else 0.0)
        at = (_EDGE if down else _HEAD) + (largest - size) / 2
        thickness = max(spot.height if down else spot.width for spot in stack)
        for spot in stack:
            if down:
                spot.x, spot.y = at, along
            else:
                spot.x, spot.y, spot.width = along, at, thickness
            at += across(spot) + _GAP
        along += thickness + (_DROP if down else _WAY)
    if down:
        return largest + 2 * _EDGE, along - _DROP + _EDGE
    return along - _WAY + _EDGE, _HEAD + largest + _EDGE


def _path(way: Sequence[_Spot]) -> str:
    first = way[0]
    x, y = first.x + first.width, first.middle(down=False)
    drawn = [f"M{x:.1f} {y:.1f}"]
    for spot in way[1:]:
        bow, middle = (spot.x - x) / 2, spot.middle(down=False)
        drawn.append(f"C{x + bow:.1f} {y:.1f} {spot.x - bow:.1f} {middle:.1f} {spot.x:.1f} {middle:.1f}")
        x, y = spot.x, middle
        if spot is not way[-1]:
            x += spot.width
            drawn.append(f"H{x:.1f}")
    return "".join(drawn)


def _path_down(way: Sequence[_Spot]) -> str:
    first = way[0]
    x, y = first.middle(down=True), first.y + first.height
    drawn = [f"M{x:.1f} {y:.1f}"]
    for spot in way[1:]:
        bow, middle = (spot.y - y) / 2, spot.middle(down=True)
        drawn.append(f"C{x:.1f} {y + bow:.1f} {middle:.1f} {spot.y - bow:.1f} {middle:.1f} {spot.y:.1f}")
        x, y = middle, spot.y
        if spot is not way[-1]:
            y += spot.height
            drawn.append(f"V{y:.1f}")
    return "".join(drawn)


def _drawn(graph: Graph, box: Box, label: Sequence[str], spot: _Spot, behind: int) -> Iterator[str]:
    node, state = graph.nodes[box.nodes[0]], state_of(graph, box)
    fill, stroke = COLOURS[state]
    title, about = label
    whole = "\n".join(filter(None, [title_of(graph, box), state, *remarks_of(graph, box)]))
    dashes = ' stroke-dasharray="4 3"' if state == "skipped" else ""
    corner = spot.height / 2 if node.role in _ROUND else 6
    yield f"<g><title>{_escaped(whole)}</title>"
    if len(box.nodes) > 1 or node.role is Role.MAP:
        # A second one behind it, and not where arrows come in: there are several.
        yield _rectangle(spot.x + 4, spot.y + behind, spot, corner, fill, stroke, dashes)
    yield _rectangle(spot.x, spot.y, spot, corner, fill, stroke, dashes)
    yield _text(spot.x + 12, spot.y + (20 if about else 28), 13, title, "bold")
    if about:
        yield _text(spot.x + 12, spot.y + 36, 11, about)
    yield "</g>"


def _rectangle(x: float, y: float, spot: _Spot, corner: float, fill: str, stroke: str, dashes: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{spot.width:.1f}" height="{spot.height:.0f}" rx="{corner:.0f}" '
        f'fill="{fill}" stroke="{stroke}"{dashes}/>'
    )


def _text(x: float, y: float, size: int, text: str, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{_SHOWN}" '
        f'xml:space="preserve">{_escaped(text)}</text>'
    )


def _escaped(text: str) -> str:
    # What XML cannot hold is shown as an escape, as on a terminal.
    return escape("\n".join(map(safe_text, text.split("\n"))))
