"""`ramify topics`: topics, their readers and how far behind these are; to replay for a reader, and to remove one."""

from __future__ import annotations

import click

from ramify.cli.out import Out
from ramify.cli.since import SINCE
from ramify.cli.visit import Visit, Wrong, entered, on_store_to_change, opened
from ramify.coordination.places import Since
from ramify.inspect.text import Piece
from ramify.inspect.topics import ReaderView, TopicView, readers_in, topics_of_reader, view_as_json
from ramify.inspect.topics import topics as every_topic
from ramify.inspect.words import duration, number, plural
from ramify.model.policy import SECOND
from ramify.model.reader import StoredReader

NO_TOPICS = 'no topics. Write orders = engine.topic("orders", Order), and publish to it'


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")
@click.option("-s", "--store", "url", metavar="URL|FILE", help="The store to use; see `ramify --help`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.pass_context
def topics(context: click.Context, url: str | None, as_json: bool) -> None:
    """List topics with the publications they hold, and each reader with its lag: how many it has not handled.

    `ramify follow TOPIC` shows what is published.
    """
    context.obj = url or context.obj
    if as_json:
        context.default_map = {name: {"as_json": True} for name in topics.commands}
    if context.invoked_subcommand is not None:
        return
    with opened(context.obj, reading=True) as store:
        _list(Visit(store, Out(as_json=as_json)))


def _list(visit: Visit) -> None:
    found = every_topic(visit.store)
    if visit.out.as_json:
        for view in found:
            visit.out.json(view_as_json(view))
        return
    if not found:
        visit.out.say(NO_TOPICS)
        return
    rows: list[list[Piece]] = []
    for view in found:
        first, *others = [_reader(each) for each in view.readers] or [["", "", "", ""]]
        rows.append([("name", view.name), _numbers(view), _keep(view), *first])
        rows += [["", "", "", *other] for other in others]
    heads = ["topic", "publications", "kept", "reader", "handled", "lag", "by"]
    visit.out.table(heads, rows, right=frozenset({4, 5}))


def _numbers(view: TopicView) -> str:
    numbers = view.numbers
    return f"{number(numbers.first)} to {number(numbers.last)}" if numbers.kept else "none"


def _keep(view: TopicView) -> str:
    if view.declared is None:
        return ""
    return "for ever" if view.declared.keep is None else duration(view.declared.keep / SECOND)


def _reader(each: ReaderView) -> list[Piece]:
    order = ", in order" if each.stored.ordered else ""
    by = "by hand" if each.stored.kind is None else f"task {each.stored.kind}{order}"
    return [("name", each.name), number(each.number), ("look", number(each.lag)) if each.lag else "0", by]


@topics.command()
@click.argument("reader")
@click.argument("topic", required=False)
@click.option("--since", type=SINCE, required=True, help="0, a number, 2h, or 2030-01-31T12:00Z.", metavar="PLACE")
@on_store_to_change
def replay(visit: Visit, reader: str, topic: str | None, since: Since) -> None:
    """Let a reader go on from another place: after a number, some time back, or at a time. 0 is all that is kept.

    A task is made anew for each publication that an `@engine.on` reader is given again.
    """
    from ramify.coordination.moving import rewind

    known = _known(visit, reader)
    read = topics_of_reader(visit.store, known)
    if topic is not None and topic not in read:
        raise Wrong(f"{topic!a}: expected a topic that {reader!a} reads: {', '.join(read) or 'there is none yet'}")
    store, moved = visit.store, dict[str, int]()
    with entered(store) as process:
        for name in read if topic is None else [topic]:
            moved[name] = rewind(store, lambda verb: verb(process.stamp()), store.reserve, reader, name, since)
    for name, after in moved.items():
        if visit.out.as_json:
            visit.out.json({"reader": reader, "topic": name, "number": after})
        else:
            visit.out.say(("name", reader), f": goes on in {name} after {number(after)}")


@topics.command()
@click.argument("reader")
@on_store_to_change
def remove(visit: Visit, reader: str) -> None:
    """Forget a reader and its places. Tasks that were made for it stay.

    A program that still declares it begins it anew, at the end of its topic, when it starts next.
    """
    from ramify.coordination.moving import remove as forget

    _known(visit, reader)
    store = visit.store
    with entered(store) as process:
        forget(store, lambda verb: verb(process.stamp()), store.reserve, reader)
    if visit.out.as_json:
        visit.out.json({"reader": reader, "removed": True})
    else:
        visit.out.say(("name", reader), ": removed")


def _known(visit: Visit, reader: str) -> StoredReader:
    known = readers_in(visit.store)
    if reader not in known:
        there = f"{plural(len(known), 'reader')}: {', '.join(known)}" if known else "there are none"
        raise Wrong(f"no reader {reader!a} in this store: {there}")
    return known[reader]
