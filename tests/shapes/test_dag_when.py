"""The truth table of `when`: whether a node runs, by how those ended that it waits for. README has the same table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ramify import Engine, RunState
from ramify.shapes.dag.node import RULES, When
from tests.shapes.dags import anything, end, seen, states, summary, task_of

WHENS: tuple[When, ...] = ("done", "none-failed", "any-done", "failed", "always")

#: How what it waits for ended, and for which of WHENS the node runs then.
TABLE: dict[tuple[str, ...], str] = {
    ("done",): "done none-failed any-done always",
    ("failed",): "failed always",
    ("skipped",): "none-failed always",
    ("cancelled",): "none-failed always",
    ("done", "done"): "done none-failed any-done always",
    ("done", "failed"): "any-done failed always",
    ("done", "skipped"): "none-failed any-done always",
    ("done", "cancelled"): "none-failed any-done always",
    ("failed", "failed"): "failed always",
    ("failed", "skipped"): "failed always",
    ("failed", "cancelled"): "failed always",
    ("skipped", "skipped"): "none-failed always",
    ("skipped", "cancelled"): "none-failed always",
    ("cancelled", "cancelled"): "none-failed always",
    ("done", "failed", "skipped"): "any-done failed always",
    ("done", "skipped", "cancelled"): "none-failed any-done always",
    ("failed", "skipped", "cancelled"): "failed always",
    ("done", "failed", "skipped", "cancelled"): "any-done failed always",
}


def test_the_table_names_every_when() -> None:
    assert set(WHENS) == set(RULES)


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("ends", TABLE, ids="+".join)
def test_a_node_runs_when_the_table_says_so(both: Engine, ends: tuple[str, ...], when: When) -> None:
    dag = both.dag("table")
    above = [dag.add(end.of(how), id=f"{at}: {how}") for at, how in enumerate(ends)]
    dag.add(seen.of([node.out for node in above]), id="node", when=when)
    run = both.start(dag.of(), name="x")
    for node, how in zip(above, ends, strict=True):
        if how == "cancelled":
            run.cancel(task=task_of(run, node.id))
    run = both.run(dag.of(), name="x")
    runs = when in TABLE[ends].split()
    assert states(run) == {node.id: how for node, how in zip(above, ends, strict=True)} | {
        "node": "done" if runs else "skipped"
    }
    # What did not end well is None to those who run all the same.
    expected: list[Any] = [[how if how == "done" else None for how in ends]] if runs else []
    assert list(run.results(seen, partial=True)) == expected
    # A node that failed makes the run fail, whoever cleans up behind it; none that was skipped or cancelled does.
    assert run.state is (RunState.FAILED if "failed" in ends else RunState.DONE)


def test_the_guide_has_this_table() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "dags.md").read_text(encoding="utf-8")
    columns = [("done",), ("done", "skipped"), ("done", "failed"), ("skipped",), ("failed",)]
    for when in WHENS:
        cells = " | ".join("runs" if when in TABLE[ends].split() else "skipped" for ends in columns)
        assert re.search(rf'\| `"{when}"`[^|]* \| {re.escape(cells)} \|', guide), f'| `"{when}"` … | {cells} |'


@pytest.mark.parametrize("how", ["done", "failed", "skipped"])
def test_what_follows_a_node_that_did_not_run_sees_it_as_skipped(both: Engine, how: str) -> None:
    dag = both.dag("chain")
    first = dag.add(end.of(how), id="first")
    second = dag.add(end.of("done", None), id="second", after=[first])
    dag.add(end.of("done"), id="when failed", after=[second], when="failed")
    dag.add(end.of("done"), id="unless failed", after=[second], when="none-failed")
    found = states(both.run(dag.of()))
    runs = "done" if how == "done" else "skipped"
    assert (found["second"], found["when failed"], found["unless failed"]) == (runs, "skipped", "done")


def test_a_clean_up_that_fails_fails_the_run(both: Engine) -> None:
    dag = both.dag("clean")
    first = dag.add(end.of("done"))
    dag.add(end.of("failed"), after=[first], when="always")
    assert both.run(dag.of()).state is RunState.FAILED


def test_a_clean_up_that_did_its_work_does_not_make_a_failed_run_good(both: Engine) -> None:
    dag = both.dag("clean")
    first = dag.add(end.of("failed"))
    clean = dag.add(anything.of(first.out), when="failed")
    dag.add(summary.of("after it"), after=[clean])
    run = both.run(dag.of())
    assert run.state is RunState.FAILED
    assert list(run.results(summary, partial=True)) == ["after it: 1 done, 1 failed, 0 skipped, 0 cancelled"]
