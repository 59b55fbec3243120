"""An engine can be found again by another process, or the text says why not."""

import subprocess
import sys
from pathlib import Path

import pytest

from ramify import Engine
from ramify.engine.processes.address import address_of, load_engine
from ramify.engine.processes.importing import importing
from ramify.errors import ConfigError

here = Engine("memory:")


def test_an_engine_of_a_module_is_named_by_its_module() -> None:
    assert address_of(here) == f"{__name__}:here"


def test_an_engine_that_is_no_module_level_variable_has_no_place() -> None:
    with pytest.raises(ConfigError, match="must be a module-level variable"):
        address_of(Engine("memory:"))


def test_a_file_is_loaded_without_its_main_part_and_with_its_folder_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_walk.py").write_text("NAME = 'other.db'\n")
    (tmp_path / "walk_here.py").write_text(
        "from neighbour_of_walk import NAME\n"
        "from ramify import Engine\n"
        "engine = Engine(NAME)\n"
        "if __name__ == '__main__':\n"
        "    raise SystemExit('the main part ran')\n"
    )
    engine = load_engine(f"{tmp_path / 'walk_here.py'}:engine")
    assert engine._runtime.url == "other.db"
    assert address_of(engine) == f"{(tmp_path / 'walk_here.py').resolve()}:engine"
    assert load_engine(f"{tmp_path / 'walk_here.py'}:engine") is engine


def test_what_is_wrong_with_a_place_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "two_engines.py").write_text("from ramify import Engine\none = Engine('memory:')\ntwo = one\n")
    (tmp_path / "no_engines.py").write_text("x = 1\n")
    for place, words in {
        "walk.py": "expected MODULE:ENGINE",
        ":engine": "expected MODULE:ENGINE",
        f"{tmp_path}/missing.py:engine": "no file 'missing.py'",
        "no_such_module_at_all:engine": "no module 'no_such_module_at_all'",
        f"{tmp_path}/two_engines.py:three": r"It has one, two\.",
        f"{tmp_path}/no_engines.py:engine": "It has no engine at all",
    }.items():
        with pytest.raises(ConfigError, match=words):
            load_engine(place)


def test_the_error_of_a_module_that_does_not_import_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "broken_here.py").write_text("import a_module_that_nobody_has\n")
    with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has"):
        load_engine(f"{tmp_path / 'broken_here.py'}:engine")


def test_a_script_and_its_workers_use_the_same_engine(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(
        "from ramify import Engine\n"
        "engine = Engine('twice.db')\n"
        "@engine.task\n"
        "def double(n: int) -> int:\n"
        "    return 2 * n\n"
        "if __name__ == '__main__':\n"
        "    run = engine.run([double.of(n) for n in range(5)], processes=1)\n"
        "    print(sorted(run.results()))\n"
    )
    ran = subprocess.run([sys.executable, "twice.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[0, 2, 4, 6, 8]"), ran.stderr


def test_starting_a_run_while_a_worker_imports_the_module_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "unguarded.py").write_text(
        "from ramify import Engine\n"
        "engine = Engine('unguarded.db')\n"
        "@engine.task\n"
        "def double(n: int) -> int:\n"
        "    return 2 * n\n"
        "run = engine.run(double.of(1), processes=1)\n"
    )
    ran = subprocess.run([sys.executable, "unguarded.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert 'Put the line under `if __name__ == "__main__":`' in ran.stderr


@pytest.mark.parametrize(
    "line",
    [
        "engine.enqueue(double.of(1))",
        "engine.enqueue_many([double.of(1)])",
        "asyncio.run(engine.aenqueue(double.of(1)))",
        "asyncio.run(engine.aenqueue_many([double.of(1)]))",
    ],
)
def test_enqueuing_while_a_worker_imports_the_module_is_refused_in_one_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "unguarded.py").write_text(
        "import asyncio\n"
        "from ramify import Engine\n"
        f"engine = Engine({str(tmp_path / 'unguarded.db')!r})\n"
        "@engine.task\n"
        "def double(n: int) -> int:\n"
        "    return 2 * n\n"
        f"{line}\n"
    )
    with (
        importing("unguarded.py"),
        pytest.raises(ConfigError, match='Put the line under `if __name__ == "__main__":`'),
    ):
        load_engine(f"{tmp_path / 'unguarded.py'}:engine")
    assert not (tmp_path / "unguarded.db").exists()


def test_a_program_that_is_piped_in_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    program = """
from ramify import ConfigError, Engine
engine = Engine("x.db")
@engine.task
def double(n: int) -> int:
    return 2 * n
try:
    engine.run(double.of(1), processes=2)
except ConfigError as error:
    print("refused:", error)
print(len(engine._runtime.store.reads.runs().rows), "runs")
"""
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
    )
    refused, stored = done.stdout.splitlines()
    assert refused.startswith("refused: processes=...: worker processes import your engine")
    assert stored == "0 runs"
