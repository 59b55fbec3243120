"""The pytest plug-in: the fixture `workbench` in every test session, for the engine that the configuration names.

    # pyproject.toml
    [tool.pytest.ini_options]
    ramify_engine = "shop.tasks:engine"

    # test_shop.py
    def test_a_new_customer_is_welcomed(workbench):
        sign_up("ann")
        workbench.drain()

A conftest can override the fixture `ramify_engine` instead. For several engines, other stores and other scopes, make
fixtures with `ramify.testing.fixture`.

Every session in an environment with Ramify imports this module, so it imports nothing of the engine by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ramify.engine.engine import Engine
    from ramify.testing.using import Workbench

SETTING = "ramify_engine"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini(
        SETTING, "the engine of the fixture `workbench`: MODULE:ENGINE, such as shop.tasks:engine", default=""
    )


@pytest.fixture(scope="session")
def ramify_engine(pytestconfig: pytest.Config) -> Engine:
    """Return the engine under test: the one that the setting `ramify_engine` names. Override it in a conftest."""
    address: str = pytestconfig.getini(SETTING)
    if not address:
        pytest.fail(
            f'workbench: no engine is named. Set {SETTING} = "shop.tasks:engine" in the configuration of pytest, or '
            f"override the fixture {SETTING} in a conftest.py.",
            pytrace=False,
        )
    return _engine_at(address)


@pytest.fixture
def workbench(ramify_engine: Engine) -> Iterator[Workbench]:
    """Put the engine on an empty store in memory for one test, with time in the test's hands."""
    from ramify.testing.using import using

    with using(ramify_engine) as prepared:
        yield prepared


def _engine_at(address: str) -> Engine:
    from ramify.engine.processes.address import load_engine
    from ramify.engine.processes.importing import importing
    from ramify.errors import ConfigError

    module = address.rpartition(":")[0]
    if module.endswith(".py"):
        # Loaded as a file it would be a second module, and its engine not the one that the tests import.
        pytest.fail(
            f"{SETTING}: expected MODULE:ENGINE, got {address!r}. Name the module as the tests import it, such as "
            f"{module.removesuffix('.py').replace('/', '.')}:{address.rpartition(':')[2]}.",
            pytrace=False,
        )
    try:
        if module and module not in sys.modules:
            with importing(module, by="pytest"):
                import_module(module)
        return load_engine(address)
    except ConfigError as wrong:
        pytest.fail(f"{SETTING} = {address!r}: {wrong}", pytrace=False)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise
        pytest.fail(
            f"{SETTING} = {address!r}: no module {missing.name!r}. Add its folder to the setting pythonpath of pytest.",
            pytrace=False,
        )
