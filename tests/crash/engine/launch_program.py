"""A program whose run starts others, waits for them and looks for things, to be killed at a crash point.

    python -m tests.crash.engine.launch_program

It is told what to do as `program.py` is. Options: `point` and `at` (kill itself there, the n-th time).
"""

from __future__ import annotations

import os
from pathlib import Path

from ramify import Engine, Fatal, RunState, steps
from tests.crash.engine.programs import arm, options_of, serve

NAME = "upstream"

engine = Engine("store.db")


@engine.task(max_crashes=None)
def rows(many: int) -> int:
    """What is passed on."""
    return many


@engine.task(max_crashes=None)
def shown(many: int) -> str:
    """What is made of it."""
    return f"{many} rows"


@engine.task(max_crashes=None)
def said(text: str) -> str:
    """The same."""
    return text


report = engine.dag("report")
report.add(shown.of(report.param("many", int)))
etl = engine.dag("etl")
etl.trigger(report.of(many=etl.add(rows.of(7)).out))
etl.trigger(shown.of(8))


@engine.task(max_crashes=None)
def third_look(file: str) -> bool:
    """True when it is looked for the third time, by whatever process."""
    with Path(file).open("a+", encoding="utf-8") as lines:
        lines.write("looked\n")
        lines.seek(0)
        return len(lines.readlines()) >= 3


waits = engine.dag("waits")
found = waits.add(third_look.of(waits.param("file", str)).poll(0.01, timeout=50))
waits.add(shown.of(waits.wait("other").out), id="shown", after=[found])

made = {dataset: engine.dag(dataset) for dataset in ("orders", "customers")}
for dataset, dag in made.items():
    dag.add(rows.of(7)).produces(dataset)
joint = engine.dag("joint")
joint.add(shown.of(joint.param("orders", int)))
joint.param("customers", int)
joint.start_on("orders", "customers")


@engine.task(max_crashes=None, retries=0)
def second_time(many: int) -> str:
    """Fails until its run is revived."""
    if not Path("revived").exists():
        raise Fatal("not yet")
    return f"{many} rows"


inner = engine.pipeline("inner", steps(rows).chain(second_time))
outer = engine.pipeline("outer", steps(rows).run(inner).chain(said))


def main(work: str, file: str, witness: str, seed: int, *given: str) -> None:
    """Do the work."""
    engine._runtime.url = file
    arm(options_of(given))
    match work:
        case "trigger":
            engine.run(etl.of(), name=NAME, threads=1)
        case "dataset":
            for name in ("orders", "customers", "orders again"):
                engine.run(made[name.split()[0]].of(), name=name, threads=1)
        case "child":
            os.chdir(Path(file).parent)
            if engine.run(outer.of(7), name=NAME, threads=1).state is RunState.HALTED:
                Path("revived").touch()
                run = engine.find(NAME)
                assert run is not None
                run.retry(reason="it is time")
                engine.run(outer.of(7), name=NAME, threads=1)
        case "wait":
            run = engine.start(waits.of(file=witness), name=NAME)
            engine.start(rows.of(7), name="other")
            with engine.working(threads=1):
                assert run.wait(50)
    engine.close()


if __name__ == "__main__":
    serve("tests.crash.engine.launch_program")
