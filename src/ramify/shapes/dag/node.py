"""Nodes: what `dag.add` and `dag.map` give back, to be passed on to other calls.

To type checkers `node.out` is the result of the node and `node.each` one of its items, so that calls that take them
are checked as if the results were there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar, cast, get_args

from ramify.model.call import Call, ReferringCall
from ramify.model.join import Rule
from ramify.model.reference import Blank, Reference

if TYPE_CHECKING:
    from ramify.shapes.dag.dag import Dag

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

When = Literal["done", "none-failed", "any-done", "failed", "always"]

#: When a node runs, once all that it waits for have ended.
RULES: dict[str, Rule] = {
    "done": Rule.ALL_DONE,
    "none-failed": Rule.NONE_FAILED,
    "any-done": Rule.ANY_DONE,
    "failed": Rule.ANY_FAILED,
    "always": Rule.ALWAYS,
}


class Param(NamedTuple):
    """A value that each run of a DAG is given."""

    name: str
    annotation: Any
    #: Sealed; None when there is none, and each run has to be given a value.
    default: bytes | None

    def __str__(self) -> str:
        return f"param {self.name}"


class Item(NamedTuple):
    """One item of what a node gives, whichever it is."""

    node: Node[Any]

    def __str__(self) -> str:
        return f"each of {self.node.id}"


class NodeCall(Call[Any], frozen=True, gc=False):
    """A call that takes results or params, as a DAG keeps it: without the nodes that it takes results of.

    Those are known by their numbers. They would lead back to the DAG, and there are very many calls: so these are left
    out of garbage collection.
    """

    #: Their places and names.
    params: tuple[tuple[int, str], ...] = ()


def kept(call: Call[Any]) -> Call[Any]:
    """A call with no more than a run of it needs."""
    if not isinstance(call, ReferringCall):
        return call
    params: tuple[tuple[int, str], ...] = ()
    if has_blanks(call):
        params = tuple((place, each.source.name) for each, place in call.blanks() if isinstance(each.source, Param))
    return NodeCall(call.group, call.body, None, call.extra, call.in_lane, params)


def has_blanks(call: ReferringCall[Any]) -> bool:
    """Return whether some of what it takes is written into it before it is stored."""
    return Blank in map(type, call.references)


class Node(Generic[R_co]):
    """A call in a DAG. Pass `node.out` to other calls, or `node` itself to `after=`."""

    # Very many of them are made, and each is known to its DAG by its number.
    __slots__ = ("_dag", "_number", "_out")

    def __init__(self, dag: Dag, number: int) -> None:
        self._dag = dag
        self._number = number
        self._out: Any = None

    @property
    def id(self) -> str:
        """Its id within the DAG."""
        return self._dag._ids[self._number]

    @property
    def out(self) -> R_co:
        """Its result, for the arguments of other calls, also inside lists and dicts. They wait for it."""
        if self._out is None:
            dag, number = self._dag, self._number
            self._out = Reference(self, gathered=number in dag._maps, of=dag._gives(number))
        out: R_co = self._out
        return out

    @property
    def each(self: Node[Iterable[T]]) -> T:
        """One item of its result, for the call that `dag.map` makes for each item."""
        of = self._dag._gives(self._number)
        if not self._dag._has_items(self._number):
            items = get_args(of)
            of = items[0] if len(items) == 1 else Any
        return cast("T", Blank(Item(self), of=of))

    def case(self, name: str) -> Node[None]:
        """Use in `after=`: the other node runs only if this one returns that name, or a list with it; else it is
        skipped.

        This node fails if it returns a name that is no case of it.
        """
        return self._dag._case(self, name)

    def produces(self, *datasets: str) -> Self:
        """Declare the datasets it produces when done. DAGs that `start_on` them are then started."""
        self._dag._produce(self, datasets)
        return self

    def after(self, *others: Node[Any]) -> None:
        """Make it wait for these nodes too."""
        self._dag._link(self, others)

    def _instead_of_value(self) -> str:
        """Return what to write where its result is meant."""
        return f"is the node {self.id} itself. Pass {self.id if self.id.isidentifier() else 'node'}.out, its result"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return self._dag is other._dag and self._number == other._number

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"<node {self.id}>"

    def __str__(self) -> str:
        return self.id
