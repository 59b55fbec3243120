"""Pipelines as they run, on each store: what is handed on, what fires when, what halts, and how a run goes on again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import (
    Backoff,
    ConfigError,
    Engine,
    Fatal,
    How,
    Pipeline,
    Route,
    Run,
    RunState,
    Stream,
    Tasks,
    current,
    steps,
)
from ramify.errors import UnknownTask
from ramify.testing import oracle, using
from tests.shapes.dags import states

here = Tasks()
#: What was begun, by the keys of tasks, and what is to fail.
CALLS: Counter[str] = Counter()
BAD: set[Any] = set()
KEYS: list[tuple[str, str]] = []
HOUR = timedelta(hours=1)


def begin(value: Any = None) -> None:
    me = current()
    CALLS[me.key or ""] += 1
    KEYS.append((me.key or "", me.idempotency_key))
    if value in BAD or me.key in BAD:
        raise Fatal(f"{value} is bad")


@here.task(retries=0)
def one(n: int) -> int:
    begin(n)
    return n


@here.task(retries=0)
def more(n: int) -> int:
    begin(n)
    return n + 1


@here.task(retries=0)
def many(n: int) -> list[int]:
    begin(n)
    return list(range(n))


@here.task(retries=0)
def total(parts: Stream[int]) -> int:
    begin()
    return sum(parts)


@here.task(retries=0)
def listed(parts: Stream[Any]) -> list[Any]:
    begin()
    return list(parts)


@here.task(retries=0)
def together(parts: list[Any]) -> Any:
    begin()
    return parts


@here.task(retries=0)
def by_name(parts: dict[str, Any]) -> Any:
    begin()
    return parts


@here.task(retries=0)
def anything(value: Any) -> Any:
    begin()
    return value


@here.task(retries=0)
def odd_or_even(n: int) -> Route[int]:
    begin(n)
    return Route("odd" if n % 2 else "even", n)


@here.task(retries=0)
def answered(n: int, answer: str) -> str:
    begin()
    return f"{n} {answer}"


@here.task(retries=3, backoff=Backoff(first=0, jitter=False))
def flaky(n: int) -> int:
    begin()
    if current().attempt < 3:
        raise OSError("not yet")
    return n


@here.task(retries=0)
def dies(n: int) -> int:
    begin()
    raise Fatal("always")


@here.task(retries=0)
def sums(parts: list[int]) -> int:
    return sum(parts)


@here.task(retries=0)
def report(title: str) -> str:
    return f"{title} {current().run.ends.failed}"


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    CALLS.clear()
    BAD.clear()
    KEYS.clear()


@pytest.fixture(params=["memory", "sqlite"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on one store and on the other."""
    made = Engine("memory:" if request.param == "memory" else tmp_path / "p.db", include=[here])
    yield made
    made.close()


def run(engine: Engine, written: Any, *args: Any, name: str | None = None) -> Run[Any]:
    done = engine.run(engine.pipeline("p", written).of(*args), name=name)
    assert oracle.check(engine._runtime.store) == []
    return done


def last(done: Run[Any], task: str) -> list[Any]:
    return list(done.results(task, partial=True))


def ends(done: Run[Any], how: str) -> set[str]:
    return {id for id, end in states(done).items() if end == how}


# what is handed on


def test_a_chain_hands_each_result_on(both: Engine) -> None:
    done = run(both, steps(one).chain(more).chain(more), 3)
    assert (done.state, last(done, "more")) == (RunState.DONE, [4, 5])
    assert (done.name, done.definition) == (None, "p")


def test_combine_gets_a_list_in_the_order_of_definition_and_a_dict_by_names(both: Engine) -> None:
    branches = [steps(more).chain(more), steps(one), steps(more)]
    assert last(run(both, steps(one).divide(branches).combine(together), 1), "together") == [[3, 1, 2]]
    named = steps(one).divide({"b": more, "a": one}).combine(by_name)
    assert last(run(both, named, 1), "by_name") == [{"b": 2, "a": 1}]
    chained = steps(one).divide({"b": more, "a": one}).chain(more).combine(by_name)
    assert last(run(both, chained, 1), "by_name") == [{"b": 3, "a": 2}]


