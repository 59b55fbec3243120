"""`ramify show` and `ramify retry RUN NODE`: graphs of runs and of definitions, in every form."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ramify import Engine, Tasks
from ramify.inspect.text import columns
from ramify.testing import using
from tests.cli.conftest import HOSTILE, RAW, Desk
from tests.cli.test_main import OURS, on_a_terminal

jobs = Tasks()
broken: set[int] = set()


@jobs.task
def numbers(count: int) -> list[int]:
    return list(range(count))


@jobs.task(retries=0)
def half(n: int) -> int:
    if n in broken:
        raise ValueError(f"{n} is broken")
    return n // 2


@jobs.task
def report(n: int = 0) -> str:
    return str(n)


PROGRAM = """
from ramify import Engine

engine = Engine("walk.db")


@engine.task
def load(n: int) -> int:
    return n


etl = engine.dag("etl")
first = etl.add(load.of(1))
etl.add(load.of(first.out), id="second")
"""


@pytest.fixture
def engine(desk: Desk) -> Iterator[Engine]:
    """An engine on the store of the desk."""
    broken.clear()
    engine = Engine(str(desk.folder / "walk.db"), include=[jobs])
    yield engine
    engine.close()


@pytest.fixture
def program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a definition in it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "plan.py").write_text(PROGRAM)
    return folder / "plan.py"


def etl(engine: Engine, name: str = "etl") -> int:
    """A run of numbers, a half of each, and a report of them."""
    dag = jobs.dag("etl")
    halves = dag.map(half.of(dag.add(numbers.of(4)).each), id="halves")
    dag.add(report.of(1), id="report", after=[halves])
    return engine.run(dag.of(), name=name, threads=0).id


def test_a_run_is_shown_by_levels(desk: Desk, engine: Engine) -> None:
    broken.add(3)
    etl(engine)
    head, total, gap, *table = desk.out("show", "etl").splitlines()
    assert head.startswith("etl · failed · ")
    assert (total, gap) == ("  3 nodes in 3 levels: 1 done, 1 failed, 1 skipped", "")
    assert [line.split()[:3] for line in table] == [
        ["level", "node", "state"],
        ["1", "numbers", "done"],
        ["2", "halves", "failed"],
        ["3", "report", "skipped"],
    ]
    assert "1 failed, 3 done · map of half · after numbers" in table[2]


def test_a_run_with_a_name_of_its_own_is_shown_with_that_of_its_definition(desk: Desk, engine: Engine) -> None:
    run = etl(engine, name="nightly")
    assert desk.out("show", "nightly").splitlines()[1] == "  etl · 3 nodes in 3 levels: 3 done"
    assert [found["definition"] for found in desk.json("status", "nightly")] == ["etl"]
    assert [(found["run"], found["definition"]) for found in desk.json("runs")] == [(run, "etl")]


def test_without_an_argument_the_present_run_is_shown(desk: Desk, engine: Engine) -> None:
    etl(engine)
    assert desk.out("show") == desk.out("show", "etl")


def test_every_node_is_an_object_for_programs(desk: Desk, engine: Engine) -> None:
    run = etl(engine)
    numbers_, halves, last = desk.json("show", "etl")
    assert halves.pop("seconds") > 0
    assert halves == {
        "run": run,
        "node": "halves",
        "kind": "half",
        "role": "map",
        "level": 2,
        "needs": ["numbers"],
        "when": "done",
        "task": run + 2,
        "state": "done",
        "attempts": 1,
        "waits_for": [],
        "parts": {"done": 4},
        "reason": None,
        "due": None,
        "since": None,
        "asks_for": None,
        "gates": [],
    }
    assert (numbers_["needs"], last["needs"]) == ([], ["halves"])


def test_a_thousand_nodes_are_a_few_lines_and_all_of_them_if_asked_for(desk: Desk, engine: Engine) -> None:
    dag = jobs.dag("many")
    first = dag.add(report.of(), id="first")
    for n in range(999):
        dag.add(report.of(n), after=[first])
    engine.start(dag.of(), name="many")
    told = desk.out("show", "many").splitlines()
    assert told[1] == "  1,000 nodes in 2 levels: 999 waiting, 1 ready"
    assert len(told) == 6
    assert "999 x report" in told[5]
    assert len(desk.out("show", "many", "--all").splitlines()) == 4 + 1_000
    assert len(desk.json("show", "many")) == 1_000
    assert len(desk.out("show", "many", "--mermaid").splitlines()) < 10


def test_long_and_hostile_ids_leave_lines_that_can_be_read(desk: Desk, engine: Engine) -> None:
    dag = jobs.dag("names")
    node = dag.add(report.of(), id=HOSTILE)
    for id in ("日本語" * 30, "x" * 5_000):
        node = dag.add(report.of(), id=id, after=[node])
    engine.start(dag.of(), name="names")
    told = desk.out("show", "names")
    assert not set(RAW) & set(told)
    assert max(map(columns, told.splitlines())) <= 120
    for wanted in (["--mermaid"], ["--svg", "names.svg"]):
        assert not set(RAW) & set(desk.out("show", "names", *wanted))
    assert [each["node"] for each in desk.json("show", "names")] == [HOSTILE, "日本語" * 30, "x" * 5_000]


def test_on_a_terminal_lines_are_cut_at_its_edge_and_states_have_colours(desk: Desk, engine: Engine) -> None:
    dag = jobs.dag("wide")
    node = dag.add(report.of(), id="x" * 50)
    dag.add(report.of(), id="y" * 50, after=[node])
    engine.start(dag.of(), name="wide")
    told = on_a_terminal("show", "wide", COLUMNS="80")
    assert "\x1b[2mwaiting\x1b[0m" in told
    assert max(columns(line) for line in OURS.sub("", told).splitlines()) <= 80
    assert "\x1b" not in desk.out("show", "wide")


def test_what_the_dead_held_is_ready_again(desk: Desk, engine: Engine) -> None:
    dag = jobs.dag("held")
    dag.add(report.of())
    engine.start(dag.of(), name="held")
    worker = desk.house.worker()
    worker.take(kinds=["report"])
    assert desk.json("show", "held")[0]["state"] == "running"
    worker.store.close()
    assert desk.json("show", "held")[0]["state"] == "ready"


def test_a_picture_and_a_diagram_are_drawn(desk: Desk, engine: Engine) -> None:
    etl(engine)
    assert desk.out("show", "etl", "--svg", "etl.svg") == "etl.svg: 3 nodes in 3 levels: 3 done\n"
    texts = "".join(ElementTree.parse(desk.folder / "etl.svg").getroot().itertext())
    assert "numbers" in texts
    assert "4 done · map of half" in texts
    assert desk.out("show", "etl", "--mermaid").startswith("flowchart LR\n")


def test_a_definition_is_shown_without_a_store(program: Path, desk: Desk) -> None:
    program.write_text(PROGRAM.replace("walk.db", "none.db"))
    told = desk.out("show", "plan.py:etl").splitlines()
    assert told[:2] == ["etl", "  2 nodes in 2 levels"]
    assert [line.split() for line in told[3:]] == [
        ["level", "node", "about"],
        ["1", "load"],
        ["2", "second", "load", "·", "after", "load"],
    ]
    assert [(each["node"], each["run"], each["state"]) for each in desk.json("show", "plan.py:etl")] == [
        ("load", None, None),
        ("second", None, None),
    ]
    assert not (desk.folder / "none.db").exists()


def test_a_run_with_the_name_of_a_place_is_meant_by_its_generation(desk: Desk, engine: Engine) -> None:
    etl(engine, "nightly:etl")
    assert "3 nodes" in desk.out("show", "nightly:etl#1")
    assert "no module 'nightly' here" in desk.err("show", "nightly:etl", code=3)


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["other"], 2, "no run 'other'. There are 'etl', 'walk'."),
        (["walk"], 2, "walk is a frontier run and has no graph. `ramify status walk`"),
        (["plan.py:elt"], 3, "no dag or pipeline 'elt' in plan.py. It has etl."),
        (["plan.py:engine"], 3, "no dag or pipeline 'engine' in plan.py, where that is of type Engine. It has etl."),
        (["plna.py:etl"], 3, "no file 'plna.py'"),
        (["etl", "--svg", "nowhere/a.svg"], 3, "nowhere/a.svg cannot be written (No such file or directory)"),
        (["etl", "--svg", "a.svg", "--json"], 2, "expected one of --svg, --mermaid and --json"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(desk: Desk, engine: Engine, args: list[str], code: int, says: str) -> None:
    etl(engine)
    engine.run(report.of(), name="walk", threads=0)
    (told,) = [line for line in desk.err("show", *args, code=code).splitlines() if not line.startswith("store: ")]
    assert says in told


def test_retry_takes_a_node_by_its_id(desk: Desk, engine: Engine) -> None:
    dag = jobs.dag("chain")
    broken.add(1)
    first = dag.add(half.of(1), id="first")
    dag.add(report.of(first.out), id="17")
    run = engine.run(dag.of(), name="chain", threads=0)
    told = desk.out("retry", "chain", "first")
    assert told.startswith("3 tasks of chain begin again\n")
    broken.clear()
    assert engine.run(dag.of(), name="chain", threads=0).id == run.id
    # Both the node and the task that closes the run.
    assert desk.json("retry", "chain", "17") == [{"run": run.id, "reopened": 2, "superseded": [], "replaced": 0}]


def test_retry_of_a_map_takes_those_of_its_items_that_were_not_done(desk: Desk, engine: Engine) -> None:
    broken.update({1, 2})
    run = etl(engine)
    reopened = desk.json("retry", "etl", "halves")[0]["reopened"]
    reads = desk.house.store.reads
    again = [row.kind for row in reads.tasks(run).rows if desk.house.ended(row.id) is None]
    assert sorted(again) == ["half", "half", "ramify.close", "ramify.gather", "report"]
    assert reopened == len(again)
    broken.clear()
    assert engine.find("etl") is not None
    assert desk.json("retry", "etl", "halves")[0]["reopened"] == 0


def test_other_commands_take_a_node_by_its_id_as_well(desk: Desk, engine: Engine) -> None:
    broken.update({1, 2})
    etl(engine)
    found = next(engine.runs())
    item, node = str(found["halves[1]"].task), str(found["report"].task)
    assert desk.out("events", "etl", "halves[1]") == desk.out("events", item)
    assert "1 is broken" in desk.out("events", "etl", "halves[1]")
    assert f"task {node}" in desk.out("why", "etl", "report")
    # Of a map, all its items tell why it stands where it stands.
    assert desk.json("why", "etl", "halves")[0]["task"] == found["halves"].task
    assert desk.json("events", "etl", "halves")[0]["task"] == found["halves"].task
    assert desk.out("logs", "etl", "--task", "halves[1]") == "nothing was logged\n"
    assert desk.out("logs", "etl", "--task", "halves").endswith(
        "halves is a map, and its items log: --task 'halves[0]'\n"
    )
    assert desk.out("resolve", "etl", "halves[1]", "--result", "0") == f"task {item} counts as done\n"
    assert desk.out("resolve", "etl", "halves[2]", "--skip").endswith("counts as skipped\n")
    assert desk.out("cancel", "etl", "report") == f"task {node}: cancelled\n"
    for command in ("why", "events", "cancel"):
        assert "no task with the key 'halvse'. Did you mean 'halves'?" in desk.err(command, "etl", "halvse", code=2)
    assert "halves has 4 items. Give halves[0] to halves[3]" in desk.err(
        "resolve", "etl", "halves[9]", "--skip", code=2
    )


def test_retry_says_which_node_was_perhaps_meant(desk: Desk, engine: Engine) -> None:
    etl(engine)
    assert "no task with the key 'halvse'. Did you mean 'halves'?" in desk.err("retry", "etl", "halvse", code=2)
    assert "no task 123456" in desk.err("retry", "etl", "123456", code=2)
    engine.run(report.of(), name="walk", threads=0)
    assert "no task with the key 'halves'" in desk.err("retry", "walk", "halves", code=2)


def test_json_of_a_definition_is_in_ascii(program: Path, desk: Desk) -> None:
    program.write_text(PROGRAM.replace("second", "zweité"))
    lines = desk.out("show", "plan.py:etl", "--json").splitlines()
    assert all(line.isascii() for line in lines)
    assert json.loads(lines[1])["node"] == "zweité"


PIPELINE = """
from datetime import timedelta

