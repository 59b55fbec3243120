"""How a tree of steps grows into a DAG: each step a node that takes the result of the one before.

What runs for each element of a list is a DAG of its own inside, packed into the task that begins it; a single step
needs no such thing, and is a map like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Annotated, Any, Literal, assert_never, get_args, get_origin

from ramify.errors import BadPayload, ConfigError
from ramify.kernel.attempts.attempt_env import Definition
from ramify.model.call import LONGEST_DELAY, Call, ReferringCall
from ramify.model.codec.fitting import fits, in_code
from ramify.model.codec.wire import Wire, tree_in
from ramify.model.gate import GATE, GateSpec
from ramify.model.join import Rule
from ramify.model.reference import Blank, Reference
from ramify.model.schema import schema_of
from ramify.shapes.dag.dag import Dag
from ramify.shapes.dag.mapping import yielding
from ramify.shapes.dag.node import Node, NodeCall, Param, kept
from ramify.shapes.dag.own import call_of
from ramify.shapes.dag.packed import PackedCall
from ramify.shapes.dag.trigger import note_start
from ramify.shapes.definitions import Definitions
from ramify.shapes.launch import Launch
from ramify.shapes.pipeline.own import BRANCH, CHILD, HANDLERS, MEET, SLEEP, WAY, PackedNode
from ramify.shapes.pipeline.route import Route
from ramify.shapes.pipeline.tree import DivertElement, DivideElement, Element, ExpandElement
from ramify.shapes.pipeline.verbs import Gate, RunOther, Sleep, Step


@dataclass(frozen=True, slots=True)
class Passed:
    """The value so far: the arguments of the next step, and the nodes at which branches have arrived.

    Without arguments branches stay apart, and `apart` is the annotation of what comes of them together; of those of a
    `choice` one is taken.
    """

    args: tuple[Any, ...]
    tips: tuple[Node[Any], ...]
    apart: Any = Any
    choice: bool = False

    @property
    def gives(self) -> Any:
        """The annotation of what comes of it."""
        return self.value.of if self.args else self.apart

    @property
    def value(self) -> Any:
        """The last argument: behind a gate, its answer."""
        return self.args[-1]

    @property
    def tip(self) -> Node[Any]:
        """The node at which it has arrived."""
        return self.tips[-1]


class Growing:
    """A DAG that steps are added to."""

    def __init__(self, dag: Dag, whole: Dag, definitions: Definitions) -> None:
        self._dag = dag
        #: The DAG in which, perhaps, it is a branch; and what is known by name beside that.
        self._whole, self._definitions = whole, definitions
        #: Whose ids they are: a step that is written once may be there in several branches.
        self._named: dict[str, object] = {}
        #: The calls of steps that are packed into others.
        self.inside: list[Call[Any]] = []

    def add(self, elements: Sequence[Element], passed: Passed, *, wanted: bool = False) -> Passed:
        """Add elements behind what was passed on; if the result is wanted, it is one value."""
        for element, following in zip_longest(elements, elements[1:]):
            is_wanted = wanted or following is not None
            match element:
                case Step():
                    passed = self._step(element, *passed.args)
                    if passed.tip._number in self._dag._makers and not isinstance(following, ExpandElement):
                        raise ConfigError(
                            f"{self._dag.name}: {passed.tip} yields items, and the next step does not take them. Add "
                            "expand(…), or return a list."
                        )
                case Gate():
                    passed = self._gate(element, passed)
                case Sleep():
                    passed = self._sleep(element, passed)
                case RunOther():
                    passed = self._run(element, passed)
                case DivideElement():
                    passed = self._divide(element, passed, is_wanted)
                case ExpandElement():
                    passed = self._expand(element, passed, is_wanted)
                case DivertElement():
                    passed = self._divert(element, passed, is_wanted)
                case _:
                    assert_never(element)
        return passed

    def first(self, step: Step) -> Passed:
        """Add the first step of a pipeline, whose arguments come with each run."""
        call = step.chosen(Call(step.task.group, b"[]"))
        if yielding(call) is not None:
            raise ConfigError(f"{self._dag.name}: the first step, {step.name}, yields items. Return a list.")
        return self._added(step, call)

    def _step(self, step: Step, *args: Any) -> Passed:
        return self._added(step, self._call(step, *args))

    def _call(self, step: Step, *args: Any) -> Call[Any]:
        try:
            return step.call(*args)
        except BadPayload as error:
            more = ". A step after a gate takes two arguments: the value and the answer" if len(args) > 1 else ""
            if len(args) == 1 and self._has_answers(args[0]):
                more = ". A branch that ends in a gate gives the answer alone: chain a step there that takes both"
            raise ConfigError(f"{self._dag.name}: {error}{more}") from None

    def _has_answers(self, given: Any) -> bool:
        """Return whether it is the answer of a gate, or may be one, at the end of a branch."""
        if isinstance(given, list | dict):
            return any(map(self._has_answers, given.values() if isinstance(given, dict) else given))
        if not isinstance(given, Reference) or not isinstance(node := given.source, Node):
            return False
        calls = self._dag._calls
        ends = self._dag._needs[node._number] if calls[node._number].kind == MEET else (node._number,)
        return any(calls[each].kind == GATE for each in ends)

    def _added(self, step: Step, call: Call[Any]) -> Passed:
        id = step.options.get("id")
        return _passed(self._dag.add(call, id=None if id is None else self._id(step, id)))

    def _gate(self, gate: Gate, passed: Passed) -> Passed:
        wait = LONGEST_DELAY if gate.timeout is None else gate.timeout.total_seconds()
        otherwise = None if gate.otherwise is None else [tree_in(Wire(gate.of).seal(gate.otherwise[0]))]
        spec = GateSpec(gate.name, schema_of(gate.of), None if gate.timeout is None else wait, otherwise)
        if (id := self._id(gate, gate.name)) in self._dag._numbers:
            raise ConfigError(
                f"{self._whole.name}: gate({gate.name!r}): this name is taken by another gate or "
                "step. Give this gate another name."
            )
        node = self._insert(call_of(HANDLERS[GATE], spec).delay(wait), id, passed.tips)
        return Passed((*passed.args, Reference(node, of=gate.of)), (node,))

    def _sleep(self, sleep: Sleep, passed: Passed) -> Passed:
        seconds = sleep.length.total_seconds()
        call = call_of(HANDLERS[SLEEP], passed.value, seconds).delay(seconds)
        node = self._insert(call, self._dag._free_id("sleep"), passed.tips)
        return Passed((Reference(node, of=passed.value.of),), (node,))

    def _run(self, element: RunOther, passed: Passed) -> Passed:
        other = element.other
        id = self._dag._free_id(element.name) if element.id is None else self._id(element, element.id)
        if isinstance(other, Definition):
            note_start(self._whole, other)
            self._definitions.keep(other)
            how, of = Launch(definition=other.name, names=("",)), other.gives
        else:
            call = other.of(Blank(Param("value", passed.value.of, None), of=passed.value.of))
            self.inside.append(kept(call))
            blanks = tuple(at for _, at in call.blanks()) if isinstance(call, ReferringCall) else ()
            how, of = Launch(call=PackedCall.of(call), blanks=blanks), call.group.signature.result
        node = self._insert(call_of(HANDLERS[CHILD], how, passed.value), id, passed.tips)
        return Passed((Reference(node, of=of),), (node,))

    def _divide(self, division: DivideElement, passed: Passed, wanted: bool) -> Passed:
        is_met = division.into is not None
        if wanted and not is_met:
            raise self._open("divide", "combine")
        found = [self.add(branch, passed, wanted=is_met) for branch in division.branches]
        if division.into is None:
            return Passed((), _tips(found))
        values = [branch.value for branch in found]
        return self._step(
            division.into, values if division.names is None else dict(zip(division.names, values, strict=True))
        )

    def _expand(self, expansion: ExpandElement, passed: Passed, wanted: bool) -> Passed:
        source = passed.tip
        is_met = expansion.into is not None
        if wanted and not is_met:
            raise self._open("expand", "collapse")
        first = expansion.body[0]
        assert isinstance(first, Step)
        if source._number not in self._dag._makers and not fits(gives := passed.value.of, list[Any]):
            raise ConfigError(
                f"{self._dag.name}: expand({first.name}): expected a list, got {in_code(gives)} from {source}. "
                "Return a list there."
            )
        call, id = self._call(first, source.each), first.options.get("id")
        of = call.group.signature.result
        if len(expansion.body) > 1:
            steps, of = self._branch(expansion, first, source.each, is_met)
            # Whoever serves its first step serves the branch as well.
            call, id = call_of(HANDLERS[BRANCH], steps, source.each).queue(call.group.queue), None
        id = self._dag._free_id(first.name) if id is None else self._id(first, id)
        node = self._dag._map(call, id, max_items=expansion.max_items, branches=True)
        if expansion.into is None:
            return Passed((), (node,), list[of])  # type: ignore[valid-type]  # not for mypy
        return self._step(expansion.into, Reference(node, gathered=True, of=of))

    def _branch(self, expansion: ExpandElement, first: Step, item: Any, wanted: bool) -> tuple[list[PackedNode], Any]:
        """Return what is done with each element, as a graph of its own, and the annotation of what it gives.

        Ids are those within the branch.
        """
        inner = Dag(self._dag.name)
        value: Any = inner.param("value", item.of)
        growing = Growing(inner, self._whole, self._definitions)
        passed = growing.add(expansion.body, Passed((value,), ()), wanted=wanted)
        last = passed.tip if len(passed.tips) == 1 else growing._join(passed)
        self.inside += (*inner._calls, *growing.inside)
        return packed_nodes(inner, last), passed.gives

    def _divert(self, diversion: DivertElement, passed: Passed, wanted: bool) -> Passed:
        chosen = passed.value
        is_route = _is_route(chosen.of)
        if not is_route and _holds_route(chosen.of):
            raise ConfigError(
                f"{self._dag.name}: divert: expected a Route, got {in_code(chosen.of)} from {passed.tip}. "
                "Return a Route[…] alone."
            )
        of = (get_args(_bare(chosen.of)) or (Any,))[0] if is_route else chosen.of
        names = list(diversion.ways)
        possible = _possible(chosen.of)
        if possible is not None and (never := [name for name in names if name not in possible]):
            raise ConfigError(
                f"{self._dag.name}: the way {never[0]!r} can never be taken: {passed.tip} returns "
                f"{', '.join(possible)}. Remove it."
            )
        found = []
        ways: list[tuple[str | None, Sequence[Element]]] = [*diversion.ways.items(), (None, diversion.otherwise)]
        is_met = wanted or diversion.into is not None
        for name, way in ways:
            call = call_of(HANDLERS[WAY], chosen, name, names, is_route)
            id = self._dag._free_id(f"{passed.tip.id}={'otherwise' if name is None else name}")
            node = self._insert(call, id, passed.tips)
            found.append(self.add(way, Passed((Reference(node, of=of),), (node,)), wanted=is_met))
        if not is_met:
            return Passed((), _tips(found), _alike(found), choice=True)
        call = call_of(HANDLERS[MEET], [way.value for way in found])
        before = "way" if diversion.into is None else diversion.into.name
        met = self._insert(call, self._dag._free_id(f"({before})"), _tips(found), Rule.ANY_DONE)
        value = Reference(met, of=_alike(found))
        return Passed((value,), (met,)) if diversion.into is None else self._step(diversion.into, value)

    def _join(self, passed: Passed) -> Node[Any]:
        """The end of branches that nobody brings together: what came of the one that was taken, or of each by id."""
        outs = {tip.id: tip.out for tip in passed.tips if tip._number not in self._dag._maps}
        call = call_of(HANDLERS[MEET], list(outs.values()) if passed.choice else [outs])
        return self._insert(call, "(end of branch)", passed.tips, Rule.NONE_HALTED)

    def _insert(self, call: Call[Any], id: str, after: Sequence[Node[Any]], rule: Rule = Rule.ALL_DONE) -> Node[Any]:
        """Add a task of ours. Whoever serves what comes before it serves it as well."""
        needs = tuple(each._number for each in after)
        call = call.queue(self._dag._calls[needs[-1]].group.queue)
        return Node(self._dag, self._dag._insert(kept(call), id, needs, rule))

    def _id(self, written: object, id: str) -> str:
        """An id that may be used once for what was written, and with a number where that is in several branches."""
        if self._named.get(id) is written:
            return self._dag._free_id(id)
        # If anything else has it, the DAG refuses it.
        self._named.setdefault(id, written)
        return id

    def _open(self, verb: str, remedy: str) -> ConfigError:
        return ConfigError(
            f"{self._dag.name}: a branch ends in an open {verb}(…), so it has no single result. "
            f"Join it first: {remedy}(…)."
        )


def packed_nodes(dag: Dag, last: Node[Any]) -> list[PackedNode]:
    """The nodes of a DAG in an order in which each is behind those it needs, and the given one is last."""
    plan = dag._plan({}, {})
    ids = list(plan.ids)
    end = ids.index(last.id)
    order = [*(node for node in plan.graph.order if node != end), end]
    place = {node: at for at, node in enumerate(order)}
    found = []
    for node in order:
        call, needs = plan.nodes[node], plan.graph.needs[node]
        blanks = tuple(at for at, _ in call.params) if isinstance(call, NodeCall) else ()
        found.append(
            PackedNode(
                ids[node],
                PackedCall.of(call),
                blanks,
                tuple(place[each] for each in needs),
                plan.rules[node],
                brings=isinstance(call, NodeCall) and bool(needs),
            )
        )
    return found


def _possible(annotation: Any) -> list[str] | None:
    """The names of all ways that values of an annotation can take, if these are known."""
    if annotation is bool:
        return ["True", "False"]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(member.value) for member in annotation]
    return [str(value) for value in get_args(annotation)] if get_origin(annotation) is Literal else None


def _passed(node: Node[Any]) -> Passed:
    return Passed((node.out,), (node,))


def _tips(several: Iterable[Passed]) -> tuple[Node[Any], ...]:
    return tuple(tip for each in several for tip in each.tips)


def _alike(ways: Iterable[Passed]) -> Any:
    """The annotation of what any of these gives; Any when that is not the same."""
    first, *others = (way.gives for way in ways)
    if all(each == first for each in others):
        return first
    # A route is one whatever goes with it.
    return Route[Any] if all(_is_route(each) for each in (first, *others)) else Any


def _is_route(annotation: Any) -> bool:
    return (get_origin(_bare(annotation)) or _bare(annotation)) is Route


def _holds_route(annotation: Any) -> bool:
    is_one = isinstance(annotation, type) and issubclass(annotation, Route)
    return is_one or any(_holds_route(each) for each in (get_origin(annotation), *get_args(annotation)) if each)


def _bare(annotation: Any) -> Any:
    """Without what is only noted with it."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
