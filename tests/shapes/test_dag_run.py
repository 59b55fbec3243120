"""DAGs as they run, on each store: what failed, what went on, what was passed where, and how the run ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramify import Backoff, Defer, Engine, Fatal, Run, RunState, Skip, Spawns, Stream, Tasks, current
from ramify.engine.runs import reopening
from ramify.testing import oracle, using
from tests.shapes.dags import (
    add,
    anything,
    end,
    listed,
    made,
    number,
    numbers,
    on_day,
    seen,
    states,
    summary,
    task_of,
    tasks,
    total,
)

#: What tasks do or find that no argument can carry, by name.
DOING: dict[str, Callable[[], object]] = {}
LOOKS: list[int] = []


class Crowd:
    """How many are in it at a time, and how many there were at most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


CROWD = Crowd()
here = Tasks()


@here.task
def receipt(order: str) -> tuple[str, str]:
    """An order, and the key under which its receipt is sent."""
    return order, current().idempotency_key


@here.task(retries=0, backoff=Backoff(first=0, jitter=False))
def flaky(until: int) -> int:
    if current().attempt < until:
        raise OSError(until)
    return until


@here.task(retries=0)
def arrived(name: str) -> str:
    LOOKS.append(1)
    if len(LOOKS) < 4:
        raise Defer(60)
    return name


@here.task
def never(n: int) -> int:
    raise Defer(60)


@here.task
def told(n: int) -> list[Any]:
    me = current()
    return [me.lane, dict(me.headers), me.key]


@here.task
def changed(n: int) -> int:
    raise Skip("nothing new")


@here.task
def yields(n: int) -> Spawns[int]:
    yield number.of(n)
    raise Skip("nothing new")


@here.task
async def awaits(n: int) -> int:
    raise Skip("nothing new")


@here.task
def fork(n: int) -> int | None:
    current().spawn(number.of(n), number.of(n + 1), then=joined.of())
    return None


@here.task
def joined(parts: Stream[int] = Stream()) -> int:
    return sum(parts)


@here.task
def doing(what: str, n: int) -> int:
    DOING[what]()
    return n


@here.task
def busy(n: int) -> int:
    with CROWD:
        threading.Event().wait(0.002)
    return n


@pytest.fixture(autouse=True)
def known(request: pytest.FixtureRequest) -> None:
    if "both" in request.fixturenames:
        request.getfixturevalue("both").include(here)


def test_results_are_passed_on_one_by_one_and_in_lists_and_dicts(both: Engine) -> None:
    dag = both.dag("x")
    one, two = dag.add(number.of(1)), dag.add(number.of(2))
    three = dag.add(add.of(one.out, right=two.out))
    dag.add(anything.of({"a": [one.out, {"b": three.out}], "c": "~r0"}))
    run = both.run(dag.of())
    assert run.state is RunState.DONE
    assert list(run.results(anything)) == [{"a": [1, {"b": 3}], "c": "~r0"}]
    assert oracle.check(both._runtime.store) == []


@pytest.mark.parametrize("many", [0, 1, 62, 63, 64, 65, 200])
def test_a_list_of_any_number_of_results_arrives_in_order(both: Engine, many: int) -> None:
    dag = both.dag("x")
    parts = [dag.add(number.of(n)) for n in range(many)]
    dag.add(seen.of([part.out for part in parts]))
    assert list(both.run(dag.of()).results(seen)) == [list(range(many))]


def test_a_failed_node_skips_all_behind_it_and_other_branches_go_on(both: Engine) -> None:
    dag = both.dag("x")
    bad, good = dag.add(number.of(-1), id="bad"), dag.add(number.of(1), id="good")
    behind = dag.add(add.of(bad.out), id="behind")
    dag.add(add.of(behind.out, good.out), id="far behind")
    beside = dag.add(add.of(good.out), id="beside")
    dag.add(add.of(beside.out), id="far beside")
    run = both.run(dag.of())
    assert run.state is RunState.FAILED
    assert states(run) == {
        "bad": "failed", "good": "done", "behind": "skipped", "far behind": "skipped",
        "beside": "done", "far beside": "done",
    }  # fmt: skip
    assert [error.failure.text for error in run.errors()] == ["-1 is negative"]


