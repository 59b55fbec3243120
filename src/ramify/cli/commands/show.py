"""`ramify show`: the graph of a run of a DAG or a pipeline, or of a definition that never ran."""

from __future__ import annotations

import re
from pathlib import Path

import click

from ramify.cli.out import Out
from ramify.cli.visit import Visit, Wrong, opened
from ramify.errors import ConfigError
from ramify.inspect.branches import answer_lines, with_branches
from ramify.inspect.find import title, typed
from ramify.inspect.folding import Box, boxes_of, counted_states, remarks_of, state_of, title_of, took_of
from ramify.inspect.graph import Graph, GraphNode, Role
from ramify.inspect.progress import headline
from ramify.inspect.run_graph import graph_of
from ramify.inspect.status import status_of
from ramify.inspect.text import Piece, safe_text, shortened_inside
from ramify.inspect.words import plural, stamp
from ramify.model.policy import PARKED

#: What is no name of a run that anybody gives, or must be written as NAME#1 or by its id.
_ADDRESS = re.compile(r"(.*\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):[^\W\d]\w*")
#: Columns of a line that an id may take.
_WIDEST = 28
#: How many branches of a map are shown, and how many open gates are told how to answer.
_BRANCHES, _GATES = 10, 3

_STYLES = {
    "done": "good",
    "failed": "bad",
    "quarantined": "bad",
    "running": "name",
    "cancelled": "look",
    "skipped": "dim",
    "waiting": "dim",
}


@click.command()
@click.argument("wanted", metavar="[RUN|MODULE:DAG|MODULE:PIPELINE]", required=False)
@click.option("--all", "whole", is_flag=True, help="Show each node by itself in a large graph too.")
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw the graph into an SVG file."
)
@click.option("--mermaid", is_flag=True, help="Print the graph as a Mermaid diagram.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line for each node.")
@click.option("-s", "--store", "url", metavar="URL|FILE", help="The store to use; see `ramify --help`.")
@click.pass_context
def show(
    context: click.Context, /, wanted: str | None, whole: bool, svg: Path | None, mermaid: bool, as_json: bool,
    url: str | None,
) -> None:  # fmt: skip
    """Show the graph of a DAG or a pipeline: the state and duration of each node, and the nodes it waits for.

    RUN defaults to the only open run, or to the newest one if none is open. MODULE:DAG, such as etl.py:etl, shows a
    definition that never ran. Write a run whose name looks like that as NAME#1, or give its id.

    In a graph of more than 100 nodes, nodes with the same task and the same state share one line or box; --all shows
    each by itself. Branches of a pipeline that failed or have not ended are listed below the node that started them,
    10 at most without --all.

    --json prints every node, with these fields: node (its id), kind, role (task, map, case, gate, sleep, way, meet,
    branch or end), level, needs (the nodes it depends on), when (how they must have ended) and asks_for (of a gate).
    For a run also: run, task, state (waiting, ready, running, done, failed, skipped, cancelled, quarantined), attempts,
    seconds, waits_for (the nodes that have not ended), parts (of a map: items by state), reason, due (not tried before
    then; of a gate, its time-out), since (when a gate opened) and gates (that wait for an answer here).
    """
    if sum((svg is not None, mermaid, as_json)) > 1:
        raise click.UsageError("expected one of --svg, --mermaid and --json")
    out = Out(as_json=as_json)
    if wanted is not None and _ADDRESS.fullmatch(wanted):
        from ramify.cli.definition import graph_at

        _show(out, graph_at(wanted), [], whole, svg, mermaid)
        return
    with opened(url or context.obj, reading=True) as store:
        run = Visit(store, out).run(wanted)
        graph = graph_of(store, run)
        if graph is None:
            raise Wrong(
                f"{title(run)} is a {run.shape or 'plain'} run and has no graph. "
                f"`ramify status {typed(run)}` shows its progress"
            )
        graph = with_branches(store, graph, None if whole else _BRANCHES)
        _show(out, graph, headline(status_of(store, run.id)), whole, svg, mermaid)


