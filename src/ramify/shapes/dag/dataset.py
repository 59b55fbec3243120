"""Datasets in DAGs: nodes that produce them, and DAGs of which runs start when they were produced.

Behind a node that produces something is a task of ours, which starts what the engine that runs it knows to wait for it:
at once, or when the last of several datasets is there (`shapes/dataset.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ramify.errors import BadPayload, ConfigError
from ramify.kernel.attempts.attempt_env import Definition, Origin
from ramify.kernel.attempts.control import Fatal
from ramify.kernel.attempts.current import Current, current
from ramify.kernel.core.handler import Handler
from ramify.model.codec.wire import write
from ramify.model.task import OWN, name_given
from ramify.shapes.dag.node import Node
from ramify.shapes.dag.own import call_of, own_handler
from ramify.shapes.dag.words import quoted
from ramify.shapes.dataset import Entry
from ramify.shapes.launch import launch

if TYPE_CHECKING:
    from ramify.shapes.dag.dag import Dag

#: What starts others when something was produced, and an entry of what was.
PRODUCE, PRODUCED = f"{OWN}produce", f"{OWN}produced"


# defining


def produce(dag: Dag, number: int, datasets: tuple[str, ...]) -> None:
    """Let a node of a DAG produce datasets; ConfigError when something would then start itself."""
    names = _checked(dag.name, "produces", datasets)
    node = Node[Any](dag, number)
    if number in dag._triggers:
        raise ConfigError(f"{dag.name}: produces(): {node} starts another run. Declare there what that run produces.")
    if (id := f"{node.id} produces") in dag._numbers:
        raise ConfigError(f"{dag.name}: produces(): {node} produces datasets already. Name all of them at once.")
    note_products(dag, names)
    # What a map gives is many, and whoever wants them asks for them.
    given = [] if number in dag._maps else [node.out]
    call = call_of(HANDLERS[PRODUCE], names, given).queue(dag._calls[number].group.queue)
    dag._append(call, id, id, [] if given else [node], "done")


def note_products(dag: Dag, datasets: Iterable[str]) -> None:
    """Runs of a DAG produce these; ConfigError when something would then start itself."""
    before = set(dag.produces)
    dag.produces.update(datasets)
    try:
        dag._definitions.check_no_circle(dag)
    except ConfigError:
        dag.produces.clear()
        dag.produces.update(before)
        raise


def start_on(dag: Dag, datasets: tuple[str, ...], when: str) -> None:
    """Let runs of a DAG start when these were produced; ConfigError when that cannot be."""
    names = _checked(dag.name, "start_on", datasets)
    if when not in ("all", "any"):
        raise ConfigError(f"{dag.name}: start_on(when={when!r}): expected {quoted(('all', 'any'))}.")
    if dag.awaits:
        raise ConfigError(
            f"{dag.name}: start_on(): it starts on {', '.join(dag.awaits)} already. Name all datasets at once."
        )
    given = names if when == "all" or len(names) == 1 else []
    lacks = [name for name, param in dag._params.items() if param.default is None and name not in given]
    if lacks:
        raise ConfigError(f"{dag.name}: start_on(): no dataset gives the param {lacks[0]!r}. Give it a default.")
    dag.awaits, dag.awaits_all = {name: name in dag._params for name in names}, when == "all"
    try:
        dag._definitions.check_no_circle(dag)
    except ConfigError:
        dag.awaits = {}
        raise
    dag._definitions.keep(dag)


def _checked(dag: str, verb: str, datasets: tuple[str, ...]) -> list[str]:
    if not datasets:
        raise ConfigError(f"{dag}: {verb}(): expected the names of datasets, got none.")
    what = f"{dag}: {verb}{datasets!r}: the name of a dataset"
    return list(dict.fromkeys(name_given(what, each) for each in datasets))


# at work


def start_what_waits(datasets: list[str], given: list[Any]) -> list[int]:
    """Start what waits for these datasets, or note that they are there; the ids of the runs that were started."""
    me = current()
    value = given[0] if given else None
    started: list[int] = []
    trouble: list[str] = []
    for dataset in datasets:
        for definition in me._attempt_env.library.others.awaiting(dataset):
            try:
                started += _start(me, definition, dataset, value if definition.awaits[dataset] else None)
            except (BadPayload, ConfigError) as error:
                trouble.append(str(error))
    if trouble:
        raise Fatal("; ".join(trouble))
    return started


def _start(me: Current, definition: Definition, dataset: str, value: Any) -> list[int]:
    others = me._attempt_env.library.others
    if not definition.awaits_all or len(definition.awaits) == 1:
        return [launch(_root(definition, {dataset: value}), f"{dataset}/{definition.name}", value)]
    production = f"{me.run_id}/{me.task}/{me._revivals}/{dataset}"
    noted = others.note(definition, production, dataset, value)
    # CRASH: it was noted that all is there, and nothing was started -> noted again, it is told the same.
    if noted is None:
        return []
    number, there = noted
    return [
        others.start(_root(definition, there), f"{definition.name}/{number}", Origin(number, 1, there, str(number)))
    ]


def _root(definition: Definition, produced: Mapping[str, Any]) -> object:
    return definition.of_stored({name: write(value) for name, value in produced.items() if definition.awaits[name]})


def produced(entry: Entry) -> None:
    """Record a production: there is nothing to do."""


HANDLERS: Mapping[str, Handler] = {
    PRODUCE: own_handler(PRODUCE, start_what_waits),
    PRODUCED: own_handler(PRODUCED, produced),
}