def test_a_node_is_tried_as_often_as_its_call_says(both: Engine) -> None:
    dag = both.dag("x")
    dag.add(add.of(dag.add(flaky.of(3).retries(2)).out, 1))
    run = both.run(dag.of())
    assert (list(run.results(add)), run.counts.retries) == ([4], 2)
    dag.add(flaky.of(9).retries(1), id="too often")
    run = both.run(dag.of())
    assert (states(run)["too often"], run.state) == ("failed", RunState.FAILED)


def test_all_that_a_call_can_carry_is_that_of_its_node(both: Engine) -> None:
    dag = both.dag("x")
    first = dag.add(number.of(1))
    dag.add(told.of(first.out).lane("here").headers(trace="t").priority(-1), id="the node")
    assert list(both.run(dag.of()).results(told)) == [["here", {"trace": "t"}, "the node"]]


def test_params_are_written_into_nodes_and_what_follows_the_end(both: Engine) -> None:
    dag = both.dag("x")
    day, depth = dag.param("day", date), dag.param("depth", int, 3)
    dag.add(on_day.of(day, depth), id="one")
    dag.add(anything.of([day, {"depth": depth}]))
    dag.on_end(on_day.of(day, n=9))
    run = both.run(dag.of(day=date(2026, 1, 5)))
    assert sorted(run.results(on_day)) == ["2026-01-05/3", "2026-01-05/9"]
    assert list(run.results(anything)) == [["2026-01-05", {"depth": 3}]]
    assert run.params == {"day": "2026-01-05", "depth": 3}
    run = both.run(dag.of(day=date(2026, 1, 6), depth=4))
    assert "2026-01-06/4" in list(run.results(on_day))


STRANGE = ["~", "~r0", "~b0", "a\udcffb", '"quoted" \\', "nul\0", "", "Zürich → 東京", "\ud800~"]


@pytest.mark.parametrize("value", STRANGE, ids=ascii)
def test_strange_texts_go_through_params_and_results_as_they_are(both: Engine, value: str) -> None:
    dag = both.dag("x")
    given = dag.param("given", str)
    first = dag.add(anything.of(given))
    dag.add(seen.of([given, first.out, {"~": first.out}]))
    run = both.run(dag.of(given=value))
    assert list(run.results(seen)) == [[value, value, {"~": value}]]
    assert run.params == {"given": value}


# what follows the end


@pytest.mark.parametrize(
    ("ends", "which"),
    [(["done"], ["always", "done"]), (["failed"], ["always", "failed"]), (["skipped", "done"], ["always", "done"])],
)
def test_what_follows_the_end_is_started_by_how_the_nodes_ended(
    both: Engine, ends: list[str], which: list[str]
) -> None:
    dag = both.dag("x")
    for how in ends:
        dag.add(end.of(how))
    dag.on_end(summary.of("always"))
    dag.on_end(summary.of("done"), when="done")
    dag.on_end(summary.of("failed"), when="failed")
    run = both.run(dag.of())
    done, failed, skipped = (ends.count(how) for how in ("done", "failed", "skipped"))
    told = f"{done} done, {failed} failed, {skipped} skipped, 0 cancelled"
    found = sorted(text.split(": ")[0] for text in run.results(summary, partial=True))
    assert found == which
    assert f"{which[0]}: {told}" in list(run.results(summary, partial=True))
    assert run.state is (RunState.FAILED if failed else RunState.DONE)


def test_a_map_that_failed_is_a_failure_to_what_follows_the_end(both: Engine) -> None:
    dag = both.dag("x")
    items: Any = dag.add(anything.of("no list"))
    dag.map(anything.of(items.each))
    dag.on_end(end.of("told of it"), when="failed")
    dag.on_end(end.of("told that all is well"), when="done")
    run = both.run(dag.of())
    assert list(run.results(end, partial=True)) == ["told of it"]


def test_what_follows_the_end_may_fail_the_run(both: Engine) -> None:
    dag = both.dag("x")
    dag.add(number.of(1))
    dag.on_end(number.of(-1))
    assert both.run(dag.of()).state is RunState.FAILED


