"""`run.answer`: the first answer to a gate stands, and nothing else answers it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from ramify import BadPayload, ConfigError, GateClosed, Run, RunState, Steps, current, steps
from ramify.errors import UnknownTask
from ramify.inspect.gates import every_gate
from ramify.inspect.history import history_of
from ramify.model.claim import Claim
from ramify.model.gate import GATE
from ramify.store.here import person
from ramify.testing import Workbench, using
from ramify.testing.conformance.house import Worker
from tests.engine import ordering
from tests.engine.ordering import DAYS, Decision


@pytest.fixture(params=["memory:", "orders.db"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workbench]:
    """An engine with the tasks of `ordering` on each store, and time that stands still."""
    engine = ordering.engine_on("unused.db")
    place = request.param if request.param == "memory:" else tmp_path / request.param
    with using(engine, place) as prepared:
        yield prepared


def began(bench: Workbench, what: Steps[[str], Any, Any], *, name: str = "o-17") -> Run[Any]:
    """A run of a pipeline that has come as far as it comes by itself."""
    run = bench.engine.start(bench.engine.pipeline("order", what).of("o-17"), name=name)
    bench.drain()
    return run


def told(bench: Workbench, run: Run[Any], gate: str) -> list[str]:
    return [event.text for event in history_of(bench.engine._runtime.store.reads, run[gate].task).events]


def gates(bench: Workbench) -> list[str]:
    return [each.gate for each in every_gate(bench.engine._runtime.store.reads)]


def test_a_gate_waits_for_its_answer_and_the_next_step_gets_value_and_answer(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    assert (gates(bench), run.state) == (["approval"], RunState.OPEN)
    run.answer("approval", Decision(True, "!"))
    assert gates(bench) == []
    bench.drain()
    assert (run.state, run["decide"].result, run["approval"].result) == (
        RunState.DONE,
        "o-17: yes!",
        {"approved": True, "note": "!"},
    )


def test_what_resolves_a_gate_is_checked_like_an_answer(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    for wrong in ("yes", None, {}, object()):
        with pytest.raises(BadPayload, match="'approval'"):
            run.resolve("approval", result=wrong)
    assert gates(bench) == ["approval"]
    run.resolve("approval", result=Decision(True, "!"), by="ann")
    bench.drain()
    assert (run.state, run["decide"].result) == (RunState.DONE, "o-17: yes!")
    run.resolve("approval", result={"approved": False})
    bench.drain()
    assert run["decide"].result == "o-17: no", "also one that had ended"


def test_an_answer_may_be_a_plain_value_of_the_same_form(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    run.answer("approval", {"approved": False})
    bench.drain()
    assert run["decide"].result == "o-17: no"


def test_a_gate_waits_for_months_when_it_has_no_time_out(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    bench.advance(timedelta(days=400))
    assert (bench.drain(), gates(bench)) == (0, ["approval"])
    run.answer("approval", Decision(True))
    bench.drain()
    assert run.state is RunState.DONE


def test_who_answered_what_and_when_is_an_event(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    bench.advance(3600)
    run.answer("approval", Decision(True), by="ann", reason="known customer")
    events = history_of(bench.engine._runtime.store.reads, run["approval"].task).events
    assert [event.text for event in events] == [
        "decided by ann: known customer",
        'counts as done: {"approved": true, "note": ""}',
    ]
    assert {event.at for event in events} == {bench.clock.now()}


def test_the_second_answer_is_refused_with_who_was_first(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    run.answer("approval", Decision(True), by="ann", reason="fine")
    with pytest.raises(GateClosed, match=r"the gate 'approval' of run \d+ has ended: answered by ann: fine"):
        run.answer("approval", Decision(False), by="bob")
    bench.drain()
    with pytest.raises(GateClosed, match="answered by ann"):
        run.answer("approval", Decision(True), by="bob")
    assert run["decide"].result == "o-17: yes"
    assert not any("bob" in text for text in told(bench, run, "approval"))


def test_of_many_who_answer_at_once_one_is_first(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    ready = threading.Barrier(8)

    def answer(number: int) -> int | None:
        ready.wait()
        try:
            run.answer("approval", Decision(True, f"{number}"), by=f"person {number}")
        except GateClosed:
            return None
        return number

    with ThreadPoolExecutor(8) as people:
        first = [number for number in people.map(answer, range(8)) if number is not None]
    assert len(first) == 1
    bench.drain()
    assert run["decide"].result == f"o-17: yes{first[0]}"
    assert told(bench, run, "approval")[0] == f"decided by person {first[0]}"


_ANSWER = """
import sys
from ramify import GateClosed
from tests.engine import ordering

