"""`manage.py ramify_worker` in a real project: as the README says, killed in the middle, and typed wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django import VERSION  # type: ignore[import-untyped]

from ramify import Engine
from tests.crash.clients import wait_until

README = Path(__file__).parents[2] / "README.md"
FRAMEWORK = "django.tasks" if VERSION >= (6, 0) else "django_tasks"

SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).parent
SECRET_KEY = "x"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "site.sqlite"}}
INSTALLED_APPS = ["django_tasks"] if %(is_apart)s else []
"""
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
execute_from_command_line(sys.argv)
"""
#: It waits for somebody to write into a pipe, and leaves a line each time it begins and ends.
SLOW = """
from pathlib import Path
from django.conf import settings

@task(takes_context=True)
def slow(context):
    with open(settings.BASE_DIR / "witness", "a") as witness:
        print("begins", context.attempt, file=witness, flush=True)
        (settings.BASE_DIR / "go").read_text()
        print("ends", context.attempt, file=witness)
    return context.attempt
"""


class Site:
    """A Django project in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        section = README.read_text(encoding="utf-8").split("\n## Django\n")[1].split("\n## ")[0]
        settings, tasks = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
        (folder / "shop").mkdir()
        (folder / "settings.py").write_text(SETTINGS % {"is_apart": VERSION < (6, 0)} + settings)
        (folder / "manage.py").write_text(MANAGE)
        (folder / "shop" / "tasks.py").write_text(tasks.replace("django.tasks", FRAMEWORK) + SLOW)

    def manage(self, *typed: str, code: int = 0) -> str:
        """What a command of `manage.py` says, which must end with this code. It is typed in another folder."""
        ended = subprocess.run(
            [sys.executable, str(self.folder / "manage.py"), *typed],
            cwd=self.folder.parent, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ended.returncode == code, ended.stderr
        return ended.stdout + ended.stderr

    def ask(self, expression: str) -> Any:
        """The value of an expression in a process of its own."""
        program = f"import json; from shop.tasks import *; print(json.dumps({expression}))"
        return json.loads(self.manage("shell", "-v", "0", "-c", program).splitlines()[-1])

    def start_worker(self) -> subprocess.Popen[bytes]:
        """A worker that stays."""
        return subprocess.Popen([sys.executable, str(self.folder / "manage.py"), "ramify_worker"], cwd=self.folder)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "site").mkdir()
    return Site(tmp_path / "site")


@pytest.mark.parametrize("processes", [(), ("--processes", "2")], ids=["in itself", "in processes"])
def test_the_project_of_the_readme_runs_its_tasks(site: Site, processes: tuple[str, ...]) -> None:
    site.manage("check")
    ids = site.ask("[invoice.enqueue(order).id for order in ('o-17', 'o-18')]")
    said = site.manage("ramify_worker", "--burst", "--queue", "mail", "--threads", "2", *processes)
    assert "nothing is ready; left: nothing" in said
    assert (site.folder / "tasks.db").exists()
    found = site.ask(f"[[r.status, r.return_value, r.attempts] for r in map(invoice.get_result, {ids})]")
    assert found == [["SUCCESSFUL", "invoice of o-17", 1], ["SUCCESSFUL", "invoice of o-18", 1]]


def test_a_task_whose_worker_was_killed_is_run_by_the_next_one_and_recorded_once(site: Site) -> None:
    os.mkfifo(site.folder / "go")
    id = site.ask("slow.enqueue().id")
    engine = Engine(site.folder / "tasks.db")
    (job,) = engine.jobs(key=id)
    (run,) = engine.runs()
    first = site.start_worker()
    try:
        # Its first line in the log is that it begins.
        reads = engine._inside.store.reads
        wait_until(lambda: reads.logs(run.id, task=job.id).rows, "the first worker runs it")
        assert job.state == "running"
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert job.state == "queued"
    second = site.start_worker()
    try:
        # It opens when somebody is there to read.
        (site.folder / "go").write_text("go")
        assert job.wait(60)
    finally:
        second.terminate()
        second.wait()
    engine.close()
    look = "(lambda r: [r.status, r.return_value, r.attempts, len(set(r.worker_ids)), r.errors])"
    assert site.ask(f"{look}(slow.get_result({id!r}))") == ["SUCCESSFUL", 2, 2, 2, []]
    assert (site.folder / "witness").read_text().splitlines() == ["begins 1", "begins 2", "ends 2"]


def test_what_is_typed_wrong_is_told_as_by_ramify_worker(site: Site) -> None:
    said = site.manage("ramify_worker", "--threads", "none", code=2)
    assert "ramify: Invalid value for '--threads'" in said
    assert "see `manage.py ramify_worker --help`" in said
    said = site.manage("ramify_worker", "--backend", "mail", code=1)
    assert "--backend mail: no RamifyBackend; there is default" in said
    assert "--recycle-tasks" in site.manage("ramify_worker", "--help")


def test_a_store_that_cannot_be_opened_is_told_in_a_line(site: Site) -> None:
    (site.folder / "tasks.db").write_text("this is no store, whatever its name may say")
    said = site.manage("ramify_worker", "--burst", code=3)
    assert said.splitlines()[-1].startswith("ramify: ")
    assert "Traceback" not in said