def test_a_call_that_follows_the_end_is_a_new_task_after_a_revival_with_a_key_of_its_own(both: Engine) -> None:
    dag = both.dag("x")
    dag.add(number.of(1))
    dag.on_end(receipt.of("o-17"))
    run = both.run(dag.of(), name="x")
    run.retry("number")
    keys = list(both.run(dag.of(), name="x").results(receipt))
    assert len(keys) == len({key for _, key in keys}) == 2
    assert {order for order, _ in keys} == {"o-17"}, "what a user deduplicates by: it comes with the call"


# nodes that wait, skip and choose


def test_a_sensor_defers_itself_until_what_it_waits_for_is_there() -> None:
    engine = Engine("memory:", include=[tasks, here])
    LOOKS.clear()
    dag = engine.dag("x")
    dag.add(anything.of(dag.add(arrived.of("orders.csv")).out))
    with using(engine):
        run = engine.run(dag.of())
        assert list(run.results(anything)) == ["orders.csv"]
        assert run.counts.deferrals == 3


def test_a_node_that_skips_itself_skips_what_takes_its_result(both: Engine) -> None:
    dag = both.dag("x")
    first = dag.add(changed.of(1))
    dag.add(add.of(first.out))
    dag.add(number.of(7), after=[first], when="none-failed", id="after all")
    run = both.run(dag.of())
    assert run.state is RunState.DONE
    assert states(run) == {"changed": "skipped", "add": "skipped", "after all": "done"}


@pytest.mark.parametrize(
    ("chosen", "runs"),
    [("ship", ["ship"]), (["ship", "hold"], ["hold", "ship"]), ([], []), (["hold"], ["hold"])],
    ids=str,
)
def test_what_hangs_on_the_chosen_cases_runs_and_the_rest_is_skipped(
    both: Engine, chosen: Any, runs: list[str]
) -> None:
    dag = both.dag("x")
    pick = dag.add(anything.of(chosen), id="pick")
    for case in ("ship", "hold"):
        behind = dag.add(end.of(case), after=[pick.case(case)], id=case)
        dag.add(end.of(f"behind {case}"), after=[behind], id=f"behind {case}")
    dag.add(end.of("in any case"), after=[pick.case("ship"), pick.case("hold")], when="any-done", id="any")
    run = both.run(dag.of())
    assert run.state is RunState.DONE
    found = {id: how for id, how in states(run).items() if "=" not in id}
    expected = {"pick": "done", "any": "done" if runs else "skipped"}
    for case in ("ship", "hold"):
        expected |= dict.fromkeys((case, f"behind {case}"), "done" if case in runs else "skipped")
    assert found == expected


def test_a_case_that_is_not_chosen_is_no_failure_in_a_test() -> None:
    engine = Engine("memory:", include=[tasks])
    dag = engine.dag("x")
    pick = dag.add(anything.of("a"), id="pick")
    for case in "ab":
        dag.add(end.of(case), after=[pick.case(case)], id=case)
    with using(engine) as bench:
        run = engine.start(dag.of())
        bench.drain()
        assert (states(run)["a"], states(run)["b"]) == ("done", "skipped")


@pytest.mark.parametrize("chosen", ["shop", None, ["ship", "shop"], 7])
def test_a_case_that_is_none_is_a_failure(both: Engine, chosen: Any) -> None:
    dag = both.dag("x")
    pick = dag.add(anything.of(chosen), id="pick")
    dag.add(end.of("x"), after=[pick.case("ship")])
    pick.case("hold")
    run = both.run(dag.of())
    assert run.state is RunState.FAILED
    assert states(run)["end"] == "skipped"
    assert all("expected one of the cases ship, hold, got " in error.failure.text for error in run.errors())


def test_a_node_that_forks_gives_what_its_continuation_gives(both: Engine) -> None:
    dag = both.dag("x")
    dag.add(anything.of(dag.add(fork.of(3)).out))
    dag.add(listed.of(dag.map(fork.of(dag.add(numbers.of(3)).each)).out))
    run = both.run(dag.of())
    assert (list(run.results(anything)), list(run.results(listed))) == ([7], [[1, 3, 5]])


@pytest.mark.parametrize("sort", ["plain", "generator", "coroutine"])
def test_every_sort_of_task_can_skip_itself_whatever_retries_it_has(both: Engine, sort: str) -> None:
    dag = both.dag("x")
    dag.add({"plain": changed, "generator": yields, "coroutine": awaits}[sort].of(1).retries(5), id="node")
    run = both.run(dag.of())
    assert (run.state, states(run), run.counts.retries) == (RunState.DONE, {"node": "skipped"}, 0)
    assert made(run, "number") == 0, "what it had made by then does not exist"