engine = ordering.engine_on(sys.argv[1])
run = engine.find("o-17")
print("ready", flush=True)
sys.stdin.readline()
try:
    run.answer("approval", ordering.Decision(True, sys.argv[2]), by=sys.argv[2])
    print("first")
except GateClosed as late:
    print(late)
"""


def test_of_two_processes_that_answer_at_once_one_is_first(tmp_path: Path) -> None:
    engine = ordering.engine_on(str(tmp_path / "orders.db"))
    with using(engine, tmp_path / "orders.db") as bench:
        run = began(bench, ordering.approval)
        command = [sys.executable, "-c", _ANSWER, str(tmp_path / "orders.db")]
        people = {
            name: subprocess.Popen(
                [*command, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[3],
            )
            for name in ("ann", "bob")
        }
        for person in people.values():
            assert person.stdout is not None
            assert person.stdout.readline() == "ready\n"
        for person in people.values():
            assert person.stdin is not None
            person.stdin.write("\n")
            person.stdin.flush()
        said = {name: person.communicate(timeout=60)[0].strip() for name, person in people.items()}
        (first,) = [name for name, text in said.items() if text == "first"]
        (second,) = {"ann", "bob"} - {first}
        assert f"answered by {first}" in said[second]
        bench.drain()
        assert run["decide"].result == f"o-17: yes{first}"


def test_a_gate_takes_no_answer_before_it_is_open(bench: Workbench) -> None:
    run = bench.engine.start(bench.engine.pipeline("order", ordering.approval).of("o-17"))
    with pytest.raises(GateClosed, match=r"'approval' of run \d+ is not open yet\. No gate is open"):
        run.answer("approval", Decision(True))
    bench.drain()
    assert gates(bench) == ["approval"]


def test_a_gate_of_a_way_that_was_not_taken_takes_no_answer(bench: Workbench) -> None:
    way = steps(ordering.receive).gate("price", float).chain(ordering.receive_priced)
    run = began(bench, steps(ordering.receive).divert({"dear": way}, otherwise=ordering.receive))
    with pytest.raises(GateClosed, match=r"'price' of run \d+ has ended: skipped"):
        run.answer("price", 3)


def test_pausing_and_resuming_never_answers(bench: Workbench) -> None:
    run = began(bench, ordering.by_default)
    run.pause("a holiday")
    bench.advance(DAYS + DAYS)
    assert (bench.drain(), run["approval"].state) == (0, "waiting")
    run.resume()
    assert run["approval"].state != "done"


def test_a_gate_of_a_paused_run_is_answered_and_goes_on_with_it(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    run.pause("a holiday")
    assert gates(bench) == ["approval"]
    run.answer("approval", Decision(True))
    assert (bench.drain(), run["decide"].state) == (0, "waiting")
    run.resume()
    bench.drain()
    assert run["decide"].result == "o-17: yes"


def test_a_gate_of_a_cancelled_run_takes_no_answer(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    run.cancel("not wanted")
    bench.drain()
    assert run.state is RunState.CANCELLED
    with pytest.raises(GateClosed, match="has ended: cancelled"):
        run.answer("approval", Decision(True))
    assert gates(bench) == []


def test_an_unknown_gate_is_answered_with_the_nearest_name(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    with pytest.raises(UnknownTask, match="Did you mean 'approval'"):
        run.answer("aproval", Decision(True))


def test_a_step_is_no_gate(bench: Workbench) -> None:
    run = began(bench, ordering.approval)
    with pytest.raises(
        ConfigError, match=r"'decide' of run \d+ is not a gate and takes no answer\. Open gates: approval"
    ):
        run.answer("decide", Decision(True))


def test_gates_of_branches_are_answered_one_by_one(bench: Workbench) -> None:
    run = began(bench, ordering.per_line)
    assert sorted(gates(bench)) == [f"weigh[{line}].dock" for line in range(3)]
    for line, dock in ((1, "east"), (2, "west"), (0, "north")):
        run.answer(f"weigh[{line}].dock", dock)
    with pytest.raises(GateClosed, match=r"weigh\[1\]\.dock"):
        run.answer("weigh[1].dock", "south")
    bench.drain()
    assert run["ship"].result == ["0 at north", "1 at east", "2 at west"]


def test_a_gate_is_answered_although_a_task_of_another_kind_has_its_name_as_key(bench: Workbench) -> None:
    run = began(bench, steps(ordering.noted).gate("approval", Decision).chain(ordering.decide))
    run.answer("approval", Decision(True, "!"))
    bench.drain()
    assert run["decide"].result == "o-17: yes!"


def test_of_gates_that_were_made_twice_the_open_one_is_answered(bench: Workbench) -> None:
    run = began(bench, ordering.per_line)
    for dock in ("east", "west"):
        for line in range(3):
            run.answer(f"weigh[{line}].dock", dock)
        bench.drain()
        assert (gates(bench), run.state) == ([], RunState.DONE)
        if dock == "east":
            run.retry("lines")
            bench.drain()
    # Nobody but who names it by its id opens one again that was made before.
    run.retry(min(run._runtime.store.reads.find_tasks(run.id, GATE, b"weigh[0].dock")))
    bench.drain()
    run.answer("weigh[0].dock", "north")
    bench.drain()
    assert gates(bench) == []


# its time is up


def test_a_gate_whose_time_is_up_takes_what_was_said_for_that(bench: Workbench) -> None:
    run = began(bench, ordering.by_default)
    bench.advance(DAYS - timedelta(seconds=1))
    assert (bench.drain(), gates(bench)) == (0, ["approval"])
    bench.advance(1)
    bench.drain()
    assert (run.state, run["decide"].result) == (RunState.DONE, "o-17: no")
    with pytest.raises(GateClosed, match="has ended: its time was up"):
        run.answer("approval", Decision(True))


def test_a_gate_whose_time_is_up_halts_the_run_and_opens_again_when_it_is_retried(bench: Workbench) -> None:
    run = began(bench, ordering.in_time)
    bench.advance(DAYS)
    bench.drain(raising=False)
    assert (run.state, run["approval"].state, run["decide"].state) == (RunState.HALTED, "failed", "skipped")
    assert "nobody answered within 259,200 seconds" in str(run["approval"].error)
    with pytest.raises(GateClosed, match="has ended: failed"):
        run.answer("approval", Decision(True))
    bench.advance(DAYS)
    run.retry("approval", reason="ann is back")
    bench.drain()
    (gate,) = every_gate(bench.engine._runtime.store.reads, run.id)
    assert gate.until == bench.clock.now() + DAYS / timedelta(microseconds=1)
    bench.advance(DAYS - timedelta(seconds=1))
    bench.drain()
    run.answer("approval", Decision(True), by="ann")
    bench.drain()
    assert (run.state, run["decide"].result) == (RunState.DONE, "o-17: yes")
    assert told(bench, run, "approval")[1:3] == [
        f"opened again by {person()}: ann is back",
        "decided by ann",
    ]


def test_a_retry_of_the_whole_run_opens_the_gate_again_too(bench: Workbench) -> None:
    run = began(bench, ordering.in_time)
    bench.advance(DAYS)
    bench.drain(raising=False)
    assert run.retry().tasks == 3, "the gate, what was skipped because of it, and the end"
    bench.drain()
    assert gates(bench) == ["approval"]


def test_an_answered_gate_that_is_retried_asks_again(bench: Workbench) -> None:
    run = began(bench, ordering.by_default)
    run.answer("approval", Decision(True, "?"))
    bench.drain()
    run.retry("approval")
    bench.drain()
    assert (gates(bench), run["decide"].state) == (["approval"], "waiting")
    run.answer("approval", Decision(True, "!"))
    bench.drain()
    assert run["decide"].result == "o-17: yes!"


def answered_while_held(bench: Workbench, run: Run[Any], then: Callable[[Worker, Claim], object]) -> str:
    """Answer a gate whose time is up and which a worker has just taken; what became of that when the worker went on."""
    store = bench.engine._runtime.store
    bench.advance(DAYS)
    worker = Worker(store)
    claim = worker.take(kinds=[GATE])

    said: list[str] = []

    def answer() -> None:
        try:
            run.answer("approval", Decision(True), by="ann")
            said.append("it stands")
        except GateClosed as closed:
            said.append(str(closed))

    ann = threading.Thread(target=answer, daemon=True)
    ann.start()
    end = monotonic() + 30
    while not told(bench, run, "approval"):
        assert monotonic() < end, "the answer was never heard of"
    then(worker, claim)
    store.leave(worker.process)
    store.wake()
    ann.join(15)
    assert said, "she waits for ever"
    return said[0]


def test_a_time_out_that_comes_first_stands_and_whoever_answered_hears_of_it(bench: Workbench) -> None:
    run = began(bench, ordering.by_default)
    late = answered_while_held(bench, run, lambda worker, claim: worker.done(claim, values=[b'{"approved":false}']))
    assert late.endswith("has ended: its time was up")
    bench.drain()
    assert run["decide"].result == "o-17: no"


def test_an_answer_stands_if_whoever_held_the_gate_is_gone(bench: Workbench) -> None:
    run = began(bench, ordering.by_default)
    assert answered_while_held(bench, run, lambda worker, claim: None) == "it stands"
    bench.drain()
    assert run["decide"].result == "o-17: yes"


def test_an_answer_inside_a_task_does_not_wait_for_the_thread_that_runs_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = began(bench, ordering.by_default)
    bench.advance(DAYS)
    worker = Worker(bench.engine._runtime.store)
    claim = worker.take(kinds=[GATE])

    def answer() -> None:
        with monkeypatch.context() as patch:
            # As if its own process had taken both, which depends on how much that claims at once.
            patch.setattr(current()._attempt_env.sender, "process", worker.process)
            with pytest.raises(GateClosed, match="is free when the task has ended"):
                run.answer("approval", Decision(True))

    monkeypatch.setattr(ordering, "meddling", [answer])
    bench.engine.start(ordering.meddle.of())
    bench.drain()
    assert told(bench, run, "approval") == [], "what was refused has changed nothing"
    worker.done(claim, values=[b'{"approved":false}'])
    bench.drain()
    assert run["decide"].result == "o-17: no"


def test_a_time_out_that_nobody_was_there_to_see_leaves_the_gate_open(bench: Workbench) -> None:
    run = began(bench, ordering.by_default)
    bench.advance(DAYS + DAYS)
    run.answer("approval", Decision(True))
    bench.drain()
    assert run["decide"].result == "o-17: yes"


# what does not fit


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("yes", "it must be object"),
        (True, "it must be object"),
        (None, "it must be object"),
        ({}, "it lacks 'approved'"),
        ({"approved": "yes"}, "it.approved must be boolean"),
        ({"approved": 1}, "it.approved must be boolean"),
        ({"approved": True, "reason": "x"}, "it has no 'reason'; it has approved, note"),
        (object(), "cannot be stored"),
        ({"approved": True, "note": "x" * 2_100_000}, "must have at most 1,048,576"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_gate_stays_open(
    bench: Workbench, value: object, what: str
) -> None:
    run = began(bench, ordering.approval)
    with pytest.raises(BadPayload, match=what):
        run.answer("approval", value)
    assert (gates(bench), told(bench, run, "approval")) == (["approval"], [])


@pytest.mark.parametrize("text", ["a\x00b", "\udcff", "\u202e", "é" * 1000], ids=["NUL", "surrogate", "bidi", "long"])
def test_a_text_in_an_answer_arrives_as_it_was(bench: Workbench, text: str) -> None:
    run = began(bench, ordering.approval)
    run.answer("approval", Decision(True, text), by=text, reason=text)
    bench.drain()
    assert run["decide"].result == f"o-17: yes{text}"


def test_a_number_that_json_cannot_hold_is_refused(bench: Workbench) -> None:
    price = steps(ordering.receive).gate("price", float).chain(ordering.receive_priced)
    run = began(bench, price)
    for number in (float("nan"), float("inf"), 2**70):
        with pytest.raises(BadPayload, match=r"an answer to 'price' cannot be stored: `it` is "):
            run.answer("price", number)
    run.answer("price", 3)
    bench.drain()
    assert run["receive_priced"].result == "o-17 for 3.0"
