"""Pictures of graphs: well-formed whatever nodes are called, and nothing lies over anything else."""

import re
from itertools import cycle, pairwise
from xml.etree import ElementTree

from ramify.cli.out import LONGEST
from ramify.inspect.drawing import svg
from ramify.inspect.folding import boxes_of
from ramify.inspect.graph import Graph, GraphNode, NodeState, Role
from ramify.inspect.mermaid import lines_of
from tests.cli.conftest import HOSTILE, RAW
from tests.inspect.test_folding import chain, layered

SVG = "{http://www.w3.org/2000/svg}"
NAMES = [
    HOSTILE,
    "</text><script>alert(1)</script>",
    '"]; click n0 "javascript:alert(1)"',
    "`**x**` #35; &amp;",
    "日本語" * 20,
]


def named() -> Graph:
    """A node in each state, and of each role, with names that mean something to parsers."""
    nodes = [
        GraphNode(NAMES[i % len(NAMES)] + str(i), NAMES[0], role, level=i, needs=tuple(range(i)), state=state)
        for i, (state, role) in enumerate(zip(cycle(NodeState), [*Role, *Role], strict=False))
    ]
    return Graph(HOSTILE, nodes)


def drawn(graph: Graph) -> ElementTree.Element:
    return ElementTree.fromstring("\n".join(svg(graph, boxes_of(graph), graph.name)))


def test_whatever_nodes_are_called_a_picture_is_text_and_shapes() -> None:
    picture = drawn(named())
    known = {f"{SVG}{name}" for name in ("svg", "title", "rect", "text", "marker", "path", "g")}
    assert {element.tag for element in picture.iter()} == known
    assert not [
        name for element in picture.iter() for name in element.attrib if "href" in name or name.startswith("on")
    ]
    texts = "".join(picture.itertext())
    assert not set(RAW) & set(texts)
    assert "</text><script>alert(1)</script>1" in texts


def test_boxes_lie_apart_and_arrows_go_to_the_right() -> None:
    graph = layered(3, 5, 2, 4)
    picture = drawn(graph)
    boxes = [element for element in picture.iter(f"{SVG}rect") if "x" in element.attrib]
    assert len(boxes) == 14
    spots = sorted(
        (float(box.attrib["x"]), float(box.attrib["y"]), float(box.attrib["width"]), float(box.attrib["height"]))
        for box in boxes
    )
    for (x, y, width, height), (other_x, other_y, _, _) in pairwise(spots):
        assert other_y >= y + height if x == other_x else other_x > x + width
    ways = [element.attrib["d"] for element in picture.iter(f"{SVG}path") if "marker-end" in element.attrib]
    assert len(ways) == 3 * 5 + 5 * 2 + 2 * 4
    for way in ways:
        numbers = [float(number) for number in re.findall(r"[\d.]+", way)]
        assert numbers[-2] > numbers[0]
    assert float(picture.attrib["height"]) >= max(y + height for _, y, _, height in spots)
    assert float(picture.attrib["width"]) >= max(x + width for x, _, width, _ in spots)


def test_a_graph_wider_than_a_screen_is_drawn_from_the_top_down() -> None:
    nodes = [GraphNode(f"step number {i}", "walk", Role.TASK, i, (i - 1,) if i else ()) for i in range(20)]
    nodes.append(GraphNode("last", "walk", Role.TASK, 20, (3, 19)))
    picture = drawn(Graph("g", nodes))
    assert float(picture.attrib["width"]) < 600
    spots = [
        tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        for box in picture.iter(f"{SVG}rect")
        if "x" in box.attrib
    ]
    for (_, y, _, height), (_, below, _, _) in pairwise(spots):
        assert below > y + height
    ways = [element.attrib["d"] for element in picture.iter(f"{SVG}path") if "marker-end" in element.attrib]
    assert len(ways) == 21
    for way in ways:
        numbers = [float(number) for number in re.findall(r"[\d.]+", way)]
        assert numbers[-1] > numbers[1]
    # The arrow that skips levels passes beside their boxes.
    (passing,) = [way for way in ways if "V" in way]
    beside = [float(x) for x in re.findall(r"([\d.]+) [\d.]+V", passing)]
    for (x, _, width, _), at in zip(spots[4:20], beside, strict=True):
        assert at < x or at > x + width
    assert float(picture.attrib["height"]) >= max(y + height for _, y, _, height in spots)
    assert min(x for x, _, _, _ in spots) >= 0


def test_what_failed_is_left_of_a_label_that_is_cut() -> None:
    parts = {NodeState.DONE: 95, NodeState.SKIPPED: 2, NodeState.FAILED: 3}
    long = "load_all_orders_of_all_customers_from_the_warehouse"
    nodes = [
        GraphNode("m", long, Role.MAP, 0, (), state=NodeState.FAILED, parts=parts),
        GraphNode("n", long, Role.TASK, 0, (), state=NodeState.FAILED, reason="OSError: no disk"),
    ]
    texts = [element.text or "" for element in drawn(Graph("g", nodes)).iter(f"{SVG}text")]
    assert "failed · 3 failed, 95 done, 2 skipped ·…" in texts
    assert "failed · OSError: no disk · load_all_or…" in texts


def test_an_arrow_passes_the_columns_between_beside_their_boxes() -> None:
    nodes = [
        GraphNode("a", "walk", Role.TASK, 0, ()),
        GraphNode("b", "walk", Role.TASK, 1, (0,)),
        GraphNode("c", "walk", Role.TASK, 2, (0, 1)),
    ]
    picture = drawn(Graph("g", nodes))
    box = [element for element in picture.iter(f"{SVG}rect") if "x" in element.attrib][1]
    top, bottom = float(box.attrib["y"]), float(box.attrib["y"]) + float(box.attrib["height"])
    (passing,) = [e.attrib["d"] for e in picture.iter(f"{SVG}path") if "H" in e.attrib["d"]]
    height = float(re.findall(r"([\d.]+)H", passing)[0])
    assert height < top or height > bottom


def test_a_large_graph_is_a_small_picture_and_an_empty_one_is_none_the_worse() -> None:
    assert len("\n".join(svg(chain(5_000), boxes_of(chain(5_000)), "chain"))) < 5_000
    assert drawn(Graph("nothing", [])).tag == f"{SVG}svg"


def test_whatever_nodes_are_called_a_diagram_has_them_between_quotes() -> None:
    graph = named()
    head, *lines = lines_of(graph, boxes_of(graph))
    assert head == "flowchart LR"
    boxes = [line for line in lines if '"' in line]
    assert len(boxes) == len(graph.nodes)
    for box in boxes:
        assert re.fullmatch(r'  n\d+[\[({/>]{1,2}"[^"]*"[\])}/]{1,2}:::\w+', box)
        inside = box.split('"')[1].replace("<br/>", "")
        assert not set("<>&`[]{}|\\") & set(inside)
        assert not set(RAW) & set(inside)
        assert not re.search(r"#(?!\d+;)", inside)
    assert [line for line in lines if line.endswith("n2")] == ["  n0 --> n2", "  n1 --> n2"]
    assert max(map(len, lines)) < LONGEST
    assert sum(line.startswith("  classDef ") for line in lines) == len(NodeState)
