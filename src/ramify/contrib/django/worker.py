"""Where worker processes find the engine of a backend: `ramify.contrib.django.worker:ALIAS`.

Importing it sets Django up, by the settings of the environment. Every alias of `TASKS` that is a backend of ours is a
variable of this module once it is asked for; so all other names here are private. Settings may change in a process, as
they do in tests: `_engine_of` looks anew.
"""

from django import setup as _setup  # type: ignore[import-untyped]
from django.apps import apps as _apps  # type: ignore[import-untyped]

from ramify.contrib.django.backend import RamifyBackend as _Backend
from ramify.contrib.django.framework import task_backends as _backends
from ramify.engine.engine import Engine as _Engine

if not _apps.ready:
    _setup()


def _engine_of(alias: str) -> _Engine:
    """Return the engine of a backend by the settings as they are now; it becomes the variable of that name."""
    backend = _backends[alias] if alias in set(_backends) else None
    if not isinstance(backend, _Backend):
        raise AttributeError(f"TASKS has no backend {alias!r} that is a RamifyBackend")
    engine = backend.depot.engine
    for name in backend.queues:
        engine.queue(name)
    # There for `address_of`, by which worker processes are told where to find it.
    globals()[alias] = engine
    return engine


__getattr__ = _engine_of