@pytest.mark.parametrize("many_of_them", [1, 2, 63, 200])
def test_collapse_gets_what_branches_gave_in_the_order_of_the_list(both: Engine, many_of_them: int) -> None:
    expected = [[n + 1 for n in range(many_of_them)]]
    assert last(run(both, steps(many).expand(more).collapse(listed), many_of_them), "listed") == expected
    branches = steps(many).expand(steps(one).chain(more)).collapse(listed)
    assert last(run(both, branches, many_of_them), "listed") == expected
    assert CALLS["listed"] == 2


def test_a_divert_takes_one_way_and_converge_gets_what_came_of_it(both: Engine) -> None:
    written = steps(odd_or_even).divert({"odd": steps(more).chain(more)}, otherwise=one).converge(anything)
    for n, result in ((1, 3), (2, 2)):
        done = run(both, written, n)
        assert (done.state, last(done, "anything")) == (RunState.DONE, [result])
        assert ("one" in ends(done, "skipped")) == (n == 1)


@here.task(retries=0)
def moment(value: datetime) -> datetime:
    return value


@here.task(retries=0)
def two(value: tuple[int, int]) -> tuple[int, int]:
    return value


@pytest.mark.parametrize(
    ("same", "key"),
    [(anything, True), (anything, 1.5), (anything, None), (two, (1, 2)), (moment, datetime(2026, 1, 5, tzinfo=UTC))],
)
def test_a_way_is_known_by_whatever_can_be_stored(both: Engine, same: Any, key: Any) -> None:
    ways: dict[Any, Any] = {key: steps(same, id="taken")}
    done = run(both, steps(same, id="chosen").divert(ways, otherwise=steps(same, id="other")), key)
    assert (done.state, ends(done, "skipped") & {"taken", "other"}) == (RunState.DONE, {"other"})


@here.task(retries=0)
def unsaid_route(n: int) -> Any:
    return Route("odd", n)


def test_a_route_that_no_annotation_tells_of_is_a_failure(both: Engine) -> None:
    done = run(both, steps(unsaid_route).divert({"odd": anything}, otherwise=anything).converge(anything), 1)
    assert done.state is RunState.HALTED
    assert ["Annotate it with its type" in error.failure.text for error in done.errors()] == [True]


def test_a_failed_step_of_a_branch_is_resolved_by_hand(both: Engine) -> None:
    written = steps(many).expand(steps(one).chain(more).chain(one)).collapse(listed)
    BAD.add("one[1].more")
    for name, result, expected in (("given", 70, [1, 70, 3]), ("skipped", None, [1, 3])):
        done = run(both, written, 3, name=name)
        assert (done.state, states(done)["listed"]) == (RunState.HALTED, "skipped")
        if result is None:
            done.resolve("one[1].more", skip=True, reason="never mind")
        else:
            done.resolve("one[1].more", result=result, reason="by hand")
        done = run(both, written, 3, name=name)
        assert (done.state, done["listed"].result) == (RunState.DONE, expected)


@pytest.mark.parametrize(
    ("branch", "waits"), [(steps(one, delay=60), "one[1]"), (steps(one).sleep(HOUR), "one[1].sleep")]
)
def test_a_cancelled_branch_holds_up_its_fan_in_and_one_that_is_skipped_is_left_out(branch: Any, waits: str) -> None:
    engine = Engine("memory:", include=[here])
    made = engine.pipeline("p", steps(many).expand(branch).collapse(listed))
    with using(engine) as bench:
        cancelled, skipped = engine.start(made.of(3), name="a"), engine.start(made.of(3), name="b")
        bench.drain()
        cancelled.cancel(task=waits)
        skipped.resolve(waits, skip=True)
        bench.finish()
        assert (cancelled["listed"].state, skipped["listed"].result) == ("skipped", [0, 2])