def _show(out: Out, graph: Graph, head: list[Piece], whole: bool, svg: Path | None, mermaid: bool) -> None:
    if out.as_json:
        for node in graph.nodes:
            out.json(_json(graph, node))
        return
    boxes = boxes_of(graph, whole=whole)
    if mermaid:
        from ramify.inspect.mermaid import lines_of

        for line in lines_of(graph, boxes):
            out.say(line)
    elif svg is not None:
        _draw(out, graph, boxes, head, svg)
    else:
        _levels(out, graph, boxes, head)


def _draw(out: Out, graph: Graph, boxes: list[Box], head: list[Piece], file: Path) -> None:
    from ramify.inspect.drawing import svg

    about = " · ".join(filter(None, ["".join(map(_plain, head)) or graph.name, _sum(graph)]))
    try:
        with open(file, "w", encoding="utf-8") as picture:
            picture.writelines(f"{line}\n" for line in svg(graph, boxes, about))
    except OSError as error:
        raise ConfigError(f"{file} cannot be written ({error.strerror})") from error
    out.say(f"{file}: {_sum(graph)}")


def _levels(out: Out, graph: Graph, boxes: list[Box], head: list[Piece]) -> None:
    out.say(*(head or [("name", graph.name)]))
    out.say("  ", _sum(graph))
    if not boxes:
        return
    out.say("")
    level = -1
    rows: list[list[Piece]] = []
    branches: dict[int, list[Box]] = {}
    for box in boxes:
        if graph.nodes[box.nodes[0]].role is Role.BRANCH:
            branches.setdefault(box.needs[0], []).append(box)
    for at, box in enumerate(boxes):
        if graph.nodes[box.nodes[0]].role is Role.BRANCH:
            continue
        rows.append(_row(graph, box, is_first=box.first != level))
        # What a map began is told below it, and not where what comes after it is.
        rows += (_row(graph, branch, is_first=False, indent="  ") for branch in branches.get(at, ()))
        level = box.first
    heads = ["level", "node", "state", "took", "about"] if graph.run is not None else ["level", "node", "about"]
    out.table(heads, rows, right=frozenset({0, 3}) if graph.run is not None else frozenset({0}))
    if graph.run is not None:
        for line in answer_lines(graph, _GATES):
            out.say(("dim", line))


def _row(graph: Graph, box: Box, *, is_first: bool, indent: str = "") -> list[Piece]:
    level = str(box.first + 1) if box.first == box.last else f"{box.first + 1}-{box.last + 1}"
    state = state_of(graph, box)
    style = _STYLES.get(state)
    cells: list[Piece] = [
        ("dim", level if is_first else ""),
        ("name", indent + shortened_inside(safe_text(title_of(graph, box)), _WIDEST)),
    ]
    if graph.run is not None:
        cells += [(style, state) if style else state, took_of(graph, box)]
    return [*cells, " · ".join(remarks_of(graph, box, edges=True))]


def _sum(graph: Graph) -> str:
    nodes = [node for node in graph.nodes if node.role is not Role.BRANCH]
    levels = {node.level for node in nodes}
    many = f"{plural(len(nodes), 'node')} in {plural(len(levels), 'level')}"
    if graph.run is not None and graph.run.definition not in (None, graph.run.name):
        many = f"{graph.run.definition} · {many}"
    states = ", ".join(f"{count:,} {state}" for state, count in counted_states(graph))
    return f"{many}: {states}" if states else many


def _json(graph: Graph, node: GraphNode) -> dict[str, object]:
    def named(places: tuple[int, ...]) -> list[str]:
        return [graph.nodes[place].id for place in places]

    return {
        "run": None if graph.run is None else graph.run.id,
        "node": node.id,
        "kind": node.kind,
        "role": node.role,
        "level": node.level + 1,
        "needs": named(node.needs),
        "when": node.when,
        "task": node.task,
        "state": node.state,
        "attempts": node.attempts,
        "seconds": node.seconds,
        "waits_for": named(node.waits_for),
        "parts": node.parts,
        "reason": node.reason,
        "due": stamp(node.due) if node.due is None or node.due < PARKED else "parked",
        "since": stamp(node.since),
        "asks_for": node.asks_for,
        "gates": node.gates,
    }


def _plain(piece: Piece) -> str:
    return piece if isinstance(piece, str) else piece[1]
