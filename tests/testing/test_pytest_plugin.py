"""The pytest plug-in of an installed Ramify, in test sessions of their own: nothing but a setting makes it work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHOP = """
from ramify import Engine

engine = Engine("own.db")

@engine.task
def double(n: int) -> int:
    return 2 * n
"""
TESTS = """
from shop import double, engine

def test_one(workbench):
    engine.start(double.of(1), name="same")
    workbench.assert_enqueued(double.of(1))
    workbench.drain()

def test_two_begins_anew(workbench):
    workbench.refute_enqueued(double)
    run = engine.start(double.of(2), name="same")
    workbench.drain()
    assert list(run.results()) == [4]
"""
ASKS = """
def test_that_asks(workbench):
    pass
"""
ANSWERS = """
import pytest
from shop import engine

@pytest.fixture(scope="session")
def ramify_engine():
    return engine
"""
UNAWARE = """
import sys

def test_that_has_nothing_to_do_with_it():
    assert "ramify.pytest_plugin" in sys.modules
    heavy = {"apsw", "asyncio", "msgspec", "ramify.engine", "ramify.errors", "ramify.front", "ramify.kernel"}
    assert heavy & sys.modules.keys() == set()
"""


def session(folder: Path, tests: str, engine: str = "", conftest: str = "") -> subprocess.CompletedProcess[str]:
    setting = f"ramify_engine = {engine}\n" if engine else ""
    texts = {"shop.py": SHOP, "test_shop.py": tests, "conftest.py": conftest, "pytest.ini": f"[pytest]\n{setting}"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    # Other plug-ins of this environment may load what they like; only ours is looked at.
    others = ["-p", "no:cacheprovider", "-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", "-q", "--strict-config", *others]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_each_test_gets_an_empty_store_by_a_setting_alone(tmp_path: Path) -> None:
    done = session(tmp_path, TESTS, "shop:engine")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert not (tmp_path / "own.db").exists()


def test_a_conftest_may_give_the_engine_instead(tmp_path: Path) -> None:
    done = session(tmp_path, TESTS, conftest=ANSWERS)
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "own.db").exists()


def test_a_session_that_does_not_ask_for_it_loads_nothing_of_the_engine(tmp_path: Path) -> None:
    done = session(tmp_path, UNAWARE)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("", 'Set ramify_engine = "shop.tasks:engine" in the configuration of pytest'),
        (
            "shop.py:engine",
            "expected MODULE:ENGINE, got 'shop.py:engine'. Name the module as the tests import it, such",
        ),
        ("shop:motor", "no engine 'motor' in shop. It has engine."),
        ("shop", "'shop': expected MODULE:ENGINE"),
        ("shops:engine", "no module 'shops'. Add its folder to the setting pythonpath of pytest."),
    ],
)
def test_a_setting_that_names_no_engine_is_explained(engine: str, says: str, tmp_path: Path) -> None:
    done = session(tmp_path, ASKS, engine)
    assert done.returncode == 1
    assert says in done.stdout
    assert "Traceback" not in done.stdout
