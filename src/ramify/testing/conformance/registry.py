"""The list of cases: each a plain function whose name is a sentence of the contract, filed under its verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ramify.testing.conformance.house import House

Check = Callable[[House], None]


class Case(NamedTuple):
    """One promise, checked by calling `check` with a fresh house."""

    verb: str
    name: str
    check: Check

    @property
    def sentence(self) -> str:
        """The promise in words."""
        return self.name.replace("_", " ")


_cases: dict[tuple[str, str], Case] = {}


def case(verb: str) -> Callable[[Check], Check]:
    """File the decorated function under `verb`."""

    def file(check: Check) -> Check:
        name = check.__name__
        if (verb, name) in _cases:
            raise ValueError(f"two cases of {verb} are called {name}")
        _cases[verb, name] = Case(verb, name, check)
        return check

    return file


def filed() -> tuple[Case, ...]:
    """The cases of the modules imported so far."""
    return tuple(_cases.values())