# decisions and bounds


def test_a_run_is_paused_and_goes_on(both: Engine) -> None:
    dag = both.dag("x")
    DOING["pause"] = lambda: found(both).pause("wait")
    dag.add(add.of(dag.add(doing.of("pause", 1)).out))
    with both.working():
        run = both.start(dag.of(), name="x")
        wait_for(lambda: run.state is RunState.PAUSED and made(run, "doing") == 1)
        assert states(run)["add"] == "open"
        run.resume()
        assert run.wait(20)
    assert (run.state, list(run.results(add))) == (RunState.DONE, [1])


def test_a_cancelled_run_starts_nothing_more(both: Engine) -> None:
    dag = both.dag("x")
    DOING["cancel"] = lambda: found(both).cancel("enough")
    dag.add(add.of(dag.add(doing.of("cancel", 1)).out))
    dag.on_end(end.of("x"))
    run = both.run(dag.of(), name="x")
    assert run.state is RunState.CANCELLED
    assert states(run)["add"] == "cancelled"
    assert oracle.check(both._runtime.store) == []


def test_not_more_nodes_run_at_a_time_than_the_run_may(both: Engine) -> None:
    dag = both.dag("x")
    parts = [dag.add(busy.of(n)) for n in range(12)]
    dag.add(seen.of([part.out for part in parts]))
    CROWD.most = 0
    run = both.run(dag.of(), max_running=2, threads=8)
    assert list(run.results(seen)) == [list(range(12))]
    assert CROWD.most <= 2


def test_a_deadline_ends_the_run_with_what_is_open() -> None:
    engine = Engine("memory:", include=[tasks, here])

    dag = engine.dag("x")
    dag.add(add.of(dag.add(never.of(1)).out))
    with using(engine):
        run = engine.run(dag.of(), deadline=timedelta(minutes=5))
        assert run.state is RunState.FAILED
        assert set(states(run).values()) == {"cancelled"}


def test_a_task_that_is_cancelled_is_not_there_for_those_behind_it(both: Engine) -> None:
    dag = both.dag("x")
    first = dag.add(number.of(1), id="first")
    dag.add(add.of(first.out), id="behind")
    run = both.start(dag.of(), name="x")
    run.cancel(task=task_of(run, "first"))
    assert states(both.run(dag.of(), name="x")) == {"first": "cancelled", "behind": "skipped"}


# programs that change, die and share


def test_a_kind_that_is_gone_waits_and_goes_on_after_a_deploy(tmp_path: Path) -> None:
    def deploy(*, complete: bool) -> Engine:
        engine = Engine(tmp_path / "x.db", include=[tasks])
        if complete:

            @engine.task
            def later(n: int) -> int:
                return n + 1

        return engine

    before = deploy(complete=True)
    dag = before.dag("x")
    later = before._runtime.table()["later"]
    dag.add(add.of(dag.add(later.of(dag.add(number.of(1)).out)).out, 10))
    before.start(dag.of(), name="x")
    before.close()

    without = deploy(complete=False)
    run = found(without)
    with without.working():
        wait_for(lambda: made(run, "number") == 1)
    assert states(run) == {"number": "done", "later": "open", "add": "open"}
    assert run.state is RunState.OPEN
    without.close()

    after = deploy(complete=True)
    with after.working():
        run = found(after)
        assert run.wait(20)
    assert list(run.results("add")) == [12]
    after.close()


def test_what_failed_is_tried_again_with_all_that_follows_it(both: Engine) -> None:
    dag = both.dag("x")
    DOING["fail"] = refuse
    items = dag.add(anything.of([1, 2]), id="items")
    loads = dag.map(doing.of("fail", items.each), id="loads")
    dag.add(anything.of([dag.add(listed.of(loads.out), id="list").out]), id="behind")
    dag.on_end(summary.of("end"))
    run = both.run(dag.of(), name="x")
    assert (run.state, states(run)["behind"]) == (RunState.FAILED, "skipped")
    DOING["fail"] = lambda: None
    run.retry()
    run = both.run(dag.of(), name="x")
    assert (run.state, states(run)["behind"]) == (RunState.DONE, "done")
    assert [[1, 2]] in list(run.results(anything))
    # The run ended twice, and so did what follows its end.
    assert len(list(run.results(summary))) == 2
    assert oracle.check(both._runtime.store) == []


