"""`ramify.testing.attempt`: one real attempt of one call, without an engine at work."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any, assert_type

import pytest

from ramify import BadPayload, ConfigError, Fatal, OverwriteError, Stream, TaskError
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.testing import aattempt, attempt
from tests.testing import shop


@pytest.mark.parametrize("call", [shop.double.of(4), shop.slow_double.of(4)])
def test_an_attempt_gives_the_result_of_any_colour(call: object) -> None:
    assert attempt(call).result == 8  # type: ignore[arg-type]


def test_the_result_has_the_type_of_the_call() -> None:
    assert_type(attempt(shop.double.of(4)).result, int)
    assert_type(attempt(shop.count_down.of(0)).result, int)
    assert_type(attempt(shop.slow_count.of(0)).result, int)


def test_children_are_calls_in_the_order_in_which_they_were_made() -> None:
    done = attempt(shop.count_down.of(3))
    assert done.result == 3
    assert done.children == [shop.count_down.of(2), shop.double.of(3)]


def test_children_of_an_async_generator_come_with_its_last_word() -> None:
    done = attempt(shop.slow_count.of(2))
    assert (done.result, done.children) == (2, [shop.slow_double.of(0), shop.slow_double.of(1)])


def test_spawned_children_keep_their_options() -> None:
    with shop.ledger.override([]) as lines:
        done = attempt(shop.welcome.of("ann"))
    assert done.children == [shop.remind.of("ann").delay(3600)]
    assert lines == ["welcome ann"]


def test_a_fork_is_shown_with_its_members_and_its_continuation() -> None:
    (fork,) = attempt(shop.fan_out.of(2)).forks
    assert (list(fork.members), fork.then) == ([shop.double.of(0), shop.double.of(1)], shop.add_up.of("doubles"))


def test_a_continuation_is_given_the_results_it_waited_for() -> None:
    assert attempt(shop.add_up.of("sum"), results=[1, 2, 3]).result == ("sum", 6)


def test_a_continuation_is_told_which_members_broke() -> None:
    call = shop.review.of("all").always()
    done = attempt(call, results=[1, 2], broken=[ValueError("too big"), shop.OutOfPaper("ann")])
    assert done.result == ([1, 2], 2, ["member: too big", "member: ann"])
    assert attempt(call, broken=2).result[:2] == ([], 2)
    gone = TaskError(7, "double", "k", Status.CANCELLED, (3,), Failure("Cancelled", "not wanted"))
    assert attempt(call, results=[], broken=[gone]).result == ([], 1, ["double: not wanted"])
    assert attempt(call, results=[1]).result == ([1], 0, [])


def test_a_continuation_that_the_engine_would_skip_is_not_attempted() -> None:
    with pytest.raises(ConfigError, match=r"review\(\) would be skipped.*always\(\)"):
        attempt(shop.review.of("all"), results=[1], broken=1)
    with pytest.raises(ConfigError, match=r"double\(\) has no parameter that is a Stream"):
        attempt(shop.double.of(1), broken=1)
    wrongs: list[Any] = [-1, True, 1.5, None, ValueError("alone"), "text", ["text"]]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="how many members broke, or a list"):
            attempt(shop.review.of("all").always(), broken=wrong)


def test_a_task_that_takes_a_stream_is_called_with_one_that_the_test_makes() -> None:
    assert_type(Stream.of([1, 2]), Stream[int])
    assert shop.total(Stream.of([1, 2], failures=[ValueError("too big")])) == (3, ["too big"])
    made = Stream.of(range(3))
    assert (len(made), list(made), list(made), made.broken) == (3, [0, 1, 2], [0, 1, 2], 0)
    assert not Stream.of([])
    gone = TaskError(7, "double", "k", Status.CANCELLED, (3,), Failure("Cancelled", "not wanted"))
    assert list(Stream.of([], failures=[gone]).failures) == [gone]
    with pytest.raises(BadPayload, match=r"failures: expected exceptions, got 3\. Give what each member raised"):
        Stream.of([1], failures=[3])  # type: ignore[list-item]
    with pytest.raises(BadPayload, match=r"Stream\(\): expected no argument, got \[1, 2\]\. Write Stream\.of"):
        Stream([1, 2])  # type: ignore[arg-type]


def test_an_attempt_takes_such_a_stream_among_its_arguments() -> None:
    assert attempt(shop.total.of(Stream.of([1, 2], failures=[ValueError("too big")]))).result == (3, ["too big"])
    assert attempt(shop.total.of(Stream.of([]))).result == (0, [])
    with pytest.raises(BadPayload, match=r"`rows` is a Stream and was given .*in a test, pass Stream\.of"):
        shop.total.of(Stream())
    # Results take the way through the store, as a dataclass would.
    with pytest.raises(BadPayload, match=r"results: `each`: expected int, got a str"):
        attempt(shop.total.of(Stream.of(["x"])))  # type: ignore[list-item]
    assert attempt(shop.add_up.of("sum", Stream.of([4, 5]))).result == ("sum", 9)
    assert attempt(shop.add_up.of("sum", numbers=Stream.of([4, 5]))).result == ("sum", 9)


def test_an_attempt_of_a_call_without_its_stream_is_given_one() -> None:
    # A checker knows no call that lacks an argument.
    open_call: Any = shop.total.of()  # type: ignore[call-arg]
    assert attempt(open_call, results=[1, 2]).result == (3, [])
    assert attempt(open_call, results=[]).result == (0, [])
    assert attempt(open_call.always(), results=[1], broken=[ValueError("too big")]).result == (1, ["too big"])
    with pytest.raises(ConfigError, match=r"total\(\) would be skipped"):
        attempt(open_call, results=[1], broken=1)


def test_results_are_given_in_the_order_in_which_they_are_named() -> None:
    dag = shop.engine.dag("in order")
    one, items = dag.add(shop.double.of(2)), dag.add(shop.numbers.of())
    some, others = dag.map(shop.double.of(items.each)), dag.map(shop.double.of(items.each), id="others")
    both = shop.between.of(some.out, one.out, others.out)
    assert attempt(both, results=[[1, 2], 5, [3]]).result == ([1, 2], 5, [3])
    with pytest.raises(ConfigError, match="several streams as a list each"):
        attempt(both, results=[5, [1, 2], [3]])


def test_wrong_results_are_refused_with_what_to_write() -> None:
    wrong: Any = 4
    with pytest.raises(ConfigError, match=r"expected a list of results, got results=4\. Write results=\[1, 2\]"):
        attempt(shop.add_up.of("sum"), results=wrong)
    with pytest.raises(ConfigError, match=r"expected a list of results, got 4\. Write Stream\.of\(\[1, 2\]\)"):
        Stream.of(wrong)
    with pytest.raises(ConfigError, match=r"expected a list of exceptions as failures, got OSError\(\)"):
        Stream.of([1], failures=OSError())  # type: ignore[arg-type]


def test_a_stream_of_a_test_is_for_tests_alone() -> None:
    dag = shop.engine.dag("d")
    with pytest.raises(
        ConfigError, match=r"total: expected a node of this DAG, got the <results of <Stream of 1 results, 0 broken>>"
    ):
        dag.add(shop.total.of(Stream.of([1])))
    with pytest.raises(ConfigError, match="which is not known here"):
        shop.engine.start(shop.total.of(Stream.of([1])))


def test_a_node_of_a_dag_is_attempted_with_the_results_that_it_takes() -> None:
    dag = shop.engine.dag("d")
    one = dag.add(shop.double.of(1))
    many = dag.map(shop.double.of(dag.add(shop.numbers.of()).each))
    more = dag.map(shop.double.of(dag.add(shop.numbers.of()).each))
    assert attempt(shop.total.of(many.out), results=[1, 2]).result == (3, [])
    assert attempt(shop.total.of(many.out), results=[]).result == (0, [])
    assert attempt(shop.total.of(many.out), results=[1], broken=[ValueError("no")]).result == (1, ["no"])
    # A reference that is named twice takes its result once; the stream takes the rest.
    assert attempt(shop.mixed.of(one.out, many.out, one.out), results=[7, 1, 2]).result == [7, 1, 2, 7]
    assert attempt(shop.mixed.of(1, many.out, one.out), results=[1, 2, 7]).result == [1, 1, 2, 7]
    assert attempt(shop.two.of(many.out, more.out), results=[[1, 2], [3]]).result == [[1, 2], [3]]
    assert attempt(shop.two.of(many.out, Stream.of([3])), results=[1, 2]).result == [[1, 2], [3]]
    for wrong in (
        lambda: attempt(shop.total.of(many.out)),
        lambda: attempt(shop.double.of(one.out), results=[1, 2]),
        lambda: attempt(shop.double.of(one.out), results=[1], broken=1),
        lambda: attempt(shop.mixed.of(one.out, many.out, 1), results=[]),
        lambda: attempt(shop.total.of(Stream.of([1])), results=[1]),
        lambda: attempt(shop.two.of(many.out, more.out), results=[[1]]),
        lambda: attempt(shop.two.of(many.out, more.out), results=[1, 2]),
    ):
        with pytest.raises(ConfigError, match=r"takes results of others\. Give them as results=\[…\]"):
            wrong()


def test_a_handler_gets_the_resources_that_the_test_gives() -> None:
    lines: list[str] = []
    attempt(shop.welcome.of("ann"), resources={shop.ledger: lines})
    assert lines == ["welcome ann"]
    assert attempt(shop.ask.of(), resources={shop.client: "a fake", shop.ledger: []}).result == "a fake"
    assert asyncio.run(aattempt(shop.ask.of(), resources={shop.client: "a fake"})).result == "a fake"
    assert attempt(shop.ask.of()).result == "a real client"
    with pytest.raises(ConfigError, match=r"@engine\.resource"):
        attempt(shop.ask.of(), resources={"client": "a fake"})  # type: ignore[dict-item]


def test_results_are_refused_for_a_task_that_waits_for_none() -> None:
    with pytest.raises(ConfigError, match=r"double\(\) has no parameter that is a Stream"):
        attempt(shop.double.of(1), results=[1])


def test_what_a_handler_raises_is_raised_as_it_was() -> None:
    with shop.ledger.override([]), pytest.raises(shop.OutOfPaper, match="ann"):
        attempt(shop.print_bill.of("ann"))
    with pytest.raises(Fatal, match="no use"):
        attempt(shop.give_up.of())
    with pytest.raises(shop.OutOfPaper, match="bob"):
        attempt(shop.slow_bill.of("bob"))
    with pytest.raises(TimeoutError):
        attempt(shop.sleepy.of())


def test_a_result_that_cannot_be_stored_is_refused_as_the_engine_would() -> None:
    with pytest.raises(BadPayload):
        attempt(shop.unstorable.of())


def test_limits_hold() -> None:
    assert len(attempt(shop.many.of(3)).children) == 3
    with pytest.raises(Fatal, match="max_children"):
        attempt(shop.many.of(4))


def test_very_many_children_are_all_there() -> None:
    assert len(attempt(shop.slow_count.of(9_000)).children) == 9_000


def test_a_deferred_attempt_has_no_result() -> None:
    with shop.ledger.override([]):
        done = attempt(shop.wait_for_ink.of())
    assert done.deferred == 120
    with pytest.raises(AssertionError, match="deferred by 120 seconds"):
        _ = done.result


def test_current_works_and_logs_are_kept() -> None:
    done = attempt(shop.chatty.of(), number=2, params={"who": "ann"})
    assert done.result == "chatty ann"
    assert done.texts == ["careful", "attempt 2 of ann", "1 of 2 half"]


def test_a_leader_is_told_by_the_test() -> None:
    assert attempt(shop.compare.of("/a"), leader={"/a": ["same", "new"]}).result == ["new"]
    with pytest.raises(KeyError):
        attempt(shop.compare.of("/b"), leader={})
    with pytest.raises(ConfigError, match="leader="):
        attempt(shop.compare.of("/b"))


def test_the_context_is_told_by_the_test_and_what_was_set_is_told_to_it() -> None:
    alone = attempt(shop.weigh.of("pears", 5))
    assert (alone.result, alone.context) == (5, {"weight of pears": 5, "total": 5})
    after = attempt(shop.weigh.of("pears", 5), context={"total": 7, "other": (1, 2)})
    assert (after.result, after.context) == (12, {"weight of pears": 5, "total": 12})
    with pytest.raises(OverwriteError, match="'weight of pears' is set in the context"):
        attempt(shop.weigh.of("pears", 5), context={"weight of pears": 4})
    with pytest.raises(BadPayload, match="context: `total` is nan"):
        attempt(shop.weigh.of("pears", 5), context={"total": math.nan})


def test_an_async_attempt_has_a_context_too_and_one_that_is_put_off_sets_nothing() -> None:
    assert attempt(shop.slow_weigh.of("now")).context == {"now": 2}
    assert attempt(shop.slow_weigh.of("later")).context == {}
    with pytest.raises(OverwriteError):
        asyncio.run(aattempt(shop.slow_weigh.of("now"), context={"now": 1}))


def test_values_are_told_by_the_test_and_what_was_left_is_told_to_it() -> None:
    done = attempt(shop.spend.of("ann", 3), values={"quota": {"ann": 5, "bob": 7}, "other": {"x": [1, "\udc80"]}})
    assert (done.result, done.children) == (3, [shop.double.of(3)])
    assert done.values == {"quota": {"ann": 2, "bob": 7}, "other": {"x": [1, "\udc80"]}, "last": {"spender": "ann"}}
    gone = attempt(shop.spend.of("ann", 5), values={"quota": {"ann": 5}})
    assert gone.values == {"last": {"spender": "ann"}}
    with pytest.raises(Fatal, match="ann has not enough"):
        attempt(shop.spend.of("ann", 3))
    assert attempt(shop.double.of(3)).values == {}


def test_an_async_attempt_has_values_too_and_one_that_is_put_off_changes_none() -> None:
    assert attempt(shop.slow_spend.of("now")).values == {"quota": {"now": 1}}
    assert attempt(shop.slow_spend.of("later"), values={"quota": {"later": 9}}).values == {"quota": {"later": 9}}
    assert asyncio.run(aattempt(shop.slow_spend.of("x"), values={"quota": {"x": 9}})).values == {"quota": {"x": 8}}


def test_values_that_no_store_keeps_are_refused() -> None:
    wrongs: list[tuple[Any, type[Exception], str]] = [
        ({"quota": 5}, ConfigError, r"attempt\(values=\{'quota': 5\}\): expected values by name. Write \{'a': 1\}."),
        ({"quota": {"": 5}}, BadPayload, "the name of a value is empty"),
        ({"": {"a": 5}}, BadPayload, "the space of a value is empty"),
        ({"quota": {"a": math.nan}}, BadPayload, r"attempt\(values=...\): `a` is nan"),
    ]
    for wrong, error, why in wrongs:
        with pytest.raises(error, match=why):
            attempt(shop.spend.of("ann", 3), values=wrong)


def test_every_attempt_has_the_same_idempotency_key_so_that_a_test_can_name_it() -> None:
    assert attempt(shop.pay.of(1250)).result == attempt(shop.pay.of(1250), number=2).result == "test-1-2"


def test_an_attempt_that_stops_its_run_says_why() -> None:
    assert attempt(shop.halt.of()).stopped == "seen enough"
    assert attempt(shop.double.of(1)).stopped is None


def test_a_delayed_call_is_tried_at_once() -> None:
    assert attempt(shop.double.of(1).delay(3600)).result == 2


def test_an_async_attempt_would_block_an_event_loop_and_is_refused_there() -> None:
    async def test() -> int:
        assert attempt(shop.double.of(1)).result == 2
        with pytest.raises(ConfigError, match=r"await aattempt"):
            attempt(shop.slow_double.of(4))
        return (await aattempt(shop.slow_double.of(4))).result

    assert asyncio.run(test()) == 8


def test_what_is_no_call_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the task double itself\. Write double\.of"):
        attempt(shop.double)  # type: ignore[arg-type]


def test_no_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    attempt(shop.double.of(1))
    assert not list(tmp_path.iterdir())