def test_very_many_branches_are_brought_together_once(both: Engine) -> None:
    written = steps(many).expand(steps(one).chain(more)).collapse(listed)
    done = run(both, written, 1_000)
    assert (done.state, done["listed"].result) == (RunState.DONE, list(range(1, 1_001)))
    BAD.add("one[700].one")
    assert run(both, written, 1_000)["listed"].state == "skipped"


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False])
def test_a_way_may_give_nothing(both: Engine, value: Any) -> None:
    given = steps(anything).divert({"never": anything}, otherwise=anything).converge(anything)
    assert last(run(both, given, value), "anything") == [value] * 3


def test_what_is_open_at_the_end_is_done_in_each_branch(both: Engine) -> None:
    done = run(both, steps(many).expand(steps(one).divide([more, more]).chain(more)), 3)
    assert done.state is RunState.DONE
    assert sum(CALLS.values()) == 1 + 3 + 3 * 4
    done = run(both, steps(one).divide([steps(many).expand(one), more]), 2)
    assert (done.state, ends(done, "open")) == (RunState.DONE, set())


def test_fan_outs_of_every_sort_inside_of_every_other(both: Engine) -> None:
    inner = {
        "expand": steps(many).expand(steps(one).chain(more)).collapse(total),
        "divide": steps(one).divide([more, steps(one).chain(more)]).combine(sums),
        "divert": steps(odd_or_even).divert({"odd": more}, otherwise=steps(one).chain(more)).converge(one),
    }
    gives: dict[str, Callable[[int], int | None]] = {
        "expand": lambda n: sum(range(1, n + 1)) if n else None,
        "divide": lambda n: 2 * (n + 1),
        "divert": lambda n: n + 1,
    }
    for name, body in inner.items():
        expected = [gives[name](n) for n in range(4)]
        done = run(both, steps(many).expand(body).collapse(listed), 4)
        assert last(done, "listed") == [[value for value in expected if value is not None]], name
        done = run(both, steps(one).divide([body, body]).combine(together), 3)
        assert last(done, "together")[-1] == [expected[3]] * 2, name
        written = steps(odd_or_even).divert({"odd": body}, otherwise=body).converge(anything)
        assert [last(run(both, written, n), "anything")[-1] for n in (2, 3)] == expected[2:], name


def test_three_levels_of_expansions_fire_once_each_and_in_order(both: Engine) -> None:
    written = steps(many).expand(steps(many).expand(steps(many).expand(one).collapse(listed)).collapse(listed))
    done = run(both, written.collapse(listed, id="outermost"), 4)
    # What was empty ended early, on every level.
    assert done["outermost"].result == [[[0]], [[0], [0, 1]]]
    assert max(count for key, count in CALLS.items() if "listed" in key) == 1
    assert done.state is RunState.DONE


# nothing, too much, and failures


def test_an_empty_expansion_ends_its_branch_and_is_no_failure(both: Engine) -> None:
    for written in (
        steps(many).expand(one).collapse(total).chain(more),
        steps(many).expand(steps(one).chain(more)).collapse(total).chain(more),
    ):
        done = run(both, written, 0)
        assert (done.state, ends(done, "done")) == (RunState.DONE, {"many"})
        assert {"total", "more"} <= ends(done, "skipped")
    done = run(both, steps(one).divide([steps(many).expand(one).collapse(total), more]).combine(together), 0)
    assert (done.state, states(done)["more"], states(done)["together"]) == (RunState.DONE, "done", "skipped")
    assert CALLS["total"] == 0


def test_more_elements_than_allowed_halt_before_any_is_there(both: Engine) -> None:
    for body in (steps(one), steps(one).chain(more)):
        written = steps(many).expand(body, max_items=2).collapse(total)
        assert run(both, written, 2).state is RunState.DONE
        done = run(both, written, 3)
        assert done.state is RunState.HALTED
        (error,) = done.errors()
        assert error.failure.text.startswith("many: expected at most 2 items (max_items), got 3. Raise max_items")
        assert not [id for id in states(done) if "[" in id]


