"""`manage.py ramify_worker` in a real project: as the guide says, killed in the middle, and typed wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django import VERSION  # type: ignore[import-untyped]

from ramify import Engine
from tests.crash.clients import wait_until
from tests.house.pages import blocks

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "django.md"
FRAMEWORK = "django.tasks" if VERSION >= (6, 0) else "django_tasks"

SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).parent
SECRET_KEY = "x"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "site.sqlite"}}
INSTALLED_APPS = ["django_tasks"] if %(is_apart)s else []
INSTALLED_APPS += ["ramify.contrib.django"]
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
        shown = {block.title: block.text for block in blocks(GUIDE.read_text(encoding="utf-8"))}
        settings, tasks = shown["settings.py"], shown["shop/tasks.py"]
        (folder / "shop").mkdir()
        (folder / "settings.py").write_text(
            SETTINGS % {"is_apart": VERSION < (6, 0)} + settings[settings.index("TASKS =") :]
        )
        (folder / "manage.py").write_text(MANAGE)
        (folder / "shop" / "tasks.py").write_text(tasks.replace("django_tasks", FRAMEWORK) + SLOW)

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
def test_the_project_of_the_guide_runs_its_tasks(site: Site, processes: tuple[str, ...]) -> None:
    site.manage("check")
    ids = site.ask("[invoice.enqueue(order).id for order in ('o-17', 'o-18')]")
    said = site.manage("ramify_worker", "--burst", "--queue", "mail", "--threads", "2", *processes)
    assert "nothing is ready; left: nothing" in said
    assert (site.folder / "tasks.db").exists()
    found = site.ask(f"[[r.status, r.return_value, r.attempts] for r in map(invoice.get_result, {ids})]")
    assert found == [["SUCCESSFUL", "invoice of o-17", 1], ["SUCCESSFUL", "invoice of o-18", 1]]


def test_a_queue_that_the_settings_name_is_known_before_its_first_task(site: Site) -> None:
    assert "queue '" not in site.manage("ramify_worker", "--burst", "--queue", "mail")
    said = site.manage("ramify_worker", "--burst", "--queue", "maill")
    assert "queue 'maill': no task of this engine and no job of this store is in it. Did you mean 'mail'?" in said


def test_a_task_whose_worker_was_killed_is_run_by_the_next_one_and_recorded_once(site: Site) -> None:
    os.mkfifo(site.folder / "go")
    id = site.ask("slow.enqueue().id")
    engine = Engine(site.folder / "tasks.db")
    (job,) = engine.jobs(key=id)
    (run,) = engine.runs()
    first = site.start_worker()
    try:
        witness = site.folder / "witness"
        wait_until(lambda: witness.exists() and witness.read_text() == "begins 1\n", "the first worker runs it")
        reads = engine._runtime.store.reads
        wait_until(lambda: reads.logs(run.id, task=job.id).rows, "the log says so")
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


def test_a_worker_that_runs_already_takes_a_task_it_has_never_heard_of(site: Site) -> None:
    worker = site.start_worker()
    try:
        engine = Engine(site.folder / "tasks.db")
        wait_until((site.folder / "tasks.db").exists, "there is a store")
        wait_until(lambda: engine._runtime.store.reads.processes(), "a worker is there")
        for order in ("o-17", "o-18"):
            (job,) = engine.jobs(key=site.ask(f"invoice.enqueue({order!r}).id"))
            assert job.kind == "shop.tasks.invoice"
            assert job.wait(60)
            assert job.state == "done"
        engine.close()
    finally:
        worker.terminate()
        worker.wait()


def test_both_names_of_the_exceptions_are_known(tmp_path: Path) -> None:
    """The package has renamed two of its exceptions: once a copy of it has the names it has not."""
    if VERSION >= (6, 0):
        pytest.skip("Django has no older names")
    copied(tmp_path, {"InvalidTaskBackendError": "InvalidTaskBackend", "InvalidTaskError": "InvalidTask"})
    names = "[(each.__module__, each.__name__) for each in (framework.InvalidTask, framework.InvalidTaskBackend)]"
    here = json.loads(imported(os.getcwd(), names))
    there = json.loads(imported(tmp_path, names))
    assert here + there == [
        ["django_tasks.exceptions", name]
        for name in ("InvalidTaskError", "InvalidTaskBackendError", "InvalidTask", "InvalidTaskBackend")
    ]


def test_a_version_that_does_not_fit_is_named_and_not_taken_for_absent(tmp_path: Path) -> None:
    if VERSION >= (6, 0):
        pytest.skip("Django has its own framework")
    copied(tmp_path, {"TaskContext": "Context"})
    info = tmp_path / "django_tasks-0.5.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: django-tasks\nVersion: 0.5.0\n")
    said = imported(tmp_path, "1")
    assert "ConfigError: django-tasks 0.5.0 is installed, and Ramify cannot work with it: cannot import name" in said
    assert "pip install 'django-tasks>=0.12'" in said


def copied(folder: Path, renamed: dict[str, str]) -> None:
    """A copy of the package with other names."""
    spec = find_spec("django_tasks")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, folder / "django_tasks")
    for file in (folder / "django_tasks").rglob("*.py"):
        text = file.read_text()
        for old, new in renamed.items():
            text = text.replace(old, new)
        file.write_text(text)


def imported(folder: Path | str, expression: str) -> str:
    """The value of an expression about the framework in a process of its own, or the last line of its error."""
    program = (
        "import json, django.conf; django.conf.settings.configure(); "
        f"from ramify.contrib.django import framework; print(json.dumps({expression}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return (ended.stdout or ended.stderr).splitlines()[-1]


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
