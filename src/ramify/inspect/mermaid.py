"""A graph as the text of a Mermaid diagram, for pages that draw such."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ramify.inspect.folding import Box, remarks_of, state_of, title_of, took_of
from ramify.inspect.graph import Graph, Role
from ramify.inspect.palette import COLOURS
from ramify.inspect.text import safe_text, shortened, shortened_inside

#: What Mermaid, Markdown or HTML could take for something else.
_SPECIAL = re.compile("[!-'*;-@\\[-^`{-~]")
_WIDEST = 48
_BRACKETS = {
    Role.TASK: ("[", "]"),
    Role.MAP: ("[[", "]]"),
    Role.CASE: ("{{", "}}"),
    Role.TRIGGER: (">", "]"),
    Role.WAY: ("{{", "}}"),
    Role.GATE: ("[/", "/]"),
    Role.SLEEP: ("([", "])"),
    Role.MEET: ("((", "))"),
    Role.BRANCH: (">", "]"),
    Role.END: ("([", "])"),
}


def lines_of(graph: Graph, boxes: Sequence[Box]) -> Iterator[str]:
    """The lines of the diagram."""
    yield "flowchart LR"
    for number, box in enumerate(boxes):
        state = state_of(graph, box)
        about = [state, took_of(graph, box), *remarks_of(graph, box)]
        title = shortened_inside(safe_text(title_of(graph, box)), _WIDEST)
        lines = [title, shortened(safe_text(" · ".join(filter(None, about))), _WIDEST)]
        opening, closing = _BRACKETS[graph.nodes[box.nodes[0]].role]
        label = "<br/>".join(map(_escaped, filter(None, lines)))
        yield f'  n{number}{opening}"{label}"{closing}' + (f":::{state}" if state else "")
    for number, box in enumerate(boxes):
        yield from (f"  n{other} --> n{number}" for other in box.needs)
    for state in sorted({state_of(graph, box) for box in boxes} - {""}):
        fill, stroke = COLOURS[state]
        yield f"  classDef {state} fill:{fill},stroke:{stroke},color:#1f2328"


def _escaped(text: str) -> str:
    # As numbers of characters, which mean nothing to anybody on the way.
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text)
