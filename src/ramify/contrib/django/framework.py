"""Django's tasks framework, wherever it is: in Django itself from 6.0 on, else in the package `django-tasks`.

The only place that knows there are two of them. They differ in names of modules, and older versions of the package in
the names of two exceptions. A version that lacks something Ramify needs is refused by its number.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ramify.errors import ConfigError, NotInstalled

try:
    from django import VERSION  # type: ignore[import-untyped]
except ImportError as error:
    VERSION = None
    missing: ImportError | None = error
else:
    missing = None
if VERSION is None or (VERSION < (6, 0) and find_spec("django_tasks") is None):
    raise NotInstalled(
        "Django's tasks framework is in Django 6.0 or newer, and for older ones in a package: pip install django-tasks"
    ) from missing


def _either(module: ModuleType, *names: str) -> Any:
    """Return what a module has under the first of these names that it knows."""
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    raise ImportError(f"cannot import name {' or '.join(map(repr, names))} from {module.__name__!r}")


def _installed(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"the installed {package}"


try:
    if TYPE_CHECKING or VERSION < (6, 0):
        from django_tasks import TaskContext, TaskResult, TaskResultStatus, exceptions, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import Task, TaskError
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    else:
        from django.tasks import Task, TaskContext, TaskResult, TaskResultStatus, exceptions, task_backends
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import TaskError
        from django.tasks.exceptions import TaskResultDoesNotExist
        from django.tasks.signals import task_enqueued, task_finished, task_started
        from django.utils.json import normalize_json
    if TYPE_CHECKING:
        from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
    else:
        InvalidTask = _either(exceptions, "InvalidTask", "InvalidTaskError")
        InvalidTaskBackend = _either(exceptions, "InvalidTaskBackend", "InvalidTaskBackendError")
except ImportError as error:
    package, known = ("django-tasks", "django-tasks>=0.12") if VERSION < (6, 0) else ("Django", "django>=6.0")
    raise ConfigError(
        f"{_installed(package)} is installed, and Ramify cannot work with it: {error}. "
        f"Install one that it knows: pip install '{known}'"
    ) from error

__all__ = [
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
