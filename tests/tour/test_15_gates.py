"""15. Gates.

A gate is a decision that comes from outside: from a person or from another program. The run waits for it, for a second
or for months, and nothing needs to be running meanwhile. `run.answer("approval", ...)` answers in a program, `ramify
answer` on the command line. The next step gets the value and the answer.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from ramify import BadPayload, Engine, GateClosed, RunState, steps
from ramify.testing import using

engine = Engine("orders.db")


@dataclass(frozen=True)
class Decision:
    approved: bool
    note: str = ""


@engine.task
def receive(order: str) -> str:
    return order


@engine.task
def decide(order: str, decision: Decision) -> str:
    return f"{order}: {'shipped' if decision.approved else 'refused'}"


order = engine.pipeline("order", steps(receive).gate("approval", Decision).chain(decide))


def test_a_run_waits_for_an_answer() -> None:
    """`by` and `reason` are stored with the answer."""
    with using(engine) as bench:
        run = engine.start(order.of("o-17"))
        bench.drain()
        assert (run.state, bench.gates(run)) == (RunState.OPEN, ["approval"])
        run.answer("approval", Decision(True), by="ann", reason="known customer")
        bench.drain()
        assert run["decide"].result == "o-17: shipped"


def test_the_first_answer_counts() -> None:
    """A second answer is refused, and the error names who answered."""
    with using(engine) as bench:
        run = engine.start(order.of("o-17"))
        bench.drain()
        run.answer("approval", Decision(True), by="ann", reason="known customer")
        with pytest.raises(GateClosed, match="has ended: answered by ann: known customer"):
            run.answer("approval", Decision(False), by="bob")


def test_an_answer_of_the_wrong_type_is_refused() -> None:
    """The gate asks for a `Decision`. Anything else is refused, and the gate stays open."""
    with using(engine) as bench:
        run = engine.start(order.of("o-17"))
        bench.drain()
        with pytest.raises(BadPayload, match="does not take 'yes': it must be object"):
            run.answer("approval", "yes")
        assert bench.gates(run) == ["approval"]


def test_pausing_a_run_keeps_its_gates_open() -> None:
    """A pause stops new work. It answers no gate."""
    with using(engine) as bench:
        run = engine.start(order.of("o-17"))
        bench.drain()
        run.pause("stocktaking")
        run.resume()
        bench.drain()
        assert bench.gates(run) == ["approval"]


def test_a_gate_can_have_a_time_out() -> None:
    """`otherwise` is the answer once the time-out has passed."""
    in_time = steps(receive).gate("approval", Decision, timeout=timedelta(days=3), otherwise=Decision(False))
    with using(engine) as bench:
        run = engine.start(engine.pipeline("in time", in_time.chain(decide)).of("o-17"))
        bench.drain()
        bench.advance(timedelta(days=3))
        bench.drain()
        assert run["decide"].result == "o-17: refused"


def test_a_time_out_without_an_answer_halts_the_run() -> None:
    """Without `otherwise` the run halts. A retry opens the gate again, for another three days."""
    in_time = steps(receive).gate("approval", Decision, timeout=timedelta(days=3))
    with using(engine) as bench:
        run = engine.start(engine.pipeline("in time", in_time.chain(decide)).of("o-17"))
        bench.drain()
        bench.advance(timedelta(days=3))
        bench.drain(raising=False)
        assert run.state is RunState.HALTED
        run.retry(reason="ann is back")
        bench.drain()
        assert bench.gates(run) == ["approval"]  # for another three days
        run.answer("approval", Decision(True))
        bench.drain()
        assert run["decide"].result == "o-17: shipped"


PROGRAM = """
from ramify import Engine, steps

engine = Engine("orders.db")

@engine.task
def receive(order: str) -> str:
    return order

@engine.task
def decide(order: str, approved: bool) -> str:
    return f"{order}: {'shipped' if approved else 'refused'}"

order = engine.pipeline("order", steps(receive).gate("approval", bool).chain(decide))

if __name__ == "__main__":
    run = engine.run(order.of("o-17"), name="o-17")
    print(run["decide"].result)
"""


def test_the_program_may_end_while_a_gate_waits() -> None:
    """The program is killed at the gate. Somebody answers on the command line. The program, started again, continues
    with the answer.
    """
    Path("program.py").write_text(PROGRAM)
    waiting = subprocess.Popen([sys.executable, "program.py"])
    try:
        assert any("approval" in ramify("gates") for _ in range(200))  # beside it, in another terminal
    finally:
        waiting.kill()
        waiting.wait()
    assert "approval of o-17 is answered" in ramify("answer", "o-17", "approval", "true", "--by", "ann")
    again = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=60)
    assert again.stdout == "o-17: shipped\n"
    assert "decided by ann" in ramify("events", "o-17")


def ramify(*command: str) -> str:
    """Return the output of a command."""
    typed = [sys.executable, "-m", "ramify", "-s", "orders.db", *command]
    return subprocess.run(typed, capture_output=True, text=True, timeout=60, check=False).stdout
