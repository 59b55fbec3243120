"""Why a run ended as it did, in one line."""

from __future__ import annotations

import pytest

from ramify import Engine, Fatal, Tasks, steps

shop = Tasks()


@shop.task
def lines(many: int) -> list[int]:
    return list(range(many))


@shop.task(retries=0)
def pack(line: int) -> int:
    raise Fatal("no box")


@shop.task
def label(line: int) -> int:
    return line


@pytest.mark.parametrize(("many", "named", "begins"), [(1, 1, "1 task failed: "), (2, 2, "2 tasks"), (9, 3, "9 tasks")])
def test_some_of_the_tasks_that_failed_are_named(many: int, named: int, begins: str) -> None:
    engine = Engine("memory:", include=[shop])
    reason = engine.run(engine.pipeline("order", steps(lines).expand(steps(pack).chain(label))).of(many)).reason
    assert reason is not None
    assert reason.startswith(begins)
    assert (
        len({f"pack[{at}].pack" for at in range(many) if f"pack[{at}].pack" in reason}),
        reason.endswith(", …"),
    ) == (
        named,
        many > named,
    )


def test_the_items_of_a_map_are_named_as_they_are_asked_for() -> None:
    engine = Engine("memory:", include=[shop])
    run = engine.run(engine.pipeline("order", steps(lines).expand(pack)).of(2))
    assert run.reason in ("2 tasks failed: pack[0], pack[1]", "2 tasks failed: pack[1], pack[0]")


def test_tasks_without_a_name_go_by_kind_and_number_and_what_was_said_comes_first() -> None:
    engine = Engine("memory:", include=[shop])
    run = engine.run(pack.of(1))
    (error,) = run.errors()
    assert run.reason == f"1 task failed: pack ({error.task})"
    other = engine.start(pack.of(1), name="other")
    other.cancel("enough")
    assert other.reason == "enough"


def test_a_paused_run_says_why_and_one_that_goes_on_says_nothing() -> None:
    engine = Engine("memory:", include=[shop])
    run = engine.start(label.of(1), name="other")
    said = []
    for decide in (
        lambda: run.pause("lunch"),
        lambda: run.resume("back"),
        lambda: run.pause(),
        lambda: run.cancel("enough"),
        lambda: run.retry(cancelled=True, reason="after all"),
        lambda: engine.run(label.of(1), name="other"),
    ):
        decide()
        said.append((run.state.value, run.reason))
    assert said == [
        ("paused", "lunch"), ("open", None), ("paused", None), ("cancelled", "enough"), ("open", None), ("done", None),
    ]  # fmt: skip