@pytest.mark.parametrize("limit", [2, 8192])
def test_what_a_map_made_no_longer_counts_when_it_is_made_anew(
    both: Engine, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopening, "REOPEN_LIMIT", limit)
    dag = both.dag("x")
    items = dag.add(anything.of([1, -2, 3]), id="items")
    dag.add(total.of(dag.map(number.of(items.each), id="map").out), id="sum")
    run = both.run(dag.of(), name="x")
    assert (run.state, states(run)["sum"]) == (RunState.FAILED, "skipped")
    run.resolve("items", result=[4, 5])
    run = both.run(dag.of(), name="x")
    assert (run.state, run["sum"].result, run.counts.failed) == (RunState.DONE, 9, 0)
    assert sorted(run.results(number)) == [4, 5]
    run.retry("map")
    run = both.run(dag.of(), name="x")
    assert (run.state, run["sum"].result, sorted(run.results(number))) == (RunState.DONE, 9, [4, 5])
    # Two items, what gathers them, and the four nodes; replaced are three and two items with what gathered them.
    counts = run.counts
    assert (counts.added, counts.done, counts.skipped, counts.replaced) == (7, 7, 0, 3 + 1 + 2 + 1)
    assert oracle.check(both._runtime.store) == []


def test_two_runs_of_one_dag_do_not_mix(both: Engine) -> None:
    dag = both.dag("x")
    n = dag.param("n", int)
    dag.add(add.of(dag.add(number.of(n)).out, 1))
    with both.working():
        runs = [both.start(dag.of(n=each), name=f"run {each}") for each in range(5)]
        assert all(run.wait(20) for run in runs)
    assert [list(run.results(add)) for run in runs] == [[n + 1] for n in range(5)]


PROGRAM = f"""
import os, pathlib, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from ramify import Engine, Stream

engine = Engine("dag.db")

@engine.task
def number(n: int) -> int:
    print("number", n, flush=True)
    return n

@engine.task
def numbers(many: int) -> list[int]:
    return list(range(many))

@engine.task
def add(left: int, right: int) -> int:
    if left == 3 and not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return left + right

@engine.task
def total(parts: Stream[int]) -> int:
    return sum(parts)

if __name__ == "__main__":
    name, processes = sys.argv[1] or None, int(sys.argv[2])
    dag = engine.dag("dag")
    first = dag.add(number.of(3))
    items = dag.add(numbers.of(first.out))
    double = dag.map(add.of(items.each, first.out))
    dag.add(add.of(dag.add(add.of(first.out, first.out), after=[double]).out, 1))
    dag.add(total.of(double.out))
    run = engine.run(dag.of(), name=name, processes=processes, threads=None if processes else 1)
    print(run.begun.value, run.state.value, sorted(run.results("add")), *run.results("total"))
"""


def program(folder: Path, name: str, processes: int = 0) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", name, str(processes)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", ["", "nightly"])
def test_a_killed_run_is_gone_on_with_by_the_same_line(tmp_path: Path, name: str) -> None:
    assert program(tmp_path, name).returncode == -signal.SIGKILL
    again = program(tmp_path, name)
    assert again.stdout.splitlines() == ["continued done [3, 4, 5, 6, 7] 12"], again.stderr


def test_a_dag_runs_in_worker_processes(tmp_path: Path) -> None:
    (tmp_path / "killed").touch()
    assert program(tmp_path, "nightly", processes=2).stdout.splitlines()[-1] == "new done [3, 4, 5, 6, 7] 12"


def refuse() -> None:
    raise Fatal("not now")


def found(engine: Engine) -> Run[Any]:
    """The run called x."""
    run = engine.find("x")
    assert run is not None
    return run


def wait_for(fact: Callable[[], bool], limit: float = 20.0) -> None:
    """Poll a fact until it is true."""
    pause = threading.Event()
    for _ in range(round(limit / 0.005)):
        if fact():
            return
        pause.wait(0.005)
    raise AssertionError(f"{fact} in vain")