#: What fails in each of these, by its key.
BADLY = {"bad[1].", "bad[1].bad", "one[1].bad", "odd_or_even[1].bad", "many#2[2].bad[1].bad"}
FAILING: dict[str, Any] = {
    "in the middle": steps(many).expand(steps(one).chain(more, id="bad").chain(one)).collapse(listed),
    "at the end": steps(many).expand(steps(one).chain(more, id="bad")).collapse(listed),
    "the only one": steps(many).expand(steps(more, id="bad")).collapse(listed),
    "at the beginning": steps(many).expand(steps(more, id="bad").chain(one)).collapse(listed),
    "in a divide": steps(many).expand(steps(one).divide([more, steps(more, id="bad")]).combine(together))
    .collapse(listed),
    "in a way": steps(many)
    .expand(steps(odd_or_even).divert({"odd": steps(more, id="bad").chain(one)}, otherwise=one).converge(one))
    .collapse(listed),
    "in an expand": steps(many).expand(steps(many).expand(steps(more, id="bad").chain(one)).collapse(listed))
    .collapse(listed),
}  # fmt: skip


@pytest.mark.parametrize("where", FAILING)
def test_a_halted_branch_blocks_its_fan_in_and_does_not_stop_its_siblings(both: Engine, where: str) -> None:
    BAD.update(BADLY)
    done = run(both, FAILING[where].chain(anything), 4)
    assert done.state is RunState.HALTED
    assert len(list(done.errors())) == 1
    assert (states(done)["listed"], states(done)["anything"]) == ("skipped", "skipped")
    assert CALLS["listed"] == 0
    assert not ends(done, "open")
    # Those of every other element went on to the end.
    assert len(ends(done, "done")) >= 5


def test_a_failed_branch_of_a_divide_blocks_combine_and_the_other_ends(both: Engine) -> None:
    written = steps(one).divide([steps(dies).chain(one), steps(more).chain(more)]).combine(together).chain(anything)
    done = run(both, written, 1)
    assert done.state is RunState.HALTED
    assert states(done) == {
        "one": "done", "dies": "failed", "one#2": "skipped", "more": "done", "more#2": "done",
        "together": "skipped", "anything": "skipped",
    }  # fmt: skip
    assert [error.failure.text for error in done.errors()] == ["always"]


def test_a_failed_branch_blocks_the_fan_in_around_one_that_ended_early(both: Engine) -> None:
    empty_and_bad = steps(one).divide([steps(many).expand(one).collapse(total), steps(dies)]).combine(together)
    done = run(both, steps(many).expand(empty_and_bad).collapse(listed), 1)
    assert (done.state, states(done)["listed"]) == (RunState.HALTED, "skipped")


def test_a_step_is_tried_as_often_as_it_may_be(both: Engine) -> None:
    done = run(both, steps(many).expand(steps(flaky).chain(more)).collapse(total), 3)
    assert (done.state, last(done, "total"), done.counts.retries) == (RunState.DONE, [6], 6)
    done = run(both, steps(one).chain(flaky, retries=1), 1)
    assert (done.state, states(done)["flaky"]) == (RunState.HALTED, "failed")


def test_what_comes_after_the_end_is_started_by_how_steps_ended(both: Engine) -> None:
    for n, state, expected in (
        (1, RunState.DONE, ["always 0", "done 0"]),
        (2, RunState.HALTED, ["always 1", "failed 1"]),
    ):
        made: Pipeline[[int], Any] = both.pipeline("p", steps(one).divide([more, one]).combine(together))
        for when in ("done", "failed", "always"):
            made.on_end(report.of(when), when=when)
        BAD.update({"more"} if n == 2 else ())
        done = both.run(made.of(n))
        assert (done.state, sorted(text for text in last(done, "report"))) == (state, expected)


