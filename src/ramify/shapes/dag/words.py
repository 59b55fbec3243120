"""Texts of definitions of DAGs, and values that people give them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

from ramify.errors import ConfigError
from ramify.model.codec.refusal import explain
from ramify.model.codec.wire import Wire
from ramify.shapes.dag.node import Param

#: How many ids stand in one text.
_NAMED = 5


def sealed(dag: str, param: Param, value: object) -> bytes:
    """A value for a param as it is stored; ConfigError when it does not fit."""
    try:
        return Wire(param.annotation).seal(value)
    except Exception as error:  # noqa: BLE001  whatever it is, the words are what the caller needs
        raise ConfigError(f"{dag}: {explain([(param.name, param.annotation, value)], error)}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what was perhaps meant by a name that is not known."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"Did you mean {near[0]!r}?" if near else f"It has {named(list(known))}."


def quoted(names: Iterable[str]) -> str:
    """Some names, as they are written."""
    return " or ".join(f'"{name}"' for name in names)


def named(names: Collection[str | None]) -> str:
    """Some names: the first ones, and how many more there are."""
    few = list(map(str, islice(names, _NAMED)))
    if len(names) > len(few):
        few[-1:] = [f"{len(names) - len(few) + 1:,} more"]
    return " and ".join((", ".join(few[:-1]), few[-1]) if few[1:] else few) or "none"
