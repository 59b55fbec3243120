"""Imports point down the floors: each import contract in pyproject.toml is kept by a sound tree and broken by a plant.

The trees hold empty modules with the names of the real ones, so the contracts are tested and not the code of the day.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.planted import REPOSITORY

SOUND = {
    "__init__": "from ramify.errors import A",
    "errors": "",
    "model/__init__": "from ramify.errors import A",
    "model/task": "import msgspec",
    "store/__init__": "",
    "store/contract": "from ramify.model import task",
    "store/reads": "from ramify.model import task",
    "store/open": "def open():\n    from ramify.store import sqlite, memory, postgres",
    "store/presence/__init__": "",
    "store/presence/liveness": "from ramify.store.contract import A",
    "store/postgres/__init__": "from ramify.store.postgres.pipe import A",
    "store/postgres/pipe": "import psycopg\nfrom ramify.store.presence import liveness",
    "store/memory/__init__": "from ramify.store.memory import rows",
    "store/memory/rows": "from ramify.store.contract import A",
    "store/sqlite/__init__": "from ramify.store.sqlite.store import A",
    "store/sqlite/store": "from ramify.store.contract import A\nfrom ramify.store.sqlite.file import link",
    "store/sqlite/file/__init__": "",
    "store/sqlite/file/link": "import apsw\nfrom ramify.store.sqlite.file import wal",
    "store/sqlite/file/wal": "from ramify.errors import A",
    "kernel/__init__": "",
    "kernel/loop": "from ramify.store.contract import A",
    "shapes/__init__": "",
    "shapes/dag": "from ramify.kernel import loop",
    "shapes/cron/__init__": "",
    "shapes/cron/expression": "from cronsim import CronSim",
    "coordination/__init__": "from ramify.kernel import loop",
    "engine/__init__": "from ramify.shapes import dag\nfrom ramify.coordination import A",
    "signals": "from ramify.kernel import loop",
    "front": "from ramify.engine import A as A",
    "types": "from ramify.inspect.audit import A as A",
    "contrib/__init__": "",
    "contrib/prometheus": "import prometheus_client\nfrom opentelemetry import trace\nfrom ramify.engine import A",
    "contrib/django/__init__": "from django.db import connections\nimport django_tasks",
    "contrib/django/management/commands/ramify_worker": "from ramify.cli import main",
    "testing/__init__": "",
    "testing/kit": "from ramify.store.open import open",
    "testing/conformance/__init__": "from ramify.store.contract import A",
    "testing/conformance/claim": "from ramify.store import reads",
    "inspect/__init__": "",
    "inspect/audit": "from ramify.store import reads",
    "cli/__init__": "",
    "cli/main": "from ramify.engine import A",
    "child": "from ramify.engine import A",
    "__main__": "from ramify.cli import main",
    "pytest_plugin": "def workbench():\n    from ramify.testing import kit",
}

# Floors that are drawn and may not be built yet.
LATER = {
    "web/__init__": "",
    "web/views": "from ramify.inspect import audit",
}

FLOORS = "Imports point down the floors, and rooms on one floor do not know each other"
OPEN = "Only store/open.py names the backends"
APART = "Backends do not know each other"
REACH = "The contract and the conformance suite reach no backend at all"
WATCHES = "What watches tasks from outside stays in contrib"
DJANGO = "Django stays in its room of contrib"
FILE = "The file under the SQLite store knows no table"
APSW = "apsw stays in its backend"
PSYCOPG = "psycopg stays in its backend"
PRESENCE = "Lock files know no table and no database"
CRONSIM = "cronsim stays with cron expressions"
SQLITE3 = "The standard library's sqlite3 is used nowhere"
VALUES = "The model is values: no drivers, threads, processes or network"

PLANTED = [
    (FLOORS, "errors", "import ramify.model"),
    (FLOORS, "model/task", "def f():\n    from ramify.store import contract"),
    (FLOORS, "store/open", "from ramify.testing import kit"),
    (FLOORS, "kernel/loop", "from ramify.shapes import dag"),
    (FLOORS, "shapes/dag", "from ramify.inspect import audit"),
    (FLOORS, "cli/main", "from ramify.web import views"),
    (FLOORS, "engine/__init__", "from ramify.cli import main"),
    (FLOORS, "engine/__init__", "from ramify.front import A"),
    (FLOORS, "testing/kit", "from ramify import pytest_plugin"),
    (FLOORS, "shapes/dag", "import ramify.engine"),
    (FLOORS, "attic", ""),
    (OPEN, "store/contract", "from ramify.store.memory import rows"),
    (OPEN, "store/__init__", "from ramify.store.sqlite.file import link"),
    (OPEN, "testing/kit", "def f():\n    import ramify.store.memory"),
    (OPEN, "kernel/loop", "import ramify.store.sqlite"),
    (APART, "store/memory/rows", "from ramify.store.sqlite.file import link"),
    (REACH, "testing/conformance/claim", "from ramify.store.sqlite.file import link"),
    (REACH, "testing/conformance/claim", "from ramify.testing import kit"),
    (REACH, "store/reads", "from ramify.store import open"),
    (FLOORS, "engine/__init__", "from ramify.contrib import prometheus"),
    (FLOORS, "contrib/__init__", "from ramify.cli import main"),
    (WATCHES, "cli/main", "import prometheus_client"),
    (WATCHES, "kernel/loop", "def f():\n    from opentelemetry import trace"),
    (FLOORS, "contrib/django/backend", "from ramify.cli import main"),
    (DJANGO, "contrib/prometheus", "import prometheus_client\nfrom opentelemetry import trace\nimport django"),
    (DJANGO, "cli/main", "def f():\n    import django_tasks"),
    (FILE, "store/sqlite/file/wal", "def f():\n    from ramify.store.sqlite import store"),
    (FILE, "store/sqlite/file/wal", "from ramify.store.sqlite import A"),
    (APSW, "store/open", "import apsw"),
    (APSW, "testing/kit", "def f():\n    from apsw import VFS"),
    (PSYCOPG, "store/open", "import psycopg"),
    (PSYCOPG, "testing/kit", "def f():\n    from psycopg import pq"),
    (PRESENCE, "store/presence/liveness", "from ramify.store.sqlite.file import link"),
    (PRESENCE, "store/presence/liveness", "def f():\n    from ramify.store.postgres import pipe"),
    (APART, "store/postgres/pipe", "import psycopg\nfrom ramify.store.sqlite import store"),
    (CRONSIM, "shapes/cron/__init__", "import cronsim"),
    (CRONSIM, "cli/main", "def f():\n    from cronsim import CronSim"),
    (SQLITE3, "store/sqlite/file/link", "import apsw\nimport sqlite3"),
    (VALUES, "model/task", "import threading"),
    (VALUES, "errors", "from rich import print"),
]


def lint(root: Path, modules: dict[str, str]) -> tuple[int, list[str], str]:
    """Write the tree, run the real linter on it, and answer with its code and the contracts it calls broken."""
    for name, text in modules.items():
        path = root / "src/ramify" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    program = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"], cwd=root, capture_output=True, text=True, timeout=120
    )
    printed = " ".join((done.stdout + done.stderr).split())
    return done.returncode, [name for name in contracts() if f"{name} BROKEN" in printed], printed


def contracts() -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return [contract["name"] for contract in project["tool"]["importlinter"]["contracts"]]


@pytest.mark.parametrize("modules", [SOUND, {**SOUND, **LATER}], ids=["of today", "with the floors to come"])
def test_a_sound_tree_keeps_every_contract(modules: dict[str, str], tmp_path: Path) -> None:
    code, broken, printed = lint(tmp_path, modules)
    assert (code, broken) == (0, []), printed


@pytest.mark.parametrize(("contract", "module", "text"), PLANTED)
def test_a_contract_is_broken_by(contract: str, module: str, text: str, tmp_path: Path) -> None:
    code, broken, printed = lint(tmp_path, {**SOUND, **LATER, module: text})
    assert code == 1
    assert contract in broken, printed


def test_every_contract_has_a_planted_violation() -> None:
    assert {contract for contract, _, _ in PLANTED} == set(contracts())
