"""Which module is another one on disk by now."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ramify.engine.processes.file_changes import FileChanges


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module that is imported."""
    module = ModuleType("changing")
    module.__file__ = str(tmp_path / "changing.py")
    monkeypatch.setitem(sys.modules, "changing", module)
    (tmp_path / "changing.py").write_text("a = 1")
    return tmp_path / "changing.py"


def test_a_change_is_told_once(file: Path) -> None:
    changes = FileChanges()
    assert changes.look() is None
    os.utime(file, (1, 1))
    assert changes.look() == str(file)
    assert changes.look() is None


def test_a_file_that_is_gone_for_a_moment_is_no_change(file: Path) -> None:
    changes = FileChanges()
    before = file.stat()
    file.unlink()
    assert changes.look() is None
    file.write_text("a = 1")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changes.look() is None
    os.utime(file, (1, 1))
    assert changes.look() == str(file)


def test_modules_without_a_file_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nowhere", ModuleType("nowhere"))
    assert FileChanges().look() is None
