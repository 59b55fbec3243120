"""A backend of Django's tasks framework on a store of its own, for every test that needs one, and a worker for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ramify.contrib.django import RamifyBackend
from ramify.contrib.django.depot import _depots
from ramify.kernel.settings import Settings
from tests.contrib import django_goods as goods
from tests.contrib.django_here import databases_in, framework

signals: Any = import_module(f"{framework.__name__}.signals")

Configure = Callable[..., RamifyBackend]


@pytest.fixture
def configure(tmp_path: Path) -> Iterator[Configure]:
    """Make settings with one backend, from its options and queues."""
    from django.test import override_settings  # type: ignore[import-untyped]

    connections = databases_in(tmp_path)
    made: list[Any] = []

    def settings(queues: list[str] | None = None, **options: Any) -> RamifyBackend:
        path = "ramify.contrib.django.RamifyBackend"
        default: dict[str, Any] = {"BACKEND": path, "OPTIONS": {"store": tmp_path / "tasks.db", **options}}
        if queues is not None:
            default["QUEUES"] = queues
        other = {"BACKEND": path, "OPTIONS": {"store": tmp_path / "tasks.db"}}
        dummy = {"BACKEND": f"{framework.__name__}.backends.dummy.DummyBackend"}
        made.append(override_settings(TASKS={"default": default, "other": other, "dummy": dummy}))
        made[-1].enable()
        backend = framework.task_backends["default"]
        assert isinstance(backend, RamifyBackend)
        return backend

    goods.ran.clear()
    yield settings
    for depot in tuple(_depots.values()):
        depot.engine.close()
    connections.close_all()
    for each in reversed(made):
        each.disable()


@pytest.fixture
def backend(configure: Configure) -> RamifyBackend:
    return configure()


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any, str]]]:
    """What was told by signals: which, by whom, and where the result stood."""
    told: list[tuple[str, Any, str]] = []

    def receiver(name: str) -> Callable[..., None]:
        return lambda sender, task_result, **rest: told.append((name, sender, str(task_result.status)))

    # Held here, because signals hold receivers weakly.
    receivers = {name: receiver(name) for name in ("task_enqueued", "task_started", "task_finished")}
    for name, each in receivers.items():
        getattr(signals, name).connect(each)
    yield told
    for name, each in receivers.items():
        getattr(signals, name).disconnect(each)


def work_off(backend: RamifyBackend) -> None:
    """One worker does what is ready, one after the other, until nothing is."""
    runtime = backend.depot.engine._runtime
    with runtime.using_resources():
        kernel = runtime.kernel(Settings(threads=1, on_idle=lambda: kernel.stop()))
        kernel.start()
        kernel.join()
