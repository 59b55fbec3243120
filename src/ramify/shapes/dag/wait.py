"""Waits: nodes that end when another run has, or a node of another run.

The other run need not exist yet. Its end wakes the node; until it exists it is looked for, as `shapes/launch.py` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from ramify.errors import BadPayload, ConfigError
from ramify.kernel.core.handler import Handler
from ramify.model.call import Call, Extra
from ramify.model.policy import Duration
from ramify.model.reference import Reference
from ramify.model.task import OWN
from ramify.shapes.dag.node import Node
from ramify.shapes.dag.own import call_of, own_handler
from ramify.shapes.launch import result_of

WAIT = f"{OWN}wait"


@runtime_checkable
class OtherRun(Protocol):
    """The handle of a run to wait for."""

    @property
    def id(self) -> int:
        """The id of the run."""


def wait_call(
    dag: str, run: object, node: str | Node[Any] | None, timeout: Duration | None, queue: str
) -> tuple[Call[Any], str]:
    """A call that waits for another run, and what to call it; ConfigError for what is no run."""
    key = node.id if isinstance(node, Node) else node
    if key is not None and (not isinstance(key, str) or not key):
        raise ConfigError(f"{dag}: wait(node={node!r}): expected the id of a node of the other run.")
    if isinstance(run, Node):
        raise ConfigError(
            f"{dag}: wait({run!r}): expected a run, got a node. If its result is the name of a run, write {run.id}.out."
        )
    if isinstance(run, OtherRun):
        run = run.id
    is_number = isinstance(run, int) and not isinstance(run, bool) and run > 0
    if not (is_number or isinstance(run, Reference) or (isinstance(run, str) and run)):
        raise ConfigError(
            f"{dag}: wait({run!r}): expected a run, its name or its id, or a param or result that is one."
        )
    try:
        call = call_of(HANDLERS[WAIT], run, key).queue(queue)
        if timeout is not None:
            # It says itself when it wants to look again.
            extra = Extra(within=Extra.decode(call.poll(1, timeout=timeout).extra).within)
            call = msgspec.structs.replace(call, extra=extra.encode())
    except BadPayload as error:
        raise ConfigError(f"{dag}: wait(): {error}") from None
    named = "" if isinstance(run, Reference) else f"{run}"
    return call, ":".join(each for each in ("wait", named, key) if each)


def wait_for(run: int | str, node: str | None) -> Any:
    """Wait for another run, or for a node of it; what came of that."""
    return result_of(run, node)


HANDLERS: Mapping[str, Handler] = {WAIT: own_handler(WAIT, wait_for)}
