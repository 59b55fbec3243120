"""Values of an attempt in a test: those of its store, as the test gave them, and all of them as it left them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ramify.errors import ConfigError
from ramify.kernel.attempts.context import sealed
from ramify.kernel.attempts.values import DraftSwap
from ramify.model.codec.wire import Wire
from ramify.model.task import check_name
from ramify.model.value import A_SPACE, A_VALUE, Key, StoredValue

_anything = Wire(Any)


def sealed_values(given: Mapping[str, Mapping[str, Any]] | None) -> dict[Key, StoredValue]:
    """Values as a store would keep them; ConfigError for what is no mapping of mappings."""
    found: dict[Key, StoredValue] = {}
    for space, values in (given or {}).items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"attempt(values={{{space!r}: {values!r}}}): expected values by name. Write {{'a': 1}}.")
        for name, value in values.items():
            key = check_name(A_SPACE, space), check_name(A_VALUE, name)
            found[key] = StoredValue(*key, sealed(name, value, where="attempt(values=...)"), len(found) + 1)
    return found


def values_left(given: Mapping[Key, StoredValue], swaps: Iterable[DraftSwap]) -> dict[str, dict[str, Any]]:
    """All values by space and name, as these swaps leave them."""
    left: dict[Key, bytes | None] = {key: each.value for key, each in given.items()}
    left |= {swap.key: swap.value for swap in swaps if swap.is_change}
    found: dict[str, dict[str, Any]] = {}
    for (space, name), value in left.items():
        if value is not None:
            found.setdefault(space, {})[name] = _anything.read(value)
    return found
