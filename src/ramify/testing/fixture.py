"""Fixtures of `using` for pytest, each made by one line for one engine:

    # conftest.py
    from ramify.testing.fixture import workbench
    from shop.tasks import engine

    bench = workbench(engine)

    # test_shop.py
    def test_a_new_customer_is_welcomed(bench):
        sign_up("ann")
        bench.drain()

For a project with one engine, the pytest plug-in of Ramify has the fixture `workbench` without a conftest: set
`ramify_engine = "shop.tasks:engine"` in the configuration of pytest. Make fixtures here for several engines, another
store or another scope, or with `autouse=True`: then no test of that folder can reach the engine's own store by mistake.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

try:
    import pytest
except ImportError:
    raise ImportError("ramify.testing.fixture needs pytest; the rest of ramify.testing does not") from None

from ramify.engine.engine import Engine
from ramify.testing.using import Workbench, using

Scope = Literal["function", "class", "module", "package", "session"]


def workbench(
    engine: Engine | Callable[[], Engine],
    store: str | os.PathLike[str] = "memory:",
    *,
    autouse: bool = False,
    scope: Scope = "function",
) -> Any:
    """Make a fixture that puts an engine, or the one that a function returns, on an empty store: a `Workbench`."""

    @pytest.fixture(autouse=autouse, scope=scope)
    def bench() -> Iterator[Workbench]:
        with using(engine if isinstance(engine, Engine) else engine(), store) as prepared:
            yield prepared

    return bench
