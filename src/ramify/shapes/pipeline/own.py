"""The tasks of ours that pipelines have beside those of users: gates, sleeps, ways, and branches of several steps.

They are ordinary tasks: kept, tried and shown like any other. A gate is a task that is due when its time is up; whoever
answers settles it before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ramify.errors import BadPayload, ConfigError
from ramify.kernel.attempts.control import Fatal, Skip
from ramify.kernel.attempts.current import current
from ramify.kernel.core.handler import Handler
from ramify.kernel.outgoing.offspring import LinkedCall
from ramify.model.call import label_of
from ramify.model.codec.escape import filled
from ramify.model.codec.wire import write
from ramify.model.gate import GATE, GateSpec
from ramify.model.join import Rule
from ramify.model.task import OWN
from ramify.shapes.dag.own import group_of, own_handler
from ramify.shapes.dag.packed import PackedCall
from ramify.shapes.launch import Launch, launch, result_of, root_of


class PackedNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a branch: its call, the places in it that take the value of the branch, and what it waits for."""

    id: str
    call: PackedCall
    blanks: tuple[int, ...] = ()
    needs: tuple[int, ...] = ()
    rule: Rule = Rule.ALL_DONE
    brings: bool = False


def gate(spec: GateSpec) -> Any:
    """Runs only if nobody has answered in time."""
    if spec.otherwise is not None:
        return spec.otherwise[0]
    raise Fatal(f"nobody answered within {spec.timeout:,.0f} seconds")


def go_on(value: Any, seconds: float) -> Any:
    """Hand a value on, later. How much later belongs to what tells one pipeline from another."""
    return value


def way(chosen: Any, name: str | None, names: list[str], is_route: bool) -> Any:
    """Hand the value on to the way that was chosen; `None` is the way of all that have none of their own."""
    said = str(chosen["name"] if is_route else chosen)
    if name != (said if said in names else None):
        raise Skip(f"{said} was chosen" + ("" if name is None else f", not {name}"))
    return chosen["value"] if is_route else chosen


def meet(values: list[Any]) -> Any:
    """Return what came of the only way that was taken."""
    return next((value for value in values if value is not None), None)


def child(how: Launch, value: Any) -> Any:
    """Start a run of its own, once, and wait for what comes of it."""
    me = current()
    try:
        run = launch(root_of(me, how, [value]), me.key or "", value)
    except (BadPayload, ConfigError) as error:
        raise Fatal(str(error)) from None
    return result_of(run)


def branch(steps: list[PackedNode], value: Any) -> Any:
    """Begin the steps of one branch. What the last of them gives is its result."""
    me = current()
    written = write(value)
    calls = []
    for each in steps:
        body = filled(each.call.body.encode(), dict.fromkeys(each.blanks, written))
        label = label_of(each.call.kind, f"{me.key}{each.id}")
        call = each.call.call(group_of(me, each.call), body, label)
        calls.append(LinkedCall(call, each.needs, each.rule, each.brings))
    me._grow(calls)


SLEEP, WAY, MEET, BRANCH, CHILD = (f"{OWN}{name}" for name in ("sleep", "way", "meet", "branch", "child"))

HANDLERS: Mapping[str, Handler] = {
    each.kind: each
    for each in (
        own_handler(GATE, gate),
        own_handler(SLEEP, go_on),
        own_handler(WAY, way),
        own_handler(MEET, meet),
        own_handler(BRANCH, branch),
        own_handler(CHILD, child),
    )
}
