"""Django's tasks framework, wherever it is: in Django itself from 6.0 on, else in the package `django-tasks`.

The only place that knows there are two of them. They differ in names of modules and of one exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramify.errors import NotInstalled

try:
    from django import VERSION  # type: ignore[import-untyped]

    if TYPE_CHECKING or VERSION < (6, 0):
        from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import Task, TaskError
        from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    else:
        from django.tasks import Task, TaskContext, TaskResult, TaskResultStatus, task_backends
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import TaskError
        from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
        from django.tasks.signals import task_enqueued, task_finished, task_started
        from django.utils.json import normalize_json
except ImportError as error:
    raise NotInstalled(
        "Django's tasks framework is in Django 6.0 or newer, and for older ones in a package: pip install django-tasks"
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
