"""`ramify errors`: what failed in a run or in all of them, in groups."""

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
@click.option(
    "-v", "--frames", "traceback", is_flag=True, help="Show the full traceback of the first failure of each group."
)
@on_store
def errors(visit: Visit, run: str | None, traceback: bool) -> None:
    """Group the failures of RUN, or of all runs and queues, with the largest group first.

    A group has one kind of task and one type of error, with texts that differ only in numbers, ids, quoted text and
    paths. Of very many failures only the newest are read: the first line then says so, and `complete` is false in JSON.
    """
    found = None if run is None else visit.run(run)
    reviewed = review(visit.store.reads, None if found is None else found.id)
    if visit.out.as_json:
        about = {
            "run": None if found is None else found.id,
            "complete": reviewed.complete,
            "failures": reviewed.failures,
        }
        for each in reviewed.groups:
            visit.out.json({**about, **_json(each)})
        if reviewed.others:
            visit.out.json({**about, **_json(Reviewed(ErrorGroup("", "", "", reviewed.others, ()))), **_NAMELESS})
        return
    if not reviewed.groups:
        visit.out.say("nothing failed" + ("" if found is None else f" in {title(found)}"))
        return
    if not reviewed.complete:
        visit.out.say(("look", newest_in_words(reviewed.looked_at, reviewed.failures)))
    for each in reviewed.groups:
        _show(visit, each, traceback, tells_run=found is None)
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


def _show(visit: Visit, each: Reviewed, traceback: bool, *, tells_run: bool) -> None:
    group = each.group
    visit.out.say(*_head(group))
    if group.example != group.text:
        visit.out.say("    such as ", group.example)
    where = f" in {each.run}" if tells_run and each.run else ""
    first, last = moment(group.first), moment(group.last)
    when = first if first == last else f"{first} to {last}"
    examples = ", ".join(map(str, group.examples)) + (", …" if group.count > len(group.examples) else "")
    visit.out.say(f"    {when}   tasks ", examples, *([f"   first {each.call}{where}"] if each.call else []))
    if traceback:
        visit.out.block(each.traceback, "      ")


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
        "call_run": each.run,
        "frames": each.frames,
        "traceback": each.traceback,
    }
