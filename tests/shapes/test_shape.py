"""A second shape needs a module and a line in the table: it is started, killed, gone on with, shown and ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ramify import ConfigError, Engine, RunState
from ramify.cli.main import main
from ramify.shapes.start import How
from ramify.shapes.table import SHAPES
from tests.shapes import chain
from tests.shapes.chain import Chain

PROGRAM = f"""
import os, pathlib, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from ramify import Engine
from ramify.shapes.table import SHAPES
from tests.shapes import chain

SHAPES["chain"] = chain.plan_of
engine = Engine("chain.db")

@engine.task(retries=0)
def step(n: int) -> int:
    if n == 3 and not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if n == 6:
        raise ValueError("six")
    print("step", n)
    return n

@engine.task
def tidy() -> str:
    return "tidy"

if __name__ == "__main__":
    steps = range(1, int(sys.argv[1]) + 1)
    run = engine.run(chain.Chain(tuple(map(step.of, steps)), tidy.of()), name="steps")
    print(run.begun.value, run.state.value, *run.results("tidy", partial=True), run.counts.skipped)
"""


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHAPES, "chain", chain.plan_of)


def program(folder: Path, steps: int) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", str(steps)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_run_of_another_shape_is_killed_and_gone_on_with(tmp_path: Path) -> None:
    assert program(tmp_path, 5).returncode == -signal.SIGKILL
    assert program(tmp_path, 5).stdout.splitlines() == ["step 3", "step 4", "step 5", "continued done tidy 0"]
    assert program(tmp_path, 5).stdout.splitlines() == ["finished done tidy 0"]
    refused = program(tmp_path, 4)
    assert "exists with other roots: expected step -> step -> step -> step -> step -> tidy" in refused.stderr


def test_the_rule_at_its_joins_and_what_follows_its_end_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "killed").touch()
    assert program(tmp_path, 8).stdout.splitlines()[-1] == "new failed tidy 2"


def test_a_run_of_another_shape_is_shown_by_what_it_began_with(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "chain.db")

    @engine.task
    def step(n: int) -> int:
        return n

    run = engine.start(Chain((step.of(1), step.of(2)), step.of(3)))
    assert [each.created for each in run.roots] == [True, True, True]
    assert [engine._runtime.store.reads.history(each.task or 0).ended for each in run.roots] == [None] * 3
    assert (run._stored.shape, run._stored.shown) == ("chain", "step -> step -> step")
    engine.close()
    said = CliRunner().invoke(main, ["status", "-s", str(tmp_path / "chain.db")])
    assert "began with: step -> step -> step" in said.output


def test_equal_roots_of_two_shapes_are_not_the_same_start(tmp_path: Path) -> None:
    engine = Engine("memory:")

    @engine.task
    def step(n: int) -> int:
        return n

    first = engine.start(Chain((step.of(1),), step.of(2)), name="x")
    with pytest.raises(ConfigError, match="other roots"):
        engine.start([step.of(1), step.of(2)], name="x")
    assert engine.start(Chain((step.of(1),), step.of(2)), name="x").begun is How.CONTINUED
    assert first.state is RunState.OPEN
    engine.close()
