"""`ramify why`: why is this task not running?"""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store
from ramify.inspect.show import call_text
from ramify.inspect.why import why as why_of
from ramify.inspect.words import stamp


@click.command()
@click.argument("run", metavar="RUN|TASK")
@click.argument("node", metavar="[NODE|TASK]", required=False)
@on_store
def why(visit: Visit, run: str, node: str | None) -> None:
    """Explain why a task is not running, and how to fix it: `why 42`, or `why RUN NODE`; a map stands for its items."""
    from ramify.engine.runs.keyed import standing_tasks

    task = visit.one("why", run, node, standing_tasks)
    row = visit.task(task)
    found = why_of(visit.store, task)
    if visit.out.as_json:
        visit.out.json(
            {
                "task": task,
                "run": row.run,
                "cause": found.cause.value,
                "text": found.text,
                "advice": found.advice,
                "until": stamp(found.until),
            }
        )
        return
    visit.out.say(("name", f"task {task}"), "  ", call_text(row.kind, row.body))
    visit.out.say("  ", found.text)
    if found.advice:
        visit.out.say("  ", ("dim", found.advice))
