"""Shops on each of our stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ramify.kernel.faults import disarm
from tests.kernel.shop import Shop, opener


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """A shop on each store."""
    shop = Shop(opener(request.param, tmp_path))
    yield shop
    disarm()
    shop.close()


@pytest.fixture
def quick() -> Iterator[Shop]:
    """A shop in memory, for what does not depend on the store."""
    shop = Shop(opener("memory", Path()))
    yield shop
    disarm()
    shop.close()


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Shop]:
    """A shop in a file."""
    shop = Shop(opener("sqlite", tmp_path))
    yield shop
    disarm()
    shop.close()