@pytest.mark.parametrize("body", [steps(one), steps(one).chain(more)])
def test_a_part_of_a_pipeline_runs_with_results_that_are_given(both: Engine, body: Any) -> None:
    made = both.pipeline("p", steps(many).expand(body).collapse(total).chain(one, id="last"))
    done = both.run(made.of(3).part(upto="total"))
    assert (done.state, "last" in states(done), states(done)["total"]) == (RunState.DONE, False, "done")
    done = both.run(made.of(3).part(only=["total", "last"], given={"one": [10, 20]}))
    assert (done.state, done["last"].result) == (RunState.DONE, 30)
    assert not any("many" in key for key in states(done))


# going on again


def test_a_halted_run_is_revived_where_it_stopped(both: Engine) -> None:
    written = steps(many).expand(steps(one).chain(more).chain(one)).collapse(total).chain(anything)
    BAD.add("one[1].more")
    done = run(both, written, 3, name="r")
    assert done.state is RunState.HALTED
    before = dict(CALLS)
    BAD.clear()
    assert done.retry(reason="mended").tasks >= 4
    done = run(both, written, 3, name="r")
    assert (done.begun, done.state, last(done, "total")) == (How.CONTINUED, RunState.DONE, [6])
    again = {key for key, times in CALLS.items() if times > before.get(key, 0)}
    assert again == {"one[1].more", "one[1].one#2", "total", "anything"}
    assert CALLS["one[1].more"] == 2


@pytest.mark.parametrize("where", FAILING)
def test_every_shape_is_revived_with_what_halted_and_what_follows_it(both: Engine, where: str) -> None:
    BAD.update(BADLY)
    written = FAILING[where]
    done = run(both, written, 4, name="r")
    assert done.state is RunState.HALTED
    before = dict(CALLS)
    BAD.clear()
    done.retry()
    done = run(both, written, 4, name="r")
    assert (done.state, ends(done, "failed"), ends(done, "open")) == (RunState.DONE, set(), set())
    again = Counter({key: times - before.get(key, 0) for key, times in CALLS.items() if times > before.get(key, 0)})
    assert max(again.values()) == 1
    assert len(again) <= 5, again


@pytest.mark.parametrize("where", ["in the middle", "the only one", "in an expand"])
def test_an_expansion_that_is_retried_by_name_goes_on_with_what_halted_in_it(both: Engine, where: str) -> None:
    BAD.update(BADLY)
    done = run(both, FAILING[where], 4, name="r")
    before, (halted,) = dict(CALLS), ends(done, "failed")
    BAD.clear()
    done.retry({"in the middle": "one", "the only one": "bad", "in an expand": "many#2"}[where])
    done = run(both, FAILING[where], 4, name="r")
    assert (done.state, CALLS[halted]) == (RunState.DONE, 2)
    again = {key for key, times in CALLS.items() if times > before.get(key, 0)}
    assert all(key in ("listed", halted) or key.startswith(halted.partition("]")[0]) for key in again), again
    # With all of it done, it is made again, and each key means the younger task.
    done.retry({"in the middle": "one", "the only one": "bad", "in an expand": "many#2"}[where])
    done = run(both, FAILING[where], 4, name="r")
    assert (done.state, done[halted].state, CALLS[halted]) == (RunState.DONE, "done", 3)


def test_a_branch_that_is_retried_by_name_goes_on_with_what_halted_in_it(both: Engine) -> None:
    written = steps(many).expand(steps(one).chain(more).chain(one)).collapse(total)
    BAD.update({"one[1].more", "one[2].more"})
    done = run(both, written, 3, name="r")
    BAD.clear()
    done.retry("one[1]")
    run(both, written, 3, name="r")
    assert (CALLS["one[1].more"], CALLS["one[1].one#2"], CALLS["one[2].more"]) == (2, 1, 1)


