"""Triggers: what starts another run when all nodes of a DAG have ended, as a node of its own.

It waits for all others, whatever came of them, and looks at how they ended before it starts anything. What it starts is
launched (`shapes/launch.py`): once, however often it is killed. A DAG is stored by its name, and a run of it is made of
what is defined under that name when it starts.

Does not know what a launched run is like, or who works on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ramify.errors import BadPayload, ConfigError
from ramify.kernel.attempts.attempt_env import Definition
from ramify.kernel.attempts.control import Fatal, Skip
from ramify.kernel.attempts.current import current
from ramify.kernel.core.handler import Handler
from ramify.model.call import Call, ReferringCall
from ramify.model.codec.wire import tree_in
from ramify.model.join import Rule
from ramify.model.reference import Blank, Reference
from ramify.model.stray import instead_of_call
from ramify.model.task import OWN
from ramify.shapes.dag.node import Node, Param, kept
from ramify.shapes.dag.own import call_of, own_handler
from ramify.shapes.dag.packed import PackedCall
from ramify.shapes.dag.sources import source_of
from ramify.shapes.dag.start import DagPlan
from ramify.shapes.dag.words import quoted
from ramify.shapes.launch import Launch, launch, root_of

if TYPE_CHECKING:
    from ramify.shapes.dag.dag import Dag

#: When what follows a run is started, by how its tasks ended. Of a DAG with cases some are always skipped.
END_RULES = {"done": Rule.NONE_FAILED, "failed": Rule.ANY_FAILED, "always": Rule.ALWAYS}
TRIGGER = f"{OWN}trigger"
#: How the id of a trigger begins that was given none; what it starts is named without it.
_PREFIX = "trigger:"


# defining


def on_end(dag: Dag, call: Call[Any], when: str) -> tuple[Call[Any], Rule]:
    """A call that follows the end of a run, and when; ConfigError for what cannot."""
    dag._checked("on_end", call)
    for reference in call.references if isinstance(call, ReferringCall) else ():
        if not isinstance(reference.source, Param):
            raise ConfigError(f"{dag.name}: on_end(): expected no results of nodes, got the {reference!r}. Use add(…).")
    if when not in END_RULES:
        raise ConfigError(f"{dag.name}: on_end(when={when!r}): expected {quoted(END_RULES)}.")
    return kept(call), END_RULES[when]


def trigger(dag: Dag, root: object, id: str | None, when: str) -> Node[int]:
    """Add a trigger to a DAG; ConfigError for what cannot be started."""
    if when not in END_RULES:
        raise ConfigError(f"{dag.name}: trigger(when={when!r}): expected {quoted(END_RULES)}.")
    if id is not None:
        dag._check_id(id)
    if isinstance(root, DagPlan):
        started = root.definition
        if started is None:
            raise ConfigError(f"{dag.name}: trigger({root.name}): expected a whole DAG. Leave part() out.")
        name, params, results = root.name, *_apart(dag, root.name, root.open.values())
        names = sorted(root.open, key=lambda name: not isinstance(root.open[name], Blank))
        values = {name: tree_in(raw) for name, raw in root.params.items()}
        how = Launch(END_RULES[when], definition=name, values=values, names=tuple(names))
        dag._definitions.keep(started)
        note_start(dag, started)
    elif isinstance(root, Call):
        dag._checked("trigger", root)
        references = root.references if isinstance(root, ReferringCall) else ()
        name, params, results = root.kind, *_apart(dag, root.kind, references)
        blanks = tuple(at for _, at in root.blanks()) if isinstance(root, ReferringCall) else ()
        how = Launch(END_RULES[when], PackedCall.of(root), blanks)
    else:
        raise ConfigError(f"{dag.name}: trigger(): expected a call or a run of a DAG, got {instead_of_call(root)}.")
    call = call_of(HANDLERS[TRIGGER], how, params, results)
    if dag._calls:
        # Whoever serves the last of its nodes serves this as well.
        call = call.queue(dag._calls[-1].group.queue)
    number = dag._append(call, f"{_PREFIX}{name}", id, (), "done")
    dag._rules[number] = Rule.ALWAYS
    dag._triggers.add(number)
    return Node(dag, number)


def _apart(dag: Dag, kind: str, references: Iterable[Reference]) -> tuple[list[Reference], list[Reference]]:
    """Params of a DAG, and results of its nodes."""
    params: list[Reference] = []
    results: list[Reference] = []
    for each in references:
        if not isinstance(each, Blank):
            source_of(dag, kind, each)
            if each.stream:
                raise ConfigError(
                    f"{dag.name}: trigger({kind}): expected one value, got the {each!r}. Collect them in a node first."
                )
            results.append(each)
        elif isinstance(each.source, Param) and dag._params.get(each.source.name) is each.source:
            params.append(each)
        else:
            raise ConfigError(f"{dag.name}: trigger({kind}): expected a param of this DAG, got the {each!r}.")
    return params, results


def note_start(dag: Dag, started: Definition) -> None:
    """Runs of a DAG start another one; ConfigError when that one starts, by way of others perhaps, this one."""
    is_new = started.name not in dag.starts
    dag.starts.setdefault(started.name, started)
    try:
        dag._definitions.check_no_circle(dag)
    except ConfigError:
        if is_new:
            del dag.starts[started.name]
        raise


def behind_all(needs: Sequence[tuple[int, ...]], triggers: Collection[int]) -> Sequence[tuple[int, ...]]:
    """Return what each node waits for, when triggers wait for all that nobody else waits for."""
    if not triggers:
        return tuple(needs)
    waited_for = {other for node, its in enumerate(needs) if node not in triggers for other in its}
    ends = [node for node in range(len(needs)) if node not in waited_for and node not in triggers]
    return [
        (*its, *(end for end in ends if end not in its)) if node in triggers else its for node, its in enumerate(needs)
    ]


# at work


def start_other(how: Launch, params: list[Any], results: list[Any]) -> int:
    """Start what is to follow the end of a run; the id of the new run."""
    me = current()
    rule, ends = Rule(how.rule), me.run.ends
    if not rule.allows(ends):
        raise Skip(f"{ends.failed} of its tasks failed" if ends.failed else "none of its tasks failed")
    try:
        root = root_of(me, how, params, results)
    except (BadPayload, ConfigError) as error:
        if any(each is None for each in results) and rule is not Rule.ALWAYS:
            raise Skip(f"a node that was skipped gave nothing to start it with: {error}") from None
        raise Fatal(str(error)) from None
    try:
        return launch(root, (me.key or "").replace(_PREFIX, "", 1), [params, results])
    except ConfigError as error:
        raise Fatal(str(error)) from None


HANDLERS: Mapping[str, Handler] = {TRIGGER: own_handler(TRIGGER, start_other)}
