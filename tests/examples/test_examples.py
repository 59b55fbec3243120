"""Each example runs, prints what is true, and survives a kill in the middle."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ramify.cli.main import main
from ramify.inspect.gates import every_gate
from ramify.model.event import Status
from ramify.store.contract import Store
from ramify.store.open import open_store
from tests.examples.conftest import ROOT, Example, done, is_open

Find = Callable[[str], Example]

DEPTH, WIDTH = 25, 12


def grow(top: Path, depth: int = DEPTH, width: int = WIDTH) -> int:
    """A tree with a long trunk and `width` folders at each height, each with a file of 10 bytes; how many bytes."""
    trunk = top
    for height in range(depth):
        for branch in range(width):
            (trunk / f"branch{branch}").mkdir(parents=True)
            (trunk / f"branch{branch}" / "leaf").write_text(f"{height:5}{branch:5}")
        trunk = trunk / "up"
    return 10 * depth * width


def has_begun(store: Store) -> bool:
    """Whether the work is under way and not over."""
    return sum(done(store)) > WIDTH and is_open(store)


# without arguments


WEB_APPS = {"fastapi_app", "service", "service_feed"}  # They do not end by themselves.


@pytest.mark.parametrize("name", sorted({each.stem for each in (ROOT / "examples").glob("*.py")} - WEB_APPS))
def test_every_example_runs_without_arguments_and_again(example: Find, name: str) -> None:
    assert example(name).run()
    assert example(name).run()


def test_compare_trees_is_under_sixty_lines() -> None:
    assert len((ROOT / "examples" / "compare_trees.py").read_text().splitlines()) < 60


# folder sizes


def test_folder_sizes_adds_up_to_the_top(example: Find, tmp_path: Path) -> None:
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "own").write_bytes(b"x" * 1_000_000)
    (top / "a" / "b" / "file").write_bytes(b"x" * 2_000_000)
    lines = example("folder_sizes").run(top).splitlines()
    sizes = [line.split(" MB  ") for line in lines if " MB  " in line]
    assert {folder: float(size) for size, folder in sizes} == {
        str(top): 3.0,
        str(top / "a"): 2.0,
        str(top / "a" / "b"): 2.0,
    }


def test_folder_sizes_names_what_it_could_not_measure(example: Find, tmp_path: Path) -> None:
    out = example("folder_sizes").run(tmp_path / "nowhere")
    assert "not measured: measure" in out
    assert "FileNotFoundError" in out


def test_folder_sizes_goes_on_after_a_kill(example: Find, tmp_path: Path) -> None:
    size = grow(tmp_path / "tree")
    sizes = example("folder_sizes")
    sizes.kill_in_the_middle(tmp_path / "tree", when=has_begun)
    out = sizes.run(tmp_path / "tree")
    assert f"{size / 1e6:.1f} MB  {tmp_path / 'tree'}\n" in out
    assert "continued run" in out
    assert f"{DEPTH * (WIDTH + 1)} folders" in out
    assert_each_folder_was_recorded_once(sizes)


def assert_each_folder_was_recorded_once(sizes: Example) -> None:
    store = open_store(sizes.file)
    try:
        (run,) = store.reads.runs().rows
        bodies = [row.body for row in store.reads.tasks(run.id, kind="measure", limit=10_000).rows]
        assert len(bodies) == len(set(bodies)) == DEPTH * (WIDTH + 1)
    finally:
        store.close()


# crawl


def test_crawl_fetches_every_page_of_every_host_once_and_is_never_turned_away(example: Find) -> None:
    crawl = example("crawl")
    out = crawl.run(40)
    assert [line.split()[0] for line in out.splitlines()] == ["40", "40", "40", "120"]
    store = open_store(crawl.file)
    try:
        (run,) = store.reads.runs().rows
        assert Status.RETRYING not in store.reads.counts(run.id)["visit"], "the site serves four at a time and host"
    finally:
        store.close()


def test_crawl_goes_on_after_a_kill(example: Find) -> None:
    crawl = example("crawl")
    crawl.kill_in_the_middle(300, when=lambda store: sum(done(store)) > 20 and is_open(store))
    out = crawl.run(300)
    assert [line.split()[0] for line in out.splitlines()] == ["300", "300", "300", "900"]
    assert "continued run" in out


# a DAG


def test_etl_dag_leaves_out_what_cannot_be_read_and_publishes(example: Find) -> None:
    lines = example("etl_dag").run("2026-02-01").splitlines()
    expected = sum(sum(range(number)) for number in range(40) if number != 7)
    assert lines == [f"2026-02-01: {expected} in 39 files", "2 tasks were skipped", "48 tasks; new run"]


def test_etl_dag_goes_on_after_a_kill(example: Find) -> None:
    etl = example("etl_dag")
    etl.kill_in_the_middle("2026-02-02", when=lambda store: sum(done(store)) >= 1 and is_open(store))
    lines = etl.run("2026-02-02").splitlines()
    assert lines[0].endswith("in 39 files")
    assert lines[-1].endswith("tasks; continued run")


# a pipeline


def asks(store: Store) -> bool:
    """Whether a gate waits for an answer."""
    return any(True for _ in every_gate(store.reads))


def packed(store: Store) -> int:
    (run,) = store.reads.runs().rows
    return store.reads.counts(run.id).get("pack", {}).get(Status.DONE, 0)


def test_order_pipeline_is_halted_and_revived(example: Find) -> None:
    pipeline = example("order_pipeline")
    assert pipeline.run("o-1", 12).splitlines() == [
        "halted: there is no tape left",
        "12 items shipped",
        "21 tasks; new run",
    ]
    store = open_store(pipeline.file)
    try:
        (run,) = store.reads.runs().rows
        assert Status.RETRYING not in store.reads.counts(run.id)["pack"]
        assert packed(store) == 12, "revived, it went on with what had failed and nothing else"
    finally:
        store.close()


def test_order_pipeline_goes_on_after_it_was_killed_at_its_gate_and_in_its_fan_out(example: Find) -> None:
    pipeline = example("order_pipeline")
    pipeline.kill_in_the_middle("o-2", 3000, when=asks)
    # While nothing of it runs, somebody approves.
    typed = CliRunner().invoke(
        main, ["-s", str(pipeline.file), "answer", "order o-2", "approval", '{"approved": true}']
    )
    assert typed.exit_code == 0, typed.output
    pipeline.kill_in_the_middle("o-2", 3000, when=lambda store: packed(store) > 100 and is_open(store))
    assert pipeline.run("o-2", 3000).splitlines() == [
        "halted: there is no tape left",
        "3000 items shipped",
        "3009 tasks; continued run",
    ]
    store = open_store(pipeline.file)
    try:
        (run,) = store.reads.runs().rows
        bodies = [row.body for row in store.reads.tasks(run.id, kind="pack", limit=10_000).rows]
        assert len(bodies) == len(set(bodies)) == packed(store) == 3000
    finally:
        store.close()


def test_order_pipeline_refuses_what_is_not_approved(example: Find) -> None:
    pipeline = example("order_pipeline")
    pipeline.kill_in_the_middle("o-3", 5, when=asks)
    typed = CliRunner().invoke(
        main, ["-s", str(pipeline.file), "answer", "order o-3", "approval", '{"approved": false}']
    )
    assert typed.exit_code == 0, typed.output
    assert pipeline.run("o-3", 5).splitlines()[0] == "5 items refused"


def test_order_pipeline_is_under_ninety_lines() -> None:
    assert len((ROOT / "examples" / "order_pipeline.py").read_text().splitlines()) < 90


# compare trees


def test_compare_trees_prints_what_differs(example: Find, tmp_path: Path) -> None:
    for side, text in (("left", "1"), ("right", "2")):
        (tmp_path / side / "both" / "deep").mkdir(parents=True)
        (tmp_path / side / "both" / "same").write_text("same")
        (tmp_path / side / "both" / "deep" / "changed").write_text(text)
        (tmp_path / side / f"only-{side}").mkdir()
        (tmp_path / side / f"only-{side}" / "inside").write_text("")
    (tmp_path / "left" / "kind").mkdir()
    (tmp_path / "right" / "kind").write_text("a file")
    os.symlink("elsewhere", tmp_path / "right" / "both" / "link")
    out = example("compare_trees").run(tmp_path / "left", tmp_path / "right")
    assert sorted(map(tuple, map(str.split, out.splitlines()))) == [
        ("different", "./both/deep/changed"),
        ("different", "./kind"),
        ("only-left", "./only-left"),
        ("only-right", "./both/link"),
        ("only-right", "./only-right"),
    ]


def test_compare_trees_says_nothing_of_trees_that_are_alike(example: Find, tmp_path: Path) -> None:
    grow(tmp_path / "left", depth=3)
    grow(tmp_path / "right", depth=3)
    assert not example("compare_trees").run(tmp_path / "left", tmp_path / "right").strip()


def test_compare_trees_goes_on_after_a_kill(example: Find, tmp_path: Path) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    grow(left)
    grow(right)
    deepest = Path(*["up"] * (DEPTH - 1), "branch0")
    (left / deepest / "lost").write_text("")
    (right / deepest / "leaf").write_text("changed")

    def both_are_at_work(store: Store) -> bool:
        counts = done(store)
        return len(counts) == 2 and counts[1] > WIDTH and is_open(store)

    trees = example("compare_trees")
    trees.kill_in_the_middle(left, right, when=both_are_at_work)
    out = trees.run(left, right)
    assert out.split() == ["different", f"./{deepest}/leaf", "only-left", f"./{deepest}/lost"]
