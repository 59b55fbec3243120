"""DAGs as they are written: names, edges, params, and everything that is refused where it stands."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from ramify import BadPayload, ConfigError, Dag, Engine, Node, RamifyError, Stream
from tests.shapes.dags import add, anything, listed, number, numbers, on_day, tasks, text, texts, total

engine = Engine("memory:", include=[tasks])


def dag(name: str = "etl") -> Dag:
    return engine.dag(name)


def ids(nodes: list[Node[Any]]) -> list[str]:
    return [node.id for node in nodes]


# ids


def test_a_node_is_called_like_its_task_and_the_second_one_has_a_number() -> None:
    etl = dag()
    assert ids([etl.add(number.of(n)) for n in range(3)]) == ["number", "number#2", "number#3"]


def test_a_number_that_is_taken_is_passed_over() -> None:
    etl = dag()
    etl.add(number.of(0), id="number#2")
    assert ids([etl.add(number.of(n)) for n in range(2)]) == ["number", "number#3"]


def test_an_id_is_any_text_and_a_key_is_one() -> None:
    etl = dag()
    assert etl.add(number.of(1), id="Zürich → Basel").id == "Zürich → Basel"

    @engine.task(key="path")
    def read(path: str) -> None: ...

    assert etl.add(read.of("a/b.csv")).id == "a/b.csv"
    assert etl.add(read.of("a/b.csv"), id="mine").id == "mine"
    with pytest.raises(ConfigError, match=r"id='a/b\.csv': this id is taken\. Give another id"):
        etl.add(read.of("a/b.csv"))


def test_maps_and_cases_have_ids_of_their_own() -> None:
    etl = dag()
    files = etl.add(texts.of(["a"]))
    assert etl.map(text.of(files.each)).id == "text"
    assert etl.map(text.of(files.each), id="again").id == "again"
    assert files.case("a").id == "texts=a"
    assert files.case("a") == files.case("a")


def test_nodes_of_a_dag_are_the_same_wherever_they_come_from() -> None:
    etl = dag()
    first = etl.add(number.of(1))
    (again,) = etl
    assert again == first
    assert len({again, first}) == 1
    assert again != dag().add(number.of(1))
    both = etl.add(add.of(first.out, again.out))
    assert etl.dependencies(both) == [first]
    assert repr(both) == "<node add>"
    assert repr(etl) == "<dag etl: 2 nodes>"


# what is refused


def refused(what: Callable[[], object], says: str, error: type[RamifyError] = ConfigError) -> None:
    with pytest.raises(error, match=re.escape(says)):
        what()


@pytest.mark.parametrize("name", ["", "x" * 256, 7, None])
def test_a_name_of_a_dag_that_cannot_be_kept_is_refused(name: Any) -> None:
    refused(lambda: engine.dag(name), "the name of a DAG")


@pytest.mark.parametrize("id", ["", 7])
def test_an_id_that_is_no_text_or_empty_is_refused(id: Any) -> None:
    refused(lambda: dag().add(number.of(1), id=id), f"etl: id={id!r}: expected text that is not empty")


def test_an_id_that_is_too_long_to_be_a_key_is_refused_where_it_is_written() -> None:
    refused(lambda: dag().add(number.of(1), id="x" * 8_193), "expected at most 8,192 bytes")


def test_a_duplicate_id_is_refused_and_leaves_the_dag_as_it_was() -> None:
    etl = dag()
    etl.add(number.of(1), id="x")
    refused(lambda: etl.add(number.of(2), id="x"), "id='x': this id is taken")
    refused(lambda: etl.add(number.of(2), id="(end)"), "id='(end)': this id is taken")
    assert ids(list(etl)) == ["x"]


def test_an_unknown_dependency_is_refused_with_what_was_perhaps_meant() -> None:
    etl = dag()
    etl.add(number.of(1), id="files")
    wrong: Any = ["file"]
    refused(lambda: etl.add(number.of(2), after=wrong), "unknown node 'file'. Did you mean 'files'?")
    wrong = [3]
    refused(lambda: etl.add(number.of(2), after=wrong), "unknown node 3. Give nodes or their ids.")
    assert len(etl) == 1


def test_a_dependency_may_be_named_by_its_id() -> None:
    etl = dag()
    first = etl.add(number.of(1), id="files")
    by_name: Any = ["files"]
    assert etl.dependencies(etl.add(number.of(2), after=by_name)) == [first]


def test_a_node_or_a_text_instead_of_a_list_is_refused() -> None:
    etl = dag()
    first: Any = etl.add(number.of(1), id="files")
    for wrong in (first, "files"):
        refused(lambda wrong=wrong: etl.add(number.of(2), after=wrong), "expected a list of nodes. Write after=[…].")  # type: ignore[misc]


def test_a_duplicate_dependency_is_refused() -> None:
    etl = dag()
    first = etl.add(number.of(1), id="files")
    refused(lambda: etl.add(number.of(2), after=[first, first]), "number: after: files is listed twice. List it once.")
    second = etl.add(number.of(2))
    refused(lambda: second.after(first, first), "number: after: files is listed twice. List it once.")


def test_a_result_that_is_taken_need_not_be_waited_for_again() -> None:
    etl = dag()
    first = etl.add(number.of(1))
    both = etl.add(add.of(first.out, first.out), after=[first])
    both.after(first)
    assert etl.dependencies(both) == [first]


def test_a_node_cannot_wait_for_itself() -> None:
    first = dag().add(number.of(1))
    refused(lambda: first.after(first), "number: after: a node cannot wait for itself")


def test_a_cycle_is_refused_with_its_path_and_changes_nothing() -> None:
    etl = dag()
    a, b, c = (etl.add(number.of(1), id=id) for id in "abc")
    b.after(a)
    c.after(b)
    refused(
        lambda: a.after(c), "etl: a: after: nodes cannot wait for each other: a waits for c waits for b waits for a"
    )
    assert ids(etl.order) == ["a", "b", "c"]
    assert etl.dependencies(a) == []


@pytest.mark.parametrize("last", range(3))
def test_a_cycle_is_found_whichever_of_its_edges_comes_last(last: int) -> None:
    etl = dag()
    nodes = [etl.add(number.of(1), id=id) for id in "abc"]
    edges = [(0, 2), (1, 0), (2, 1)]
    for waits, other in edges[last + 1 :] + edges[:last]:
        nodes[waits].after(nodes[other])
    waits, other = edges[last]
    refused(lambda: nodes[waits].after(nodes[other]), "cannot wait")
    assert sorted(ids(etl.order)) == ["a", "b", "c"]


def test_nodes_of_another_dag_are_refused() -> None:
    etl, other = dag(), dag("other")
    mine, theirs = etl.add(number.of(1)), other.add(numbers.of(1))
    says = "numbers is a node of another DAG (other). include() that DAG first."
    refused(lambda: etl.add(number.of(1), after=[theirs]), says)
    refused(lambda: mine.after(theirs), says)
    refused(lambda: etl.dependents(theirs), says)
    refused(lambda: etl.map(number.of(theirs.each)), says)
    taken: Any = theirs.out
    refused(lambda: etl.add(listed.of(other.map(number.of(theirs.each)).out)), "expected a node of this DAG")
    refused(lambda: etl.add(number.of(taken)), "`n` takes int, and the <result of numbers> is list[int]", BadPayload)


def test_a_param_of_another_dag_is_refused() -> None:
    etl, other = dag(), dag("other")
    etl.param("day", date)
    day = other.param("day", date)
    refused(lambda: etl.add(on_day.of(day)), "on_day: expected a param of this DAG, got the <param day> of another one")


def test_a_result_that_never_fits_the_parameter_is_refused() -> None:
    etl = dag()
    day, files, one = etl.param("day", date), etl.add(texts.of(["a"])), etl.add(number.of(1))
    out: Any
    for out, call, says in (
        (one.out, text, "`one` takes str, and the <result of number> is int"),
        (files.out, number, "`n` takes int, and the <result of texts> is list[str]"),
        (day, number, "`n` takes int, and the <param day> is date"),
        (files.each, number, "`n` takes int, and the <each of texts> is str"),
        (etl.map(text.of(files.each)).out, total, "`parts` takes int, and the <results of text> is str"),
    ):
        refused(lambda call=call, out=out: cast("Any", call).of(out), says, BadPayload)  # type: ignore[misc]


def test_what_is_not_a_list_cannot_be_mapped_over() -> None:
    etl = dag()
    one: Any = etl.add(number.of(1))
    refused(
        lambda: etl.map(number.of(one.each)),
        "etl: map(number): expected a list to map over, got number, which returns int",
    )


def test_the_result_of_a_map_is_a_stream_and_of_others_none() -> None:
    etl = dag()
    files = etl.add(numbers.of(3))
    mapped: Any = etl.map(number.of(files.each)).out
    single: Any = files.out
    refused(lambda: number.of(mapped), "which are a stream; annotate it Stream[...]", BadPayload)
    refused(lambda: total.of(single), "`parts` is a Stream and was given <result of numbers>", BadPayload)


@pytest.mark.parametrize("verb", ["add", "map", "on_end"])
def test_only_calls_are_nodes(verb: str) -> None:
    etl: Any = dag()
    refused(lambda: getattr(etl, verb)(number), f"etl: {verb}(): expected a call, got")
    refused(lambda: getattr(etl, verb)(number.of(1).once("x")), "a node runs once in its run anyway")
    refused(lambda: getattr(etl, verb)(number.of(1).unique("x")), "Remove once() or unique().")


def test_an_item_is_refused_where_there_is_no_map_and_two_in_one() -> None:
    etl = dag()
    files, more = etl.add(numbers.of(3)), etl.add(numbers.of(2))
    says = "add(number): expected one value, got <each of numbers>. Use etl.map(…), or pass"
    refused(lambda: etl.add(number.of(files.each)), says)
    refused(lambda: etl.map(number.of(1)), "map(number): expected the items of one node, got none. Pass node.each.")
    two = "expected the items of one node, got numbers.each and numbers#2.each. Pass node.each."
    refused(lambda: etl.map(add.of(files.each, more.each)), two)
    etl.on_end(number.of(1))
    refused(
        lambda: etl.on_end(number.of(files.each)), "on_end(): expected no results of nodes, got the <each of numbers>"
    )


def test_a_map_takes_no_stream_for_each_of_its_items() -> None:
    @engine.task
    def compare(n: int, others: Stream[int]) -> int:
        return n

    etl = dag()
    files = etl.add(numbers.of(3))
    mapped = etl.map(number.of(files.each))
    says = "map(compare): expected one value for each item, got the <results of number>"
    refused(lambda: etl.map(compare.of(files.each, mapped.out)), says)


@pytest.mark.parametrize("when", ["never", "all", None, ""])
def test_a_when_that_is_none_is_refused(when: Any) -> None:
    etl = dag()
    first = etl.add(number.of(1))
    words = '"done" or "none-failed" or "any-done" or "failed" or "always"'
    refused(lambda: etl.add(number.of(1), after=[first], when=when), f"when={when!r}: expected {words}")
    words = '"done" or "failed" or "always"'
    refused(lambda: etl.on_end(number.of(1), when=when), f"on_end(when={when!r}): expected {words}")


def test_a_when_without_anything_to_wait_for_is_refused() -> None:
    says = "number: when='failed' needs nodes to wait for. Give after=[…]."
    refused(lambda: dag().add(number.of(1), when="failed"), says)


@pytest.mark.parametrize("wrong", [{"on_failed": "ignore"}, {"max_items": -1}, {"max_items": True}, {"max_items": 1.5}])
def test_settings_of_a_map_that_say_nothing_are_refused(wrong: dict[str, Any]) -> None:
    etl = dag()
    files = etl.add(numbers.of(3))
    ((name, value),) = wrong.items()
    refused(lambda: etl.map(number.of(files.each), **wrong), f"etl: {name}={value!r}: expected")


def test_a_case_has_a_name_and_is_one_of_a_single_result() -> None:
    etl = dag()
    files = etl.add(texts.of(["a"]))
    refused(lambda: files.case(""), "case(''): expected a name, got ''. Let texts return a str, and write case(")
    refused(lambda: files.case(cast("str", 3)), "case(3): expected a name, got 3. Let texts return a str")
    mapped = etl.map(text.of(files.each))
    refused(lambda: mapped.case("a"), "case('a'): expected a node, got the map text. Let one node return a name")
    count = etl.add(number.of(1))
    says = (
        "case('a'): expected a node that returns a name, got number, which returns int. Let it return a str, or a list"
    )
    refused(lambda: count.case("a"), says)
    assert len(etl) == 3


def test_a_node_where_its_result_is_meant_and_a_result_where_the_node_is_are_told() -> None:
    etl = dag()
    one: Any = etl.add(number.of(1))
    named: Any = etl.add(number.of(1), id="my node")
    many: Any = etl.map(text.of(etl.add(texts.of(["a"])).each))
    refused(lambda: number.of(one), "number(): `n` is the node number itself. Pass number.out, its result", BadPayload)
    refused(lambda: number.of(named), "`n` is the node my node itself. Pass node.out, its result", BadPayload)
    refused(lambda: anything.of([one.out, {"x": one}]), "is the node number itself. Pass number.out", BadPayload)
    refused(lambda: total.of(many), "is the node text itself. Pass text.out, its result", BadPayload)
    out: Any = one.out
    refused(
        lambda: etl.add(number.of(2), after=[out]), "after: expected a node, got the <result of number>. Give the node"
    )
    refused(lambda: etl.add(number.of(2), after=out), "after: expected a list of nodes. Write after=[…].")


def test_what_follows_the_end_takes_no_results() -> None:
    etl = dag()
    first = etl.add(number.of(1))
    refused(
        lambda: etl.on_end(number.of(first.out)), "on_end(): expected no results of nodes, got the <result of number>"
    )


@pytest.mark.parametrize("kind", ["ramify.map", "ramify.mine"])
def test_names_of_our_own_tasks_are_refused_for_others(kind: str) -> None:
    def mine() -> None: ...

    refused(lambda: engine.task(name=kind)(mine), "reserved for DAGs")
    refused(lambda: engine.task(aliases=[kind])(mine), "reserved for DAGs")


def test_a_dag_without_nodes_cannot_be_run() -> None:
    refused(lambda: dag().of(), "etl: expected at least one node, got none. Write etl.add(task.of(…)).")


def test_a_call_of_another_engine_is_refused_when_a_run_starts() -> None:
    elsewhere = Engine("memory:")

    @elsewhere.task
    def strange(n: int) -> int:
        return n

    plain, mapped, ending = dag(), dag(), dag()
    plain.add(strange.of(1))
    mapped.map(strange.of(mapped.add(numbers.of(1)).each))
    ending.add(number.of(1))
    ending.on_end(strange.of(1))
    for etl in (plain, mapped, ending):
        refused(lambda etl=etl: engine.start(etl.of()), "strange")  # type: ignore[misc]


# params


def test_params_are_given_by_name_and_refused_where_they_do_not_fit() -> None:
    etl = dag()
    day = etl.param("day", date)
    etl.param("depth", int, 3)
    etl.add(on_day.of(day))
    given: Any = etl.of
    refused(lambda: given(), "etl: missing params without a default. Give day=….")
    refused(lambda: given(dya=date(2026, 1, 5)), "etl: unknown param 'dya'. Did you mean 'day'?")
    refused(lambda: given(zzz=1), "etl: unknown param 'zzz'. It has day and depth.")
    refused(lambda: given(day="monday"), "etl: `day`: expected date, got a str")
    refused(lambda: given(day=date(2026, 1, 5), depth="3"), "etl: `depth`: expected int, got a str")
    assert str(etl.of(day=date(2026, 1, 5))) == "etl(depth=3, day='2026-01-05'), 1 nodes"


def test_a_dag_without_params_says_so() -> None:
    etl = dag()
    etl.add(number.of(1))
    refused(lambda: etl.of(day=1), "etl: unknown param 'day'. It has none.")


def test_params_that_cannot_be_are_refused() -> None:
    etl = dag()
    etl.param("day", date)
    refused(lambda: etl.param("day", date), "etl: param('day'): this name is taken")
    refused(lambda: etl.param("two words", date), "expected a name that can be written as etl.of(name=…)")
    wrong: Any = "3"
    refused(lambda: etl.param("depth", int, wrong), "`depth`: expected int, got a str")
    nameless: Any = ["x"]
    refused(lambda: etl.param(nameless, date), "expected a name that can be written")


def test_nothing_can_be_made_of_a_param_but_an_argument() -> None:
    etl = dag()
    day = etl.param("day", date)
    refused(lambda: f"{day}", "<param day> is not known yet", BadPayload)
    refused(lambda: bool(day), "<param day> is not known yet, so it cannot be true or false here", BadPayload)
    call = on_day.of(day, 3)
    assert repr(call) == "on_day('<blank 0>', 3)"
    refused(lambda: call.once(), "its arguments are its key, and <param day> is not known yet", BadPayload)
    refused(lambda: engine.start(call), "on_day with the <param day>, which is not known here")


# reads


@pytest.fixture
def diamond() -> Dag:
    etl = dag()
    top = etl.add(number.of(1), id="top")
    left, right = etl.add(add.of(top.out), id="left"), etl.add(add.of(top.out), id="right")
    etl.add(add.of(left.out, right.out), id="bottom")
    etl.add(number.of(2), id="apart")
    return etl


def node(etl: Dag, id: str) -> Node[Any]:
    (found,) = [each for each in etl if each.id == id]
    return found


def test_order_levels_and_what_is_ready(diamond: Dag) -> None:
    assert ids(diamond.order) == ["top", "left", "right", "bottom", "apart"]
    assert [ids(level) for level in diamond.levels] == [["top", "apart"], ["left", "right"], ["bottom"]]
    assert ids(diamond.ready()) == ["top", "apart"]
    assert ids(diamond.ready([node(diamond, "top")])) == ["left", "right", "apart"]
    assert ids(diamond.ready([node(diamond, id) for id in ("top", "left")])) == ["right", "apart"]
    assert ids(diamond.ready(list(diamond))) == []
    assert (dag().order, dag().levels, dag().ready(), len(dag())) == ([], [], [], 0)


def test_an_order_is_kept_when_edges_point_the_other_way() -> None:
    etl = dag()
    first, last = etl.add(number.of(1), id="added first"), etl.add(number.of(1), id="added last")
    first.after(last)
    assert ids(etl.order) == ["added last", "added first"]
    assert [ids(level) for level in etl.levels] == [["added last"], ["added first"]]


def test_dependencies_and_dependents_direct_and_transitive(diamond: Dag) -> None:
    top, bottom = node(diamond, "top"), node(diamond, "bottom")
    assert ids(diamond.dependencies(bottom)) == ["left", "right"]
    assert ids(diamond.dependencies(bottom, transitive=True)) == ["top", "left", "right"]
    assert ids(diamond.dependents(top)) == ["left", "right"]
    assert ids(diamond.dependents(top, transitive=True)) == ["left", "right", "bottom"]
    assert diamond.dependents(node(diamond, "apart"), transitive=True) == []


def test_the_critical_path_is_the_one_that_takes_longest(diamond: Dag) -> None:
    way, length = diamond.critical_path()
    assert (len(way), length) == (3, 3.0)
    way, length = diamond.critical_path({"top": 1.0, "left": 1.0, "right": 2.5, "bottom": 1.0})
    assert (ids(way), length) == (["top", "right", "bottom"], 4.5)
    way, length = diamond.critical_path({"apart": 9.0, "top": 1.0})
    assert (ids(way), length) == (["apart"], 9.0)
    assert dag().critical_path() == ([], 0.0)


def test_a_dag_itself_is_no_root() -> None:
    etl = dag()
    etl.add(number.of(1))
    refused(lambda: engine.run(etl), "<dag etl: 1 nodes> itself. Write etl.of(...) with its params")  # type: ignore[arg-type]


# many


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called for it, ours and those of Python: what it costs, on whatever machine."""
    count = 0

    def called(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def chain_of(many: int) -> None:
    etl = dag()
    last = etl.add(number.of(0))
    for _ in range(many):
        last = etl.add(add.of(last.out, 1))
    etl.of()


def test_adding_a_node_costs_the_same_however_many_there_are() -> None:
    chain_of(1)  # what is made once for all
    assert calls_of(lambda: chain_of(5_000)) < 11 * calls_of(lambda: chain_of(500))


def test_edges_that_are_added_later_cost_the_same_however_many_nodes_there_are() -> None:
    def link_all(many: int) -> int:
        etl = dag()
        nodes = [etl.add(number.of(n)) for n in range(many)]

        def link() -> None:
            for one, other in pairwise(nodes):
                other.after(one)

        return calls_of(link)

    assert link_all(2_000) < 11 * link_all(200)


# other DAGs


def part() -> Dag:
    etl = dag("part")
    day = etl.param("day", date)
    files = etl.add(numbers.of(3), id="files")
    loads = etl.map(number.of(files.each), id="loads")
    etl.add(total.of(loads.out), id="total")
    etl.add(on_day.of(day), after=[files.case("x")], id="x only")
    return etl


def test_a_dag_is_taken_in_by_value_with_a_prefix() -> None:
    inner = part()
    etl = dag()
    by_id = etl.include(inner, prefix="a.")
    assert ids(list(etl)) == ["a.files", "a.loads", "a.total", "a.files=x", "a.x only"]
    assert {old: new.id for old, new in by_id.items()} == {old: f"a.{old}" for old in by_id}
    assert ids(etl.dependencies(by_id["total"])) == ["a.loads"]
    etl.add(add.of(by_id["total"].out, 1), id="more")
    inner.add(number.of(1), id="later")
    assert ids(list(etl))[5:] == ["more"]
    assert by_id["files"].case("x") == by_id["files=x"]
    assert by_id["files"].case("y").id == "a.files=y"
    refused(lambda: etl.of(), "Give day=…")


def test_a_dag_is_taken_in_whole_or_not_at_all() -> None:
    etl = dag()
    etl.add(number.of(1), id="total")
    etl.param("day", date)
    refused(lambda: etl.include(part()), "id='total': this id is taken")
    assert ids(list(etl)) == ["total"]
    other = dag("other")
    other.param("more", int)
    other.param("day", int)
    refused(lambda: etl.include(other), "include(other): both have a param 'day', of different types")
    refused(lambda: etl.include(etl), "a DAG cannot include itself")
    etl.include(part(), prefix="b/")
    etl.of(day=date(2026, 1, 5))


def test_an_edge_that_points_ahead_is_taken_in_as_well() -> None:
    inner = dag("inner")
    a, b = inner.add(number.of(1), id="a"), inner.add(number.of(1), id="b")
    a.after(b)
    etl = dag()
    etl.include(inner)
    assert ids(etl.order) == ["b", "a"]


def test_a_path_in_a_param_or_a_result_is_what_its_parameter_takes() -> None:
    @engine.task
    def find(folder: Path) -> list[Path]:
        return [folder]

    @engine.task
    def load(path: Path, name: str) -> int:
        return 1

    etl = dag()
    files = etl.add(find.of(etl.param("folder", Path)))
    etl.map(load.of(files.each, "orders"))
    assert ids(list(etl)) == ["find", "load"]
