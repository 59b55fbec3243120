"""Streams: the results of the members of a join, for the task that waited for them.

A handler takes one as `sizes: Stream[int] = Stream()`. The parameter is no part of the stored call; it is filled when
the task runs. A test makes one with `Stream.of([1, 2])`.

Promises: a stream reads page by page and holds one page at a time, in the order of the members' slots, and can be gone
through more than once. It gives the results of members that ended well. How many did not is told by `broken`, and which
and why by `failures`; a continuation sees them if it is `.always()`, for otherwise it is skipped.

Does not know where results are kept: that is its source's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from ramify.errors import BadPayload, ConfigError
from ramify.model.event import Status
from ramify.model.outcome import Failure, TaskError
from ramify.model.reference import Reference

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Source(Protocol[T_co]):
    """The place where the results of a stream come from."""

    def pages(self) -> Iterator[Sequence[T_co]]:
        """Yield the results from the first on, some at a time."""

    def sizes(self) -> tuple[int, int]:
        """Return the number of results, and of members without one."""

    def failures(self) -> Iterator[TaskError]:
        """Yield the members without a result, with the reason."""


class Ready(Generic[T_co]):
    """A source whose results and failures are there."""

    def __init__(self, results: Sequence[T_co], failures: Sequence[TaskError] = ()) -> None:
        self._results = results
        self._failures = failures

    def pages(self) -> Iterator[Sequence[T_co]]:
        """All of them."""
        yield self._results

    def sizes(self) -> tuple[int, int]:
        """How many results there are, and how many broke."""
        return len(self._results), len(self._failures)

    def failures(self) -> Iterator[TaskError]:
        """Return those that broke."""
        return iter(self._failures)


class Stream(Generic[T_co]):
    """The results of tasks that this one waited for, read page by page. It never changes. Without a source, empty."""

    __slots__ = ("_sizes", "_source")

    def __init__(self, source: Source[T_co] | None = None) -> None:
        if source is not None and not hasattr(source, "pages"):
            raise BadPayload(f"Stream(): expected no argument, got {source!r:.100}. Write Stream.of([...]) in a test")
        self._source = source
        self._sizes: tuple[int, int] | None = None if source is not None else (0, 0)

    @staticmethod
    def of(results: Iterable[T], *, failures: Iterable[BaseException | TaskError] = ()) -> Stream[T]:
        """Make a stream of these results, and of members with these failures; for tests.

        Call the task with it, `total(Stream.of([1, 2]))`, or try it, `attempt(total.of(Stream.of([1, 2])))`.
        """
        if isinstance(results, str) or not isinstance(results, Iterable):
            raise ConfigError(f"Stream.of(): expected a list of results, got {results!r}. Write Stream.of([1, 2]).")
        if not isinstance(failures, Iterable):
            raise ConfigError(
                f"Stream.of(): expected a list of exceptions as failures, got {failures!r}. Write failures=[OSError()]."
            )
        return Stream(Ready(list(results), as_failures(failures)))

    def _reference(self) -> Reference | None:
        """Return what stands for it among the arguments of a call; only `attempt` supplies it. None for an empty
        default.
        """
        return None if self._source is None else Reference(self, gathered=True)

    def __iter__(self) -> Iterator[T_co]:
        if self._source is not None:
            for page in self._source.pages():
                yield from page

    def __len__(self) -> int:
        return self._measured()[0]

    def __bool__(self) -> bool:
        return len(self) > 0

    @property
    def broken(self) -> int:
        """The number of members that failed, or were cancelled, skipped or quarantined."""
        return self._measured()[1]

    @property
    def failures(self) -> Iterator[TaskError]:
        """Iterate over the members that did not end as done, with the reason, in order, page by page."""
        return self._source.failures() if self._source is not None and self.broken else iter(())

    def __repr__(self) -> str:
        results, broken = self._measured()
        return f"<Stream of {results} results, {broken} broken>"

    def _measured(self) -> tuple[int, int]:
        if self._sizes is None:
            assert self._source is not None
            self._sizes = self._source.sizes()
        return self._sizes


def as_failures(given: Iterable[BaseException | TaskError]) -> list[TaskError]:
    """Members that raised these, in order; BadPayload for what nobody can raise."""
    failed: list[TaskError] = []
    for number, each in enumerate(given, start=1):
        match each:
            case TaskError():
                failed.append(each)
            case BaseException():
                failed.append(TaskError(number, "member", None, Status.FAILED, (), Failure.of(each)))
            case _:
                raise BadPayload(f"failures: expected exceptions, got {each!r:.100}. Give what each member raised")
    return failed
