"""Graphs taken together to be looked at: nothing is left out, and thousands of nodes are a few lines."""

import msgspec
import pytest

from ramify.inspect.folding import EDGES, NODES, Box, boxes_of, remarks_of, state_of, title_of, took_of
from ramify.inspect.graph import Graph, GraphNode, NodeState, Role
from ramify.inspect.text import columns
from ramify.inspect.words import moment
from ramify.model.policy import PARKED


def layered(*widths: int, state: NodeState | None = NodeState.DONE) -> Graph:
    """Levels of so many nodes each, every node behind all of the level before."""
    nodes: list[GraphNode] = []
    before: tuple[int, ...] = ()
    for level, width in enumerate(widths):
        first = len(nodes)
        nodes += [
            GraphNode(f"{level}.{i}", "walk" if level % 2 else "copy", Role.TASK, level, before, state=state)
            for i in range(width)
        ]
        before = tuple(range(first, len(nodes)))
    return Graph("layers", nodes)


def chain(length: int, *, failed: frozenset[int] = frozenset()) -> Graph:
    """Nodes one behind the other."""
    return Graph(
        "chain",
        [
            GraphNode(
                f"n{i}", "walk", Role.TASK, i, (i - 1,) if i else (),
                state=NodeState.FAILED if i in failed else NodeState.DONE, seconds=i / 1_000,
                reason="OSError: no disk" if i in failed else None,
            )
            for i in range(length)
        ],
    )  # fmt: skip


def is_whole(graph: Graph, boxes: list[Box]) -> bool:
    return sorted(place for box in boxes for place in box.nodes) == list(range(len(graph.nodes)))


def test_a_small_graph_has_a_box_for_each_node() -> None:
    graph = layered(1, NODES - 2, 1)
    boxes = boxes_of(graph)
    assert [box.nodes for box in boxes] == [(place,) for place in range(NODES)]
    assert [box.needs for box in boxes] == [node.needs for node in graph.nodes]
    assert title_of(graph, boxes[1]) == "1.0"


def motley(count: int) -> Graph:
    """Nodes one behind the other that all run something else."""
    return Graph("motley", [msgspec.structs.replace(node, kind=node.id) for node in chain(count).nodes])


@pytest.mark.parametrize(
    "graph", [layered(1, NODES, 1), layered(30, 30), layered(*[3] * 300), chain(1_000), motley(1_000)]
)
def test_a_large_graph_is_a_few_boxes_that_hold_every_node_once(graph: Graph) -> None:
    assert len(graph.nodes) > NODES or sum(len(node.needs) for node in graph.nodes) > EDGES
    boxes = boxes_of(graph)
    assert is_whole(graph, boxes)
    assert len(boxes) <= NODES
    assert len(boxes_of(graph, whole=True)) == len(graph.nodes)


def test_nodes_of_a_level_that_run_and_stand_alike_are_one_box() -> None:
    graph = layered(2, 400, 1)
    boxes = boxes_of(graph)
    assert [(title_of(graph, box), box.first, box.needs) for box in boxes] == [
        ("0.0", 0, ()), ("0.1", 0, ()), ("400 x walk", 1, (0, 1)), ("2.0", 2, (2,)),
    ]  # fmt: skip
    assert remarks_of(graph, boxes[2]) == ["1.0, 1.1, 1.2 and 397 more"]


def test_levels_that_look_the_same_are_one_box_and_what_failed_stands_out() -> None:
    graph = chain(1_000, failed=frozenset({700}))
    boxes = boxes_of(graph)
    assert [(title_of(graph, box), box.first, box.last, state_of(graph, box)) for box in boxes] == [
        ("700 x walk", 0, 699, "done"), ("n700", 700, 700, "failed"), ("299 x walk", 701, 999, "done"),
    ]  # fmt: skip
    assert [box.needs for box in boxes] == [(), (0,), (1,)]
    assert took_of(graph, boxes[0]) == "<1 ms to 0.7 s"
    assert remarks_of(graph, boxes[1], edges=True) == ["OSError: no disk", "walk", "after n699"]


def test_nodes_that_run_different_things_are_counted_together_where_nothing_else_helps() -> None:
    graph = motley(1_200)
    boxes = boxes_of(graph)
    assert [title_of(graph, box) for box in boxes] == ["100 nodes"] * 12
    assert [box.needs for box in boxes] == [(), *((at,) for at in range(11))]


def test_a_node_says_what_matters_about_it() -> None:
    def said(node: GraphNode) -> list[str]:
        graph = Graph("g", [GraphNode("x" * 90, "walk", Role.TASK, 0, ()), node])
        return remarks_of(graph, Box(1, 1, (1,)), edges=True)

    plain = GraphNode("load#2", "load", Role.TASK, 1, (0,))
    parts = {NodeState.DONE: 1_200, NodeState.FAILED: 1}
    name = f"{'x' * 12}…{'x' * 11}"
    assert said(plain) == [f"after {name}"]
    assert said(GraphNode("b", "load", Role.MAP, 1, (), parts=parts)) == ["1 failed, 1,200 done", "map of load"]
    assert said(GraphNode("b", "load", Role.MAP, 1, (), parts={})) == ["no items", "map of load"]
    assert said(GraphNode("b", "load", Role.MAP, 1, ())) == ["map of load"]
    assert said(GraphNode("p=b", "case", Role.CASE, 1, ())) == ["case"]
    assert said(GraphNode("(end)", "mail", Role.END, 1, (0,), state=NodeState.DONE)) == ["mail: not called for"]
    assert said(
        GraphNode("b", "load", Role.TASK, 1, (0,), "always", 7, NodeState.WAITING, attempts=2, waits_for=(0,))
    ) == ["load", "when always", "2 attempts", f"waits for {name}"]
    later = GraphNode("load", "load", Role.TASK, 1, (), state=NodeState.WAITING, due=1_700_000_000_000_000)
    assert said(later) == [f"due {moment(1_700_000_000_000_000)}"]
    assert said(msgspec.structs.replace(later, due=PARKED)) == ["parked"]
    (reason,) = said(GraphNode("load", "load", Role.TASK, 1, (), reason="日本\n" * 90))
    assert columns(reason) <= 60
    assert "\n" not in reason


def test_branches_that_are_taken_together_say_of_what() -> None:
    maps = [GraphNode(id, "pack", Role.MAP, 0, (), state=NodeState.RUNNING) for id in ("check", "count")]
    branches = [
        GraphNode(f"check[{i}]", "", Role.BRANCH, 1, (0,), state=NodeState.WAITING, reason="pack: no box")
        for i in range(NODES)
    ]
    graph = Graph("branches", [*maps, *branches])
    assert title_of(graph, boxes_of(graph)[-1]) == "100 branches of check"
    other = GraphNode("count[0]", "", Role.BRANCH, 1, (1,), state=NodeState.WAITING)
    graph = Graph("branches", [*maps, *branches, other])
    assert title_of(graph, boxes_of(graph)[-1]) == "101 branches of check, count"


def test_that_the_end_runs_always_needs_no_words() -> None:
    graph = Graph("end", [GraphNode("(end)", "alert", Role.END, 0, (), "always")])
    assert remarks_of(graph, boxes_of(graph)[0]) == ["alert"]