def test_a_key_means_the_youngest_however_often_it_was_made(both: Engine) -> None:
    written = steps(many).expand(steps(one).chain(more)).collapse(total)
    done = run(both, written, 1, name="r")
    made = [done["one[0].more"].task]
    for _ in range(6):
        done.retry("many")
        done = run(both, written, 1, name="r")
        made.append(done["one[0].more"].task)
    assert made == sorted(set(made))


@pytest.mark.parametrize(
    "failing", ["one[1].one", "one[1].more", "many#2[1].many", "many#2[2].one[1].one", "many#2[2].one[1].more"]
)
def test_what_branches_came_to_before_they_were_made_anew_no_longer_counts(both: Engine, failing: str) -> None:
    is_nested = failing.startswith("many")
    inner = steps(one).chain(more)
    written = steps(many).expand(steps(many).expand(inner).collapse(total) if is_nested else inner).collapse(total)
    BAD.add(failing)
    done = run(both, written, 3, name="r")
    assert (done.state, ends(done, "failed")) == (RunState.HALTED, {failing})
    BAD.clear()
    done.retry("many")
    done = run(both, written, 3, name="r")
    assert (done.state, ends(done, "failed"), CALLS[failing]) == (RunState.DONE, set(), 2)
    assert sorted(done.results(more)) == ([1, 1, 2] if is_nested else [1, 2, 3])
    with pytest.raises(ConfigError, match="nothing of run"):
        done.retry()


def test_a_result_that_is_given_by_hand_is_what_branches_are_made_of(both: Engine) -> None:
    written = steps(many).expand(more).collapse(total)
    BAD.add(1)
    done = run(both, written, 3, name="r")
    assert done.state is RunState.HALTED
    done.resolve("many", result=[10, 20])
    done = run(both, written, 3, name="r")
    assert (done.state, sorted(done.results(more))) == (RunState.DONE, [11, 21])


def test_open_branches_are_replaced_when_a_step_before_them_is_tried_again(both: Engine) -> None:
    written = steps(many).expand(steps(one).gate("ok", str).chain(answered)).collapse(listed)
    with using(both) as bench:
        begun = both.start(both.pipeline("p", written).of(2), name="r")
        bench.drain()
        begun.answer("one[0].ok", "yes")
        (old,) = bench.gates(begun)
        assert begun.retry("many").replaced == 9, "two branches of four tasks, and what gathers them"
        with pytest.raises(UnknownTask, match=r"run 1 has no task with the key 'one\[1\].ok'"):
            begun.answer(old, "late")
        bench.drain()
        for branch in range(2):
            begun.answer(f"one[{branch}].ok", "again")
        bench.drain()
        assert (begun.state, begun["listed"].result) == (RunState.DONE, ["0 again", "1 again"])
        assert sorted(begun.results("answered")) == ["0 again", "1 again"]


def test_a_run_in_which_nothing_failed_is_not_retried(both: Engine) -> None:
    done = run(both, steps(one).chain(more), 1, name="r")
    with pytest.raises(ConfigError, match=r"nothing of run \d+ failed, so there is nothing to retry"):
        done.retry(reason="mended")
    assert done.retry("more").tasks == 2, "it, and the task that closes the run"


def test_every_step_has_a_key_of_its_own_that_stays_over_lives(both: Engine) -> None:
    written = steps(many).expand(steps(flaky).chain(more)).collapse(total)
    BAD.add("flaky[1].more")
    done = run(both, written, 3, name="r")
    BAD.clear()
    done.retry()
    run(both, written, 3, name="r")
    found: dict[str, set[str]] = {}
    for key, idempotency_key in KEYS:
        found.setdefault(key, set()).add(idempotency_key)
    assert all(len(keys) == 1 for keys in found.values()), found
    assert len(set.union(*found.values())) == len(found) == 8
    assert CALLS["flaky[1].flaky"] == 3
    assert CALLS["flaky[1].more"] == 2


# time