from ramify import Engine, Stream, steps

engine = Engine("walk.db")


@engine.task
def lines(order: str) -> list[int]:
    return [0, 1, 2]


@engine.task(retries=0)
def pack(line: int) -> int:
    if line == 1:
        raise ValueError("torn")
    return line


@engine.task
def load(line: int, dock: int) -> int:
    return line


@engine.task
def ship(loaded: Stream[int]) -> int:
    return sum(loaded)


order = engine.pipeline(
    "order", steps(lines).expand(pack).gate("dock", int, timeout=timedelta(days=1)).chain(load).collapse(ship)
)
"""


def test_a_pipeline_is_shown_with_its_branches_in_every_form(desk: Desk, folder: Path) -> None:
    (folder / "order.py").write_text(PIPELINE)
    assert "branches of pack, dock, load · after lines" in desk.out("show", "order.py:order")
    spec = importlib.util.spec_from_file_location("shown_order", folder / "order.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with using(module.engine, folder / "walk.db") as bench:
        module.engine.start(module.order.of("o-17"), name="o-17")
        bench.drain(raising=False)
        shown = desk.out("show", "o-17")
        lines = [line.strip() for line in shown.splitlines()]
        assert lines[1] == "order · 3 nodes in 3 levels: 1 waiting, 1 running, 1 done"
        at = next(number for number, line in enumerate(lines) if line.startswith("2  pack "))
        assert "1 failed, 2 waiting · branches of pack, dock, load" in lines[at]
        assert [line.split()[:2] for line in lines[at + 1 : at + 4]] == [
            ["pack[1]", "failed"],
            ["pack[0]", "waiting"],
            ["pack[2]", "waiting"],
        ]
        assert lines[at + 1].endswith("pack: ValueError: torn")
        assert lines[-2:] == [f"answer with: ramify answer o-17 'pack[{line}].dock' JSON" for line in (0, 2)]
        rows = desk.json("show", "o-17")
        assert [(row["node"], row["role"], row["gates"]) for row in rows[3:]] == [
            ("pack[1]", "branch", []),
            ("pack[0]", "branch", ["pack[0].dock"]),
            ("pack[2]", "branch", ["pack[2].dock"]),
        ]
        diagram = desk.out("show", "o-17", "--mermaid")
        assert 'n3>"pack#91;1#93;<br/>failed' in diagram
        desk.out("show", "o-17", "--svg", "order.svg")
        texts = [
            each.text or "" for each in ElementTree.parse(folder / "order.svg").iter() if each.tag.endswith("text")
        ]
        assert {"lines", "pack", "ship", "pack[0]", "pack[1]", "pack[2]"} <= set(texts)
        assert "order: lines('o-17'), 3 nodes" in desk.out("status", "o-17")
        assert "ramify.branch(…, 0)" in desk.out("events", "o-17")


def test_what_is_no_dag_and_no_pipeline_is_told(desk: Desk, folder: Path) -> None:
    (folder / "order2.py").write_text(PIPELINE)
    assert "no dag or pipeline 'ordr' in order2.py. It has order." in desk.err("show", "order2.py:ordr", code=3)
