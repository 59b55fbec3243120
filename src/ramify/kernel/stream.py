"""Streams: the results of the members of a join, for the task that waited for them.

A handler takes one as `sizes: Stream[int] = Stream()`. The parameter is no part of the stored call; it is filled when
the task runs.

Promises: a stream reads page by page and holds one page at a time, in the order of the members' slots, and can be gone
through more than once. It gives the results of members that ended well. How many did not is told by `broken`, and which
and why by `failures`; a continuation sees them if it is `.always()`, for otherwise it is skipped.

Does not know where results are kept: that is its source's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from ramify.model.outcome import TaskError

T_co = TypeVar("T_co", covariant=True)


class Source(Protocol[T_co]):
    """Where a stream's results come from."""

    def pages(self) -> Iterator[Sequence[T_co]]:
        """The results from the first on, some at a time."""

    def sizes(self) -> tuple[int, int]:
        """How many results there are, and how many members have none."""

    def failures(self) -> Iterator[TaskError]:
        """The members that have none, and why."""


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
        """Those that broke."""
        return iter(self._failures)


class Stream(Generic[T_co]):
    """The results of a join's members, page by page; without a source, none. It never changes."""

    __slots__ = ("_sizes", "_source")

    def __init__(self, source: Source[T_co] | None = None) -> None:
        self._source = source
        self._sizes: tuple[int, int] | None = None if source is not None else (0, 0)

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
        """How many members failed, were cancelled, skipped or quarantined."""
        return self._measured()[1]

    @property
    def failures(self) -> Iterator[TaskError]:
        """Which members did not end well, and why, in the order of their slots; read page by page."""
        return self._source.failures() if self._source is not None and self.broken else iter(())

    def __repr__(self) -> str:
        results, broken = self._measured()
        return f"<Stream of {results} results, {broken} broken>"

    def _measured(self) -> tuple[int, int]:
        if self._sizes is None:
            assert self._source is not None
            self._sizes = self._source.sizes()
        return self._sizes