def test_a_sleep_is_a_time_and_not_a_sleeping_worker() -> None:
    engine = Engine("memory:", include=[here])
    written = steps(many).sleep(HOUR).expand(steps(one).sleep(HOUR).chain(more)).collapse(total)
    with using(engine) as bench:
        made = engine.start(engine.pipeline("p", written).of(2))
        bench.drain()
        assert states(made) == {"many": "done", "sleep": "open", "one": "open", "total": "open"}
        bench.advance(3_599)
        bench.drain()
        assert states(made)["one"] == "open"
        bench.advance(1)
        bench.drain()
        assert (states(made)["one[1].one"], states(made)["one[1].more"]) == ("done", "open")
        bench.advance(3_600)
        bench.drain()
        assert (made.state, last(made, "total")) == (RunState.DONE, [3])


def test_a_gate_waits_for_its_answer_and_for_its_time() -> None:
    engine = Engine("memory:", include=[here])
    written = steps(one).gate("ok", str, timeout=HOUR, otherwise="late").chain(answered)
    with using(engine) as bench:
        asked, left, halts = (engine.start(engine.pipeline("p", each).of(n)) for n, each in enumerate(
            (written, written, steps(one).gate("ok", str, timeout=HOUR).chain(answered))
        ))  # fmt: skip
        bench.drain()
        asked.answer("ok", "yes")
        bench.drain()
        assert (asked.state, last(asked, "answered")) == (RunState.DONE, ["0 yes"])
        bench.advance(HOUR)
        left.wait()
        assert (left.state, last(left, "answered")) == (RunState.DONE, ["1 late"])
        halts.wait()
        assert halts.state is RunState.HALTED
        assert [error.failure.text for error in halts.errors()] == ["nobody answered within 3,600 seconds"]
        # Revived, it asks again, with all of its time before it.
        halts.retry()
        bench.drain()
        halts.answer("ok", "after all")
        halts.wait()
        assert (halts.state, last(halts, "answered")) == (RunState.DONE, ["2 after all"])


# programs that change


def test_a_run_keeps_the_steps_it_started_with(tmp_path: Path) -> None:
    def deploy() -> Engine:
        return Engine(tmp_path / "x.db", include=[here])

    before = deploy()
    old = steps(many).expand(steps(one).chain(more)).collapse(listed)
    before.start(before.pipeline("p", old).of(2), name="old")
    before.close()

    after = deploy()
    new = after.pipeline("p", steps(many).expand(steps(more).chain(more).chain(more)).collapse(listed))
    with pytest.raises(ConfigError, match="exists with other roots"):
        after.start(new.of(2), name="old")
    with after.working():
        later = after.start(new.of(2), name="new")
        kept = after.find("old")
        assert kept is not None
        assert kept.wait(30)
        assert later.wait(30)
    assert (last(kept, "listed"), last(later, "listed")) == ([[1, 2]], [[3, 4]])
    after.close()


@pytest.mark.parametrize(
    "change", ["step", "option", "max_items", "gate", "otherwise", "order", "body", "ways", "sleep"]
)
def test_a_changed_pipeline_is_another_one(change: str) -> None:
    engine = Engine("memory:", include=[here])

    def made(*, changed: bool) -> Any:
        def is_(what: str) -> bool:
            return changed and change == what

        first, second = (more, one) if is_("order") else (one, more)
        body = steps(first).chain(second, id="x" if is_("option") else "y")
        body = body.chain(one) if is_("body") else body
        slept = steps(many).sleep(2 * HOUR if is_("sleep") else HOUR)
        written = slept.expand(body, max_items=7 if is_("max_items") else 8).collapse(total)
        written = written.chain(one) if is_("step") else written
        gated = written.gate("ok", bool if is_("gate") else str, timeout=HOUR).chain(anything_of)
        ways: dict[str, Any] = {"odd": one} | ({"even": one} if is_("ways") else {})
        return engine.pipeline("p", gated.divert(ways, otherwise=more if is_("otherwise") else one)).of(2)

    engine.include(deciding)
    first = engine.start(made(changed=False), name="x")
    assert engine.start(made(changed=False), name="x").id == first.id
    with pytest.raises(ConfigError, match="other roots"):
        engine.start(made(changed=True), name="x")
    with pytest.raises(ConfigError, match="other roots"):
        engine.start(engine.pipeline("p", steps(many)).of(2), name="x")


