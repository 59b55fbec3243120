"""5. Fork and join.

`spawn(*calls, then=call)` makes children and a continuation that waits for all of them. The continuation gets their
results as a `Stream`, which is read page by page: there may be a million.
"""

from __future__ import annotations

from ramify import Engine, RunState, Stream, current

engine = Engine("join.db")


@engine.task(retries=0)
def square(n: int) -> int:
    if n < 0:
        raise ValueError(n)
    return n * n


@engine.task
def sum_up(title: str, numbers: Stream[int] = Stream()) -> str:
    # `numbers` is no part of the call: it is filled in when everything it waits for has ended.
    return f"{title}: {sum(numbers)}, and {numbers.broken} missing"


@engine.task
def squares(top: int) -> None:
    current().spawn(*(square.of(n) for n in range(top)), then=sum_up.of("squares"))


def test_a_continuation_waits_for_all_of_them() -> None:
    run = engine.run(squares.of(5))
    assert list(run.results(sum_up)) == ["squares: 30, and 0 missing"]


@engine.task
def risky(always: bool) -> None:
    then = sum_up.of("rest")
    current().spawn(square.of(3), square.of(-1), then=then.always() if always else then)


def test_it_is_skipped_when_one_of_them_failed_unless_it_wants_to_know() -> None:
    run = engine.run(risky.of(False))
    assert (run.state, run.counts.skipped) == (RunState.FAILED, 1)
    run = engine.run(risky.of(True))
    assert list(run.results(sum_up, partial=True)) == ["rest: 9, and 1 missing"]


@engine.task
def fibonacci(n: int) -> int | None:
    if n < 2:
        return n
    current().spawn(fibonacci.of(n - 1), fibonacci.of(n - 2), then=add.of())
    return None


@engine.task
def add(two: Stream[int] = Stream()) -> int:
    return sum(two)


def test_who_waits_for_a_task_that_forks_waits_for_its_continuation() -> None:
    run = engine.run(fibonacci.of(7))
    assert max(run.results(add)) == 13


@engine.task
def halve_by_a_child(n: int, waited_for: bool) -> int:
    # A continuation waits for its members, not for the children that they make. A child that is to be waited for, and
    # whose result is to be passed on, is made the member's own continuation: `spawn(then=...)`, with nobody before it.
    child = square.of(n // 2)
    current().spawn(then=child) if waited_for else current().spawn(child)
    return n


@engine.task
def halves(top: int, waited_for: bool) -> None:
    current().spawn(*(halve_by_a_child.of(n, waited_for) for n in range(top)), then=sum_up.of("halves"))


def test_a_continuation_waits_for_its_members_and_not_for_what_they_make() -> None:
    assert list(engine.run(halves.of(6, False)).results(sum_up)) == ["halves: 15, and 0 missing"]
    assert list(engine.run(halves.of(6, True)).results(sum_up)) == ["halves: 10, and 0 missing"]


@engine.task
def fails_by_a_child(waited_for: bool) -> int:
    child = square.of(-1)
    current().spawn(then=child) if waited_for else current().spawn(child)
    return 1


@engine.task
def report(waited_for: bool) -> None:
    current().spawn(fails_by_a_child.of(waited_for), then=sum_up.of("report").always())


def test_nor_does_it_hear_of_their_failures_unless_they_are_waited_for() -> None:
    assert list(engine.run(report.of(False)).results(sum_up, partial=True)) == ["report: 1, and 0 missing"]
    assert list(engine.run(report.of(True)).results(sum_up, partial=True)) == ["report: 0, and 1 missing"]
