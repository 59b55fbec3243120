"""`ramify errors`: what failed in a run, in groups."""

from __future__ import annotations

import click

from ramify.cli.visit import Visit, on_store
from ramify.inspect.find import title
from ramify.inspect.review import Reviewed, review
from ramify.inspect.words import plural


@click.command()
@click.argument("run", required=False)
@click.option("--frames", is_flag=True, help="Also where the first of each group was raised.")
@on_store
def errors(visit: Visit, run: str | None, frames: bool) -> None:
    """What failed in a run: tasks that failed alike are one group, the largest first.

    Without RUN: the run that is open, or the newest one if none is.
    """
    found = visit.run(run)
    reviewed = review(visit.store.reads, found.id)
    if visit.out.as_json:
        for group in reviewed.groups:
            visit.out.json({"run": found.id, **_json(group)})
        return
    if not reviewed.groups:
        visit.out.say(f"nothing failed in {title(found)}")
        return
    for group in reviewed.groups:
        _show(visit, group, frames)
    many = f"{plural(reviewed.failures, 'task')} in {plural(len(reviewed.groups), 'group')}"
    visit.out.say(("dim", many if reviewed.complete else f"the newest {many}; there are more"))


def _show(visit: Visit, group: Reviewed, frames: bool) -> None:
    error = f"{group.type}: {group.text}" if group.text else group.type
    visit.out.say(("bad", f"{group.count:,} x"), " ", ("name", group.kind), "  ", error)
    examples = ", ".join(map(str, group.examples)) + (", …" if group.count > len(group.examples) else "")
    visit.out.say("    tasks ", examples, *([f"   first {group.call}"] if group.call else []))
    if frames:
        for frame in group.frames:
            visit.out.say("      at ", frame)


def _json(group: Reviewed) -> dict[str, object]:
    return {
        "kind": group.kind,
        "type": group.type,
        "text": group.text,
        "count": group.count,
        "examples": group.examples,
        "call": group.call,
        "frames": group.frames,
    }