deciding = Tasks()


@deciding.task
def anything_of(n: int, answer: Any) -> Route[int]:
    return Route(str(answer), n)


def test_a_kind_that_is_gone_waits_visibly_inside_a_branch(tmp_path: Path) -> None:
    def deploy(*, complete: bool) -> Engine:
        engine = Engine(tmp_path / "x.db", include=[here])
        if complete:

            @engine.task
            def later(n: int) -> int:
                return n + 10

        return engine

    before = deploy(complete=True)
    gone: Any = before._runtime.table()["later"]
    written = steps(many).expand(steps(one).chain(gone).chain(more)).collapse(listed)
    before.start(before.pipeline("p", written).of(2), name="x")
    before.close()

    without = deploy(complete=False)
    waiting = without.find("x")
    assert waiting is not None
    with without.working():
        wait_for(lambda: ends(waiting, "done") >= {"one[0].one", "one[1].one"})
    assert (waiting.state, states(waiting)["one[0].later"], states(waiting)["listed"]) == (
        RunState.OPEN,
        "open",
        "open",
    )
    without.close()

    after = deploy(complete=True)
    with after.working():
        done = after.find("x")
        assert done is not None
        assert done.wait(30)
    assert last(done, "listed") == [[11, 12]]
    after.close()


def test_whoever_serves_the_steps_serves_what_is_between_them(both: Engine) -> None:
    @both.task(queue="slow")
    def pair(n: int) -> list[int]:
        return [n, n]

    @both.task(queue="slow")
    def same(n: int) -> int:
        return n

    @both.task(queue="slow")
    def added(parts: Stream[int]) -> int:
        return sum(parts)

    @both.task(queue="slow")
    def way(n: int) -> Route[int]:
        return Route("one", n)

    branch = steps(same).sleep(timedelta(milliseconds=1)).chain(same)
    routed = steps(pair).expand(branch).collapse(added).chain(way)
    written = routed.divert({"one": same}, otherwise=same).converge(same).run(same).divide([branch, same])
    with both.working(queues=["slow"], threads=1):
        started = both.start(both.pipeline("p", written).of(4))
        assert started.wait(30), started.counts
    assert started.state is RunState.DONE


def test_what_is_collapsed_is_found_whoever_has_the_larger_ids(both: Engine) -> None:
    made = both.pipeline("p", steps(many).expand(steps(one).chain(more)).collapse(listed))
    with both.working(threads=1):
        first = both.start(made.of(2), name="first")
        assert first.wait(30)
        # Those who work have ids left of before the next run began.
        both._runtime.store.reserve(100_000)
        both._runtime._ids = None
        second = both.start(made.of(3), name="second")
        assert second.wait(30)
    assert [last(each, "listed") for each in (first, second)] == [[[1, 2]], [[1, 2, 3]]]


def test_two_runs_of_one_pipeline_do_not_mix(both: Engine) -> None:
    made = both.pipeline("p", steps(many).expand(steps(one).chain(more)).collapse(listed))
    with both.working(threads=2):
        runs = [both.start(made.of(n), name=f"run {n}") for n in range(1, 5)]
        assert all(each.wait(30) for each in runs)
    assert [last(each, "listed") for each in runs] == [[list(range(1, n + 1))] for n in range(1, 5)]


def wait_for(fact: Callable[[], bool], limit: float = 20.0) -> None:
    """Poll a fact until it is true."""
    pause = threading.Event()
    for _ in range(round(limit / 0.01)):
        if fact():
            return
        pause.wait(0.01)
    raise AssertionError("in vain")
