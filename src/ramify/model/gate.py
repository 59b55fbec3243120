"""Gates: tasks that end with an answer from outside, and what answers they take.

What a gate asks for is stored with it as a JSON schema, so that whoever answers needs nothing of the program that
asked.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ramify.errors import BadPayload
from ramify.model.codec.limits import shown
from ramify.model.codec.wire import tree_in
from ramify.model.decoder import converter
from ramify.model.schema import in_short, wrong
from ramify.model.task import OWN

#: The kind of gates.
GATE = f"{OWN}gate"


class GateSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer that a gate asks for. `timeout` is in seconds; `otherwise` is in a list, because null may be meant."""

    name: str
    schema: Any = None
    timeout: float | None = None
    otherwise: list[Any] | None = None


_spec = converter(GateSpec)


def spec_of(body: bytes) -> GateSpec:
    """Return what a gate asks for, from its arguments."""
    tree = tree_in(body)
    return _spec(tree[0] if isinstance(tree, list) and tree else {"name": ""})


def check_answer(spec: GateSpec, answer: object) -> None:
    """Refuse an answer, as a tree of JSON, that is not what the gate asks for."""
    if (fault := wrong(answer, spec.schema)) is not None:
        raise BadPayload(
            f"the gate {spec.name!r} does not take {shown(answer)}: {fault}. It asks for {in_short(spec.schema)}."
        )
