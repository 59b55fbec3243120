"""`ramify follow`: what is published to a topic."""

from __future__ import annotations

import json

import click

from ramify.cli.since import SINCE
from ramify.cli.visit import Visit, Wrong, on_store
from ramify.coordination.places import Since, place_of
from ramify.inspect.topics import publication_as_json
from ramify.inspect.topics import topics as every_topic
from ramify.inspect.words import moment
from ramify.kernel.tuning import LONGEST_REST
from ramify.model.codec.wire import tree_in
from ramify.model.topic import StoredPublication


@click.command()
@click.argument("topic")
@click.option("--since", type=SINCE, help="0 for all, a number, 2h, or 2030-01-31T12:00Z; by default now.")
@click.option("--no-wait", "ends", is_flag=True, help="End at the last publication instead of waiting for the next.")
@on_store
def follow(visit: Visit, topic: str, since: Since, ends: bool) -> None:
    """Show the publications of a topic as they come, until Ctrl-C.

    Readers are not moved by it: `ramify topics` lists them.
    """
    known = [view.name for view in every_topic(visit.store)]
    if topic not in known:
        there = ", ".join(known) or "there are none"
        raise Wrong(f"no topic {topic!a} in this store: {there}")
    after, seen = place_of(visit.store, topic, since), visit.store.wait(0, 0)
    while True:
        page = visit.store.reads.publications(topic, after=after)
        for each in page:
            _show(visit, each)
            after = each.number
        if not page:
            if ends:
                return
            seen = visit.store.wait(LONGEST_REST, seen)


def _show(visit: Visit, each: StoredPublication) -> None:
    value = tree_in(each.value)
    if visit.out.as_json:
        visit.out.json(publication_as_json(each, value))
        return
    key = "" if each.key is None else f"{each.key}  "
    visit.out.say(("dim", moment(each.at)), "  ", ("name", f"{each.number}"), "  ", key, json.dumps(value))
