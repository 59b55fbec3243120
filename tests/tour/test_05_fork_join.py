"""5. Fork and join.

`current().spawn(*calls, then=call)` creates children, and a continuation that waits for all of them. The continuation
gets their results as a `Stream`, which it reads page by page: there may be a million.
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
    # `numbers` is not part of the call: the engine fills it in when all members have ended.
    return f"{title}: {sum(numbers)}, and {numbers.broken} missing"


@engine.task
def squares(top: int) -> None:
    current().spawn(*(square.of(n) for n in range(top)), then=sum_up.of("squares"))


def test_a_continuation_waits_for_all_members() -> None:
    """`squares` spawns five calls. `sum_up` runs when all of them have ended."""
    run = engine.run(squares.of(5))
    assert list(run.results(sum_up)) == ["squares: 30, and 0 missing"]


@engine.task
def risky(always: bool) -> None:
    then = sum_up.of("rest")
    current().spawn(square.of(3), square.of(-1), then=then.always() if always else then)


def test_a_failed_member_skips_the_continuation() -> None:
    """A call with `.always()` runs nevertheless. `numbers.broken` counts the members without a result."""
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


def test_continuations_can_be_nested() -> None:
    """A member that spawns a continuation itself has ended when its own continuation has. So `fibonacci` can wait for
    two calls of itself.
    """
    run = engine.run(fibonacci.of(7))
    assert max(run.results(add)) == 13


@engine.task
def halve_by_a_child(n: int, waited_for: bool) -> int:
    # To make others wait for a child, and use its result, make it the member's own continuation: `spawn(then=child)`.
    child = square.of(n // 2)
    current().spawn(then=child) if waited_for else current().spawn(child)
    return n


@engine.task
def halves(top: int, waited_for: bool) -> None:
    current().spawn(*(halve_by_a_child.of(n, waited_for) for n in range(top)), then=sum_up.of("halves"))


def test_a_continuation_does_not_wait_for_other_children() -> None:
    """It waits for its members and their continuations, not for children that a member yields or spawns alone."""
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


def test_failures_of_other_children_do_not_count() -> None:
    """For the same reason, a child that is not waited for may fail without breaking the member."""
    assert list(engine.run(report.of(False)).results(sum_up, partial=True)) == ["report: 1, and 0 missing"]
    assert list(engine.run(report.of(True)).results(sum_up, partial=True)) == ["report: 0, and 1 missing"]
