"""`ramify errors`: what failed in a run, in groups."""

from __future__ import annotations

import click

from ramify.cli.out import Out
from ramify.cli.visit import Visit, on_store
from ramify.inspect.find import title
from ramify.inspect.review import Reviewed, newest_in_words, review
from ramify.inspect.text import Piece
from ramify.inspect.words import moment, plural, stamp
from ramify.store.error_groups import ErrorGroup, ErrorSummary


@click.command()
@click.argument("run", required=False)
@click.option("--frames", is_flag=True, help="Also where the first of each group was raised.")
@on_store
def errors(visit: Visit, run: str | None, frames: bool) -> None:
    """What failed in a run: tasks that failed alike are one group, the largest first.

    Alike are errors of one kind of task and one type whose texts differ only in numbers, ids, quoted text and paths.
    Only the newest of very many failures are read; the first line then says so, and `complete` is false in JSON.
    Without RUN: the run that is open, or the newest one if none is.
    """
    found = visit.run(run)
    reviewed = review(visit.store.reads, found.id)
    if visit.out.as_json:
        about = {"run": found.id, "complete": reviewed.complete, "failures": reviewed.failures}
        for each in reviewed.groups:
            visit.out.json({**about, **_json(each)})
        if reviewed.others:
            visit.out.json({**about, **_json(Reviewed(ErrorGroup("", "", "", reviewed.others, ()))), **_NAMELESS})
        return
    if not reviewed.groups:
        visit.out.say(f"nothing failed in {title(found)}")
        return
    if not reviewed.complete:
        visit.out.say(("look", newest_in_words(reviewed.looked_at, reviewed.failures)))
    for each in reviewed.groups:
        _show(visit, each, frames)
    if reviewed.others:
        visit.out.say(("bad", f"{reviewed.others:,} x"), " others, in more groups than are told apart")
    many = f"{plural(reviewed.looked_at, 'task')} in {plural(len(reviewed.groups), 'group')}"
    visit.out.say(("dim", many))


def show_briefly(out: Out, found: ErrorSummary, failures: int, limit: int) -> None:
    """A line for each of the largest groups of a run with so many failures, at most `limit`."""
    if not found.complete:
        out.say(("look", newest_in_words(found.looked_at, failures)))
    for group in found.groups[:limit]:
        out.say(*_head(group))


#: What a line for programs says of failures that are in no group.
_NAMELESS = {"kind": None, "type": None, "text": None, "example": None, "first": None, "last": None}


def _show(visit: Visit, each: Reviewed, frames: bool) -> None:
    group = each.group
    visit.out.say(*_head(group))
    if group.example != group.text:
        visit.out.say("    such as ", group.example)
    first, last = moment(group.first), moment(group.last)
    when = first if first == last else f"{first} to {last}"
    examples = ", ".join(map(str, group.examples)) + (", …" if group.count > len(group.examples) else "")
    visit.out.say(f"    {when}   tasks ", examples, *([f"   first {each.call}"] if each.call else []))
    if frames:
        for frame in each.frames:
            visit.out.say("      at ", frame)


def _head(group: ErrorGroup) -> list[Piece]:
    return [("bad", f"{group.count:,} x"), " ", ("name", group.kind), "  ", group.error]


def _json(each: Reviewed) -> dict[str, object]:
    group = each.group
    return {
        "kind": group.kind,
        "type": group.type,
        "text": group.text,
        "count": group.count,
        "example": group.example,
        "first": stamp(group.first),
        "last": stamp(group.last),
        "examples": group.examples,
        "call": each.call,
        "frames": each.frames,
    }
