"""The figures of DAGs: what they are made of, and that they are told without rivals too."""

from pathlib import Path

import pytest

from bench import dag_diamond, rivals
from bench.figure import Setting
from bench.frontier_turn import FanIn, Nodes, take
from bench.graph import EDGES, SHAPES, values


def test_every_graph_has_its_nodes_behind_those_they_wait_for() -> None:
    for name, shape in SHAPES.items():
        graph = shape(100)
        assert len(graph) == 100, name
        assert all(other < node for node, its in enumerate(graph) for other in its), name
    assert {len(its) for its in SHAPES["layers"](100)} == {0, EDGES}
    assert values(SHAPES["diamonds"](4)) == [1, 2, 2, 5]


def test_a_dag_is_defined_and_started_or_run_to_its_end(tmp_path: Path) -> None:
    ran = take(Nodes("diamonds", 8), tmp_path)
    assert (ran.tasks, ran.defining > 0, ran.seconds > 0) == (8, True, True)
    started = take(Nodes("layers", 40, starts=True), tmp_path)
    assert (started.tasks, started.defining > 0, started.seconds > 0) == (40, True, True)
    assert list(tmp_path.iterdir()) == []


def test_maps_are_added_up(tmp_path: Path) -> None:
    assert take(FanIn(20), tmp_path).tasks == 20


def test_diamonds_without_rivals_are_measured_and_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(rivals.LEFT_OUT, "1")
    (figure,) = dag_diamond.measure(Setting(0.001, 1, tmp_path), frozenset((dag_diamond.NAME,)))
    assert not figure.ratios
    assert figure.missing[0].startswith("dask and prefect: left out")
    assert figure.bar is not None
    assert not figure.bar.met
