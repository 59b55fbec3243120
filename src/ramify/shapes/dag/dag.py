"""The definition of a DAG: calls that wait for each other, by name.

Promises: what can be seen to be wrong is refused where it is written, with the names of what does not fit. Adding a
node costs the same however many there are. A definition is a value of the program: nothing is stored until a run of it
starts, and a run that has started does not change with it.

Does not start anything, and does not know stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from ramify.errors import ConfigError
from ramify.kernel.attempts.attempt_env import Definition
from ramify.kernel.attempts.stream import Stream
from ramify.model.call import Call, OpenCall, ReferringCall
from ramify.model.join import Rule
from ramify.model.key import Hold, key_bytes, key_text
from ramify.model.policy import Duration
from ramify.model.reference import Blank, Reference
from ramify.model.stray import instead_of_call
from ramify.model.task import MAX_KEY, is_own, name_given
from ramify.shapes.dag.adjacency import Adjacency
from ramify.shapes.dag.cases import case
from ramify.shapes.dag.dataset import produce, start_on
from ramify.shapes.dag.including import include
from ramify.shapes.dag.mapping import Maker, check_options, mapped_over, mapping, yielding
from ramify.shapes.dag.node import RULES, Item, Node, Param, When, has_blanks, kept
from ramify.shapes.dag.own import AtEnd
from ramify.shapes.dag.packed import PackedCall
from ramify.shapes.dag.params import NO_DEFAULT, declared, given, values_of
from ramify.shapes.dag.sources import dependencies, source_of
from ramify.shapes.dag.start import CLOSING, DagPlan
from ramify.shapes.dag.trigger import behind_all, on_end, trigger
from ramify.shapes.dag.wait import OtherRun, wait_call
from ramify.shapes.dag.words import nearest, quoted
from ramify.shapes.definitions import Definitions

R = TypeVar("R")
T = TypeVar("T")


class Dag:
    """Calls that depend on each other: `etl = engine.dag("etl")`, then `etl.add(load.of(day))`."""

    def __init__(self, name: str, definitions: Definitions | None = None) -> None:
        self.name = name_given("the name of a DAG", name)
        self._ids: list[str] = []
        self._numbers: dict[str, int] = {}
        self._calls: list[Call[Any]] = []
        #: What each waits for, in the order of the slots of its join.
        self._needs: list[tuple[int, ...]] = []
        self._rules: list[Rule] = []
        #: Of the maps: the calls that they make.
        self._maps: dict[int, Call[Any]] = {}
        #: Generators of items. They are no tasks: maps over them call them.
        self._makers: dict[int, Maker] = {}
        self._cases: dict[tuple[int, str], Node[None]] = {}
        self._params: dict[str, Param] = {}
        self._at_end: list[tuple[Call[Any], Rule]] = []
        self._alike: dict[str, int] = {}
        self._adjacency: Adjacency | None = None
        #: Whether something waits for what was added after it.
        self._points_ahead = False
        #: Nodes that wait for all others.
        self._triggers: set[int] = set()
        #: What runs of it start, by name, and which datasets they produce.
        self.starts: dict[str, Definition] = {}
        self.produces: set[str] = set()
        #: The datasets that start a run of it, and whether it takes what was produced; all of them, or any.
        self.awaits: dict[str, bool] = {}
        self.awaits_all = True
        self._definitions = Definitions() if definitions is None else definitions
        self._definitions.add(self)

    # defining

    def param(self, name: str, of: type[T], default: T = NO_DEFAULT) -> T:
        """Define a value that each run is given: `etl.of(day=...)`. Pass it to calls like the value itself."""
        found = self._params[name] = declared(self.name, self._params, name, of, default)
        return cast("T", Blank(found, of=of))

    def add(
        self, call: Call[R], *, id: str | None = None, after: Iterable[Node[Any]] = (), when: When = "done"
    ) -> Node[R]:
        """Add a call. It starts when the nodes whose results it takes, and all in `after`, have ended as `when` says.

        `id` defaults to the name of the task, then `load#2` and so on.
        """
        for blank in self._checked("add", call):
            if isinstance(blank.source, Item):
                raise ConfigError(
                    f"{self.name}: add({call.kind}): expected one value, got {blank!r}. Use "
                    f"{self.name}.map(…), or pass all items as {blank.source.node.id}.out."
                )
        number = self._append(call, call.kind, id, after, when)
        if (maker := yielding(call)) is not None:
            self._makers[number] = maker
        return Node(self, number)

    def map(
        self,
        call: Call[R],
        *,
        id: str | None = None,
        after: Iterable[Node[Any]] = (),
        when: When = "done",
        max_items: int | None = None,
        on_failed: Literal["fail", "skip"] = "fail",
    ) -> Node[Stream[R]]:
        """Make a task of the call for each item of a node's result: `load.of(files.each)`.

        Nodes that take its results get a `Stream`, in the order of the items. With `on_failed="skip"` failed and
        quarantined items are left out, and do not fail the run. More than `max_items` items fail the map.
        """
        self._checked("map", call)
        check_options(self.name, on_failed, max_items)
        return self._map(call, id, after, when, max_items, spare=on_failed == "skip")

    def _map(
        self,
        call: Call[Any],
        id: str | None,
        after: Iterable[Node[Any]] = (),
        when: str = "done",
        max_items: int | None = None,
        *,
        spare: bool = False,
        branches: bool = False,
    ) -> Node[Any]:
        source = mapped_over(self.name, call)
        self._own(source)
        number = source._number
        maker = self._makers.get(number)
        made = mapping(
            call, source, number in self._maps, maker and maker.call, max_items, spare=spare, branches=branches
        )
        if maker is not None:
            taken = sum(1 for each in maker.references if not isinstance(each, Blank))
            after = [*after, *self._nodes(self._needs[number][taken:])]
        number = self._append(made, call.kind, id, after, when)
        self._maps[number] = kept(call)
        if maker is not None:
            self._needs[number] += (source._number,)
        return Node(self, number)

    def on_end(self, call: Call[Any], *, when: Literal["done", "failed", "always"] = "always") -> None:
        """Start a call when all nodes have ended: always, only if some failed, or only if none did.

        It belongs to the run, which ends after it. `current().run.ends` has the numbers of nodes by how they ended.
        After a retry of the run it runs again, as a new task with a new `current().idempotency_key`. Deduplicate its
        effects by one of its arguments, such as an order number.
        """
        self._at_end.append(on_end(self, call, when))

    def trigger(
        self, root: DagPlan | Call[Any], *, id: str | None = None, when: Literal["done", "failed", "always"] = "done"
    ) -> Node[int]:
        """Start another run when all nodes have ended: `etl.trigger(report.of(day=day, rows=rows.out))`.

        It is started once, under the names of both: `etl-0105/report`. The result is its id. A trigger that runs again
        after a retry starts the next generation of that name.
        """
        return trigger(self, root, id, when)

    def wait(
        self,
        run: OtherRun | str | int,
        node: str | Node[Any] | None = None,
        *,
        timeout: Duration | None = None,
        id: str | None = None,
        after: Iterable[Node[Any]] = (),
        queue: str = "default",
    ) -> Node[Any]:
        """Wait for another run, or a node of it: `etl.wait("orders-0105", "total")`. The run may start later.

        The result is that of the node; for a run, that of its root call, or of the last node of its DAG (if several, a
        dict by id). The node fails if the run or node fails, or at `timeout`.
        """
        call, named = wait_call(self.name, run, node, timeout, queue)
        return Node(self, self._append(call, named, id, after, "done"))

    def start_on(self, *datasets: str, when: Literal["all", "any"] = "all") -> None:
        """Start a run of it when other DAGs have produced these datasets: all since its last start, or any.

        `load.produces("orders")` declares a dataset. A param with its name gets the result of that node.
        """
        start_on(self, datasets, when)

    def include(self, other: Dag, prefix: str = "") -> Mapping[str, Node[Any]]:
        """Add the present nodes of another DAG, with a prefix to their ids. Return them by their old ids.

        Its params become params of this one; those of the same name must be of the same type.
        """
        return include(self, other, prefix)

    def of(self, **params: Any) -> DagPlan:
        """Make a run of it to be started, with a value for each param: `engine.run(etl.of(day=today))`."""
        values, known_later = given(self.name, self._params, params)
        if not self._calls:
            raise ConfigError(f"{self.name}: expected at least one node, got none. Write {self.name}.add(task.of(…)).")
        return self._plan(values, known_later)

    def _plan(self, values: Mapping[str, bytes], known_later: Mapping[str, Reference]) -> DagPlan:
        plan = DagPlan(
            self.name,
            tuple(self._ids),
            tuple(self._calls),
            self._connected(),
            tuple(self._rules),
            tuple((AtEnd(PackedCall.of(call), rule), call) for call, rule in self._at_end),
            values,
            dict(self._maps),
            definition=self,
            open=known_later,
        )
        if unused := [number for number in self._makers if not plan.graph.followers[number]]:
            raise ConfigError(
                f"{self.name}: {self._ids[unused[0]]} yields items, and no map takes them. Add a map(…) over its .each."
            )
        return plan.without(self._makers) if self._makers else plan

    def of_stored(self, params: Mapping[str, bytes]) -> DagPlan:
        """Make a run of it with params in their stored form."""
        return self.of(**values_of(self.name, self._params, params))

    # looking

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Node[Any]]:
        return (Node(self, number) for number in range(len(self._calls)))

    def __getitem__(self, id: str) -> Node[Any]:
        try:
            return Node(self, self._numbers[id])
        except KeyError:
            raise KeyError(f"{self.name}: unknown node {id!r}. {nearest(id, self._numbers)}") from None

    @property
    def order(self) -> list[Node[Any]]:
        """Return all nodes, each after its dependencies."""
        return self._nodes(self._connected().order)

    @property
    def levels(self) -> list[list[Node[Any]]]:
        """Return the nodes by the length of the longest path to them."""
        return [self._nodes(level) for level in self._connected().levels]

    def ready(self, done: Iterable[Node[Any]] = ()) -> list[Node[Any]]:
        """Return the nodes that can start when these are done."""
        return self._nodes(self._connected().ready({self._own(node) for node in done}))

    def dependencies(self, node: Node[Any], *, transitive: bool = False) -> list[Node[Any]]:
        """Return the nodes that a node waits for; with `transitive`, theirs too."""
        number, found = self._own(node), self._connected()
        return self._nodes(sorted(found.before([number]) if transitive else set(found.needs[number])))

    def dependents(self, node: Node[Any], *, transitive: bool = False) -> list[Node[Any]]:
        """Return the nodes that wait for a node; with `transitive`, theirs too."""
        number, found = self._own(node), self._connected()
        return self._nodes(sorted(found.behind([number]) if transitive else set(found.followers[number])))

    def critical_path(self, seconds: Mapping[str, float] | None = None) -> tuple[list[Node[Any]], float]:
        """Return the nodes that decide how long a run takes, and that length.

        `seconds` are the durations by id, as in `run.durations()` of an earlier run; without them each node counts as
        one.
        """
        its = (lambda number: 1.0) if seconds is None else (lambda number: seconds.get(self._ids[number], 0.0))
        way, length = self._connected().longest(its)
        return self._nodes(way), length

    @property
    def gives(self) -> Any:
        """The annotation of its result, if it has one last node; else Any."""
        (end, *others) = self._connected().ends or (0, 0)
        if others or (is_own(self._calls[end].kind) and end not in self._maps):
            return Any
        return list[self._gives(end)] if end in self._maps else self._gives(end)  # type: ignore[misc]  # not for mypy

    def __repr__(self) -> str:
        return f"<dag {self.name}: {len(self._calls):,} nodes>"

    # for nodes

    def _produce(self, node: Node[Any], datasets: tuple[str, ...]) -> None:
        produce(self, self._own(node), datasets)

    def _gives(self, number: int) -> Any:
        """The annotation of what a node gives; of a map, of each of its results."""
        if number in self._makers:
            return self._makers[number].items
        return self._maps.get(number, self._calls[number]).group.signature.result

    def _has_items(self, number: int) -> bool:
        """Return whether what it gives is known item by item."""
        return number in self._maps or number in self._makers

    def _case(self, node: Node[Any], name: str) -> Node[None]:
        return case(self, self._own(node), name)

    def _link(self, node: Node[Any], others: Iterable[Node[Any]]) -> None:
        number = self._own(node)
        if number in self._makers:
            raise ConfigError(
                f"{self.name}: {node} yields items, so after() comes too late for it. Write add(…, after=[…])."
            )
        more = dependencies(self, node.id, others, number)
        before = self._needs[number]
        self._needs[number], self._adjacency = (*before, *(other for other in more if other not in before)), None
        # While everything waits for what was added before it, there is no way round.
        points_ahead = self._points_ahead or max(more, default=0) > number
        if points_ahead and (cycle := self._connected().cycle()) is not None:
            self._needs[number], self._adjacency = before, None
            way = " waits for ".join(self._ids[each] for each in cycle)
            raise ConfigError(f"{self.name}: {node.id}: after: nodes cannot wait for each other: {way}. Leave one out.")
        self._points_ahead = points_ahead

    # keeping the books

    def _checked(self, verb: str, call: object) -> Sequence[Blank]:
        """The blanks of what can be a node here."""
        if not isinstance(call, Call) or isinstance(call, OpenCall):
            raise ConfigError(f"{self.name}: {verb}(): expected a call, got {instead_of_call(call)}.")
        if call.group.hold is not Hold.LABEL:
            raise ConfigError(f"{self.name}: {call!r}: a node runs once in its run anyway. Remove once() or unique().")
        if not isinstance(call, ReferringCall) or not has_blanks(call):
            return ()
        blanks = [each for each in call.references if isinstance(each, Blank)]
        for blank in blanks:
            if isinstance(blank.source, Param) and self._params.get(blank.source.name) is not blank.source:
                raise ConfigError(
                    f"{self.name}: {call.kind}: expected a param of this DAG, got the {blank!r} of another one."
                )
        return blanks

    def _append(self, call: Call[Any], kind: str, id: str | None, after: Iterable[Node[Any]], when: str) -> int:
        if when not in RULES:
            raise ConfigError(f"{self.name}: when={when!r}: expected {quoted(RULES)}.")
        id = key_text(call.label) if id is None else id
        said = kind if id is None else id
        references = call.references if isinstance(call, ReferringCall) else ()
        taken = [source_of(self, kind, each) for each in references if not isinstance(each, Blank)]
        more = () if isinstance(after, tuple) and not after else dependencies(self, said, after, None)
        needs = (*taken, *(other for other in more if other not in taken)) if more else tuple(taken)
        if not needs and when != "done":
            raise ConfigError(f"{self.name}: {said}: when={when!r} needs nodes to wait for. Give after=[…].")
        return self._insert(kept(call), self._free_id(kind) if id is None else id, needs, RULES[when])

    def _insert(self, call: Call[Any], id: str, needs: tuple[int, ...], rule: Rule) -> int:
        self._check_id(id)
        number = self._numbers[id] = len(self._calls)
        self._ids.append(id)
        self._calls.append(call)
        self._needs.append(needs)
        self._rules.append(rule)
        self._adjacency = None
        return number

    def _check_id(self, id: str) -> None:
        if not isinstance(id, str) or not id:
            raise ConfigError(f"{self.name}: id={id!r}: expected text that is not empty.")
        if id in self._numbers or id == CLOSING:
            raise ConfigError(f"{self.name}: id={id!r}: this id is taken. Give another id.")
        if len(key_bytes(id)) > MAX_KEY:
            raise ConfigError(f"{self.name}: id={id[:40]!r}…: expected at most {MAX_KEY:,} bytes. Use a shorter id.")

    def _free_id(self, kind: str) -> str:
        while True:
            count = self._alike[kind] = self._alike.get(kind, 0) + 1
            id = kind if count == 1 else f"{kind}#{count}"
            if id not in self._numbers and id != CLOSING:
                return id

    def _own(self, node: Node[Any] | str) -> int:
        """The number of a node, which may be named by its id."""
        if isinstance(node, Node) and node._dag is self:
            return node._number
        if isinstance(node, str) and node in self._numbers:
            return self._numbers[node]
        if isinstance(node, Node):
            raise ConfigError(
                f"{self.name}: {node.id} is a node of another DAG ({node._dag.name}). include() that DAG first."
            )
        hint = nearest(node, self._numbers) if isinstance(node, str) else "Give nodes or their ids."
        raise ConfigError(f"{self.name}: unknown node {node!r}. {hint}")

    def _nodes(self, numbers: Iterable[int]) -> list[Node[Any]]:
        return [Node(self, number) for number in numbers]

    def _connected(self) -> Adjacency:
        if self._adjacency is None:
            self._adjacency = Adjacency(behind_all(self._needs, self._triggers))
        return self._adjacency
