"""An order as a pipeline: `python examples/order_pipeline.py [ORDER] [ITEMS]`, such as `o-17 40`.

Receive it, wait until somebody approves it, pack each item, ship. One item cannot be packed at first, so the run is
halted; then it is revived, and goes on with that item alone. `ramify gates` and `ramify answer` are for whoever
approves, in another terminal; if nobody does within a second, this program does. Kill it at any moment and start it
again: it goes on where it was. Started after it has finished, it tells what came of it.
"""

import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ramify import Engine, GateClosed, Route, RunState, Stream, steps

engine = Engine(Path(tempfile.gettempdir()) / "ramify-order-pipeline.db")
TAPE = Path(tempfile.gettempdir()) / "ramify-order-pipeline-tape"


@dataclass(frozen=True)
class Decision:
    approved: bool
    note: str = ""


@engine.task
def receive(order: str, items: int) -> list[str]:
    return [f"{order}/{number}" for number in range(items)]


@engine.task
def decide(items: list[str], decision: Decision) -> Route[list[str]]:
    return Route("ship" if decision.approved else "refuse", items)


@engine.task
def pick(items: list[str]) -> list[str]:
    return items


@engine.task(retries=0)
def pack(item: str) -> str:
    if item.endswith("/0") and not TAPE.exists():
        raise RuntimeError("there is no tape left")
    return item


@engine.task
def ship(packed: Stream[str]) -> str:
    return f"{len(packed)} items shipped"


@engine.task
def refuse(items: list[str]) -> str:
    return f"{len(items)} items refused"


order = engine.pipeline(
    "order",
    steps(receive)
    .gate("approval", Decision, timeout=timedelta(days=3), otherwise=Decision(False))
    .chain(decide)
    .divert({"ship": steps(pick).expand(pack).collapse(ship)}, otherwise=refuse),
)


def main() -> None:
    name, items = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else ("o-17", 40)
    run = engine.start(order.of(name, items), name=f"order {name}")
    with engine.working():
        while run["approval"].state != "done" and not run.wait(1):
            with suppress(GateClosed):  # it is not open yet, or somebody was quicker
                run.answer("approval", Decision(True), by="the example", reason="nobody else did")
        run.wait()
        if run.state is RunState.HALTED:
            print(f"halted: {next(run.errors()).failure.text}")
            TAPE.touch()
            run.retry(reason="there is tape again")
            run.wait()
    print(*run.results(ship), *run.results(refuse), sep="\n")
    print(f"{run.counts.done} tasks; {run.begun.value if run.begun else ''} run")


if __name__ == "__main__":
    main()
