"""A store whose answers get lost, as on a bad line: whoever asked does not know whether anything was done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ramify.errors import StoreUnavailable
from ramify.store.contract import Store

#: Whether a verb is answered, or lost on its way to the store, or carried out and its answer lost.
Way = Literal["answered", "never sent", "not answered"]


class Losing:
    """A store in front of which verbs get lost. `ways` has what becomes of each, call by call; others are answered."""

    def __init__(self, store: Store, ways: Mapping[str, Iterator[Way]]) -> None:
        self._store = store
        self._ways = ways
        #: The verbs that got lost, in order.
        self.lost: list[str] = []

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in self._ways:
            return verb

        def sent(*args: Any, **kwargs: Any) -> Any:
            way = next(self._ways[name], "answered")
            answer = None if way == "never sent" else verb(*args, **kwargs)
            if way == "answered":
                return answer
            self.lost.append(name)
            raise StoreUnavailable(f"{name}: {way}")

        return sent
