"""Django in the process of the tests: its settings can be made once only, so every test that needs them has these."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from django import VERSION, setup  # type: ignore[import-untyped]
from django.conf import settings  # type: ignore[import-untyped]
from django.db import connections  # type: ignore[import-untyped]

#: The framework is an app of its own where it is not in Django.
APPS = ["ramify.contrib.django", *(["django_tasks"] if VERSION < (6, 0) else [])]

if not settings.configured:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ""}
    settings.configure(
        DATABASES={"default": database, "other": dict(database)},
        INSTALLED_APPS=APPS,
        LOGGING_CONFIG=None,
        USE_TZ=True,
    )
    setup()

#: The module that has the framework: Django's own from 6.0 on.
framework: Any = import_module("django.tasks" if VERSION >= (6, 0) else "django_tasks")


def databases_in(folder: Path) -> Any:
    """Django's connections, to databases in files of a folder."""
    for alias in connections:
        connections.settings[alias]["NAME"] = str(folder / f"{alias}.sqlite")
    return connections
