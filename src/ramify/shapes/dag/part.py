"""A part of a DAG as a run of its own: some of its nodes, with results of others that are taken as given.

A given result is a task too, of ours, which gives what it was told to: so nodes that take it, and people who look at
the run, find it where they always do. An exception that is given is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ramify.errors import BadPayload, ConfigError
from ramify.model.call import Call
from ramify.model.codec.wire import tree_in, write
from ramify.model.gate import GATE, check_answer, spec_of
from ramify.model.task import is_own
from ramify.shapes.dag.adjacency import Adjacency
from ramify.shapes.dag.own import EXPAND, GIVE, Expansion, has_branches, own_call
from ramify.shapes.dag.packed import PackedCall


class EarlierRun(Protocol):
    """A run whose results can be given to a part of a DAG."""

    def _stored_results(self, keys: Sequence[str]) -> Mapping[str, bytes | None]:
        """Return what the tasks with these keys gave, as stored; ConfigError when one of them did not end well."""


Given = Mapping[str, Any] | EarlierRun


def chosen(
    graph: Adjacency, names: Sequence[str], only: Collection[int], upto: Iterable[int], stop: Collection[int]
) -> tuple[list[int], list[int]]:
    """The nodes that run, and those whose results are needed beside them; `stop` are given, and nobody looks behind."""
    if only:
        runs = set(only)
    else:
        runs = set()
        waiting = [node for node in upto or graph.ends if node not in stop]
        while waiting:
            node = waiting.pop()
            if node not in runs:
                runs.add(node)
                waiting += (each for each in graph.needs[node] if each not in stop)
    if not runs:
        raise ConfigError(
            f"part(): nothing is left to run, because {', '.join(names[each] for each in stop)} are given. Give fewer."
        )
    needed = {each for node in runs for each in graph.needs[node]} - runs
    return sorted(runs), sorted(needed)


def given_call(id: str, node: Call[Any], made: Call[Any] | None, given: Given) -> Call[Any]:
    """A task that gives what a node would have given; of a map, with the call that it makes."""
    call, is_mapped = made or node, made is not None
    if not isinstance(given, Mapping):
        key = f"{id}[]" if is_mapped else id
        raw = given._stored_results([key])[key]
        return own_call(GIVE, tree_in(raw))
    try:
        value = given[id]
    except KeyError:
        raise ConfigError(
            f"part(): the result of {id} is needed, and it does not run. Give it: given={{{id!r}: …}}."
        ) from None
    if isinstance(value, BaseException):
        return own_call(GIVE, None, f"{type(value).__name__}: {value}")
    encode: Callable[[object], bytes | None] = call.group.signature.encode_result
    if is_own(call.kind):
        # What it gives has the type of something else, which its place knows.
        encode = write
    try:
        if call.kind == GATE:
            check_answer(spec_of(call.body), tree_in(encode(value)))
        if not is_mapped:
            return own_call(GIVE, tree_in(encode(value)))
        # Each of them is a task of its own, as it would have been.
        each = PackedCall(GIVE, '{"~":["~b0"]}')
        how = Expansion(each, (0,), (), id, branches=has_branches(node))
        return own_call(EXPAND, how, [], [], items=[tree_in(encode(part)) for part in value])
    except (BadPayload, TypeError) as error:
        raise ConfigError(f"given={{{id!r}: …}}: {error}") from None
