"""What happens to one who enqueues leaves no other waiting for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def end_of(program: str, folder: Path) -> tuple[int, str]:
    attempt_env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.engine.enqueuers", program]
    ended = subprocess.run(command, cwd=folder, env=attempt_env, capture_output=True, text=True, timeout=120)
    return ended.returncode, ended.stderr


def test_ctrl_c_in_one_who_enqueues_leaves_nobody_waiting(tmp_path: Path) -> None:
    assert end_of("interrupted", tmp_path) == (0, "")


def test_a_child_forked_while_others_enqueue_is_refused_and_does_not_wait_for_them(tmp_path: Path) -> None:
    assert end_of("forked", tmp_path) == (0, "")
