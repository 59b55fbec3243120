"""Read every page of a read. For tests and checks; a program that shows things to people shows one page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ramify.store.reads import Page

T = TypeVar("T")


def every(page: Callable[[int], Page[T]], after: int = 0) -> list[T]:
    """The rows of all pages, asked for one after the other by cursor."""
    rows: list[T] = []
    while True:
        now = page(after)
        rows.extend(now.rows)
        if not now.more:
            return rows
        assert now.after > after, f"a page with more to come did not move its cursor from {after}"
        after = now.after
