"""`ramify start`, and `ramify run` of DAGs and pipelines: params from text, and what is left to whom."""

import json
from pathlib import Path

import pytest

from ramify.model.run import RunState
from ramify.store.open import open_store
from tests.cli.test_run import ramify

PROGRAM = """
from dataclasses import dataclass
from datetime import date
from ramify import Engine, steps
from others import elsewhere

engine = Engine("etl.db")


@dataclass
class Table:
    name: str
    rows: int = 0


@engine.task
def load(day: date, table: Table, tags: list[str]) -> str:
    return f"{day:%d.%m.%Y} {table.name} {table.rows} {tags}"


@engine.task
def pack(text: str) -> str:
    return f"[{text}]"


etl = engine.dag("etl")
etl.add(load.of(etl.param("day", date), etl.param("table", Table), etl.param("tags", list[str], ["a"])), id="load")
order = engine.pipeline("order", steps(load).chain(pack))
"""
OTHERS = """
from ramify import Tasks

tasks = Tasks()


@tasks.task
def wait() -> None: ...


elsewhere = tasks.dag("elsewhere")
elsewhere.add(wait.of())
"""


@pytest.fixture
def program(folder: Path) -> Path:
    (folder / "etl.py").write_text(PROGRAM)
    (folder / "others.py").write_text(OTHERS)
    return folder


PARAMS = ["day=2026-01-05", 'table={"name": "orders"}', 'tags=["x", "y=z"]']
MADE = "05.01.2026 orders 0 ['x', 'y=z']"


def results(folder: Path) -> list[object]:
    store = open_store(str(folder / "etl.db"))
    try:
        run = store.reads.find_run("monday")
        assert run is not None
        assert run.state is RunState.DONE
        rows = [row for kind in ("load", "pack") for row in store.reads.results(run.id, kind=kind).rows]
        return [json.loads(row.value or b"null") for row in rows]
    finally:
        store.close()


def test_a_dag_is_started_and_left_to_a_worker(program: Path) -> None:
    told = ramify("start", "etl.py:etl", *PARAMS, "--name", "monday").stdout.splitlines()
    assert told[0].startswith("monday · run 1 · new · open")
    assert told[1] == "work on it:  ramify worker etl.py:engine"
    assert told[2] == f"look at it:  ramify status monday -s {program / 'etl.db'}"
    again = json.loads(ramify("start", "etl:etl", *PARAMS, "--name", "monday", "--json").stdout)
    assert again == {"run": 1, "name": "monday", "generation": 1, "begun": "continued", "state": "open"}
    # Word for word what was said.
    ramify(*told[1].split()[4:], "--burst")
    assert "monday · done" in ramify(*told[2].split()[4:]).stdout
    assert results(program) == [MADE]
    assert ramify("start", "etl.py:etl", *PARAMS, "--name", "monday").stdout == "monday · run 1 · finished · done\n"


def test_a_pipeline_takes_the_params_of_its_first_step(program: Path) -> None:
    found = ramify("run", "etl.py:order", *PARAMS, "--name", "monday")
    assert "monday · done" in found.stdout
    assert results(program) == [MADE, f"[{MADE}]"]


def test_params_may_be_given_as_json_and_a_task_is_started_like_a_dag(program: Path) -> None:
    ramify("start", "etl.py:etl", "--args", '{"day": "2026-01-05", "table": {"name": "orders"}}', "--name", "json")
    found = ramify("start", "etl.py:engine", "pack", "x", "--name", "task", "-s", "other db")
    assert "ramify worker etl.py:engine -s '" in found.stdout
    assert (program / "other db").exists()
    asked = ("pack", "x", "--name", "task", "-s", "other db", "--order", "any")
    assert "exists with order='rounds'" in ramify("start", "etl.py:engine", *asked, code=3).stderr


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["etl", "dya=2026-01-05"], 2, "etl: unknown param 'dya'. Did you mean 'day'?"),
        (["etl", "day=2026-01-05"], 2, "etl: missing params without a default. Give table=…."),
        (["etl", "day=monday"], 2, "etl: day: expected date, got 'monday'"),
        (["etl", "day=2026-01-05", "table={}"], 2, "etl: table: expected Table, got '{}'"),
        (["etl", "2026-01-05"], 2, "expected params as NAME=VALUE, got '2026-01-05'. Write day=2026-01-05"),
        (["etl", "day=2026-01-05", "day=2026-01-06"], 2, "etl: day is given twice"),
        (["etl", "day=2026-01-05", "--args", "{}"], 2, "not both"),
        (["etl", "--args", "[1]"], 2, "--args: expected a JSON object with the params of etl"),
        (["order", "day=2026-01-05"], 2, "load(): missing a required argument: 'table'"),
        (["order", "dya=2026-01-05"], 2, "load(): missing a required argument"),
        (["order", *PARAMS, "x=1"], 2, "load(): got an unexpected keyword argument 'x'"),
        (["elt"], 3, "no engine or dag or pipeline 'elt' in etl.py. It has elsewhere, engine, etl, order."),
        (["elsewhere"], 3, "no engine in etl.py has 'elsewhere'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_begins(program: Path, args: list[str], code: int, says: str) -> None:
    place, *words = args
    found = ramify("start", f"etl.py:{place}", *words, code=code)
    assert says in found.stderr
    assert "Traceback" not in found.stderr
    assert list(program.glob("*.db")) == []
