"""The address of an engine, a DAG or a pipeline: `package.module:engine` or `walk.py:engine`, for others to find it.

Processes are started afresh and import the user's module by themselves. A file is loaded the way Python loads a script,
with its folder first on the path, but under a name of its own, so that its `if __name__ == "__main__":` part does not
run.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ramify.errors import ConfigError

if TYPE_CHECKING:
    from ramify.engine.engine import Engine
    from ramify.shapes.dag.dag import Dag
    from ramify.shapes.pipeline.pipeline import Pipeline

    Startable: TypeAlias = Engine | Dag | Pipeline[..., Any]


def folder_now() -> str | None:
    """The folder of this process; None when it was removed, which is no trouble before somebody needs it."""
    try:
        return os.getcwd()
    except OSError:
        return None


def address_of(engine: object) -> str:
    """The address of an engine in this program; ConfigError when another process could not find it."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is engine:
                return f"{_module_address(name, module)}:{attribute}"
    raise ConfigError(
        "processes=...: worker processes import your engine, so it must be a module-level variable. "
        "Write `engine = Engine(...)` at the top level of a file."
    )


def _module_address(name: str, module: ModuleType) -> str:
    if name != "__main__" and not name.startswith(_PREFIX):
        return name
    spec = getattr(module, "__spec__", None)
    if spec is not None and name == "__main__":
        # `python -m package.module`; a package's own __main__ is named as such.
        return str(spec.name)
    file = getattr(module, "__file__", None)
    # A program that is piped into Python says that its file is "<stdin>".
    if file is None or not Path(file).is_file():
        raise ConfigError(
            "processes=...: worker processes import your engine, and this one was typed at a prompt or piped in. "
            "Put it into a file, or use threads."
        )
    return str(Path(file).resolve())


_PREFIX = "ramify_file_"


def load_engine(address: str) -> Engine:
    """Import the engine at an address; ConfigError says what is wrong and what there is."""
    from ramify.engine.engine import Engine

    engine: Engine = _load(address, Engine)
    return engine


def load_dag(address: str) -> Dag:
    """Import the DAG at an address, or that of a pipeline; ConfigError says what is wrong and what there is."""
    from ramify.shapes.dag.dag import Dag
    from ramify.shapes.pipeline.pipeline import Pipeline

    found: Dag | Pipeline[..., Any] = _load(address, Dag, Pipeline)
    return found._dag if isinstance(found, Pipeline) else found


def load_startable(address: str) -> tuple[Startable, Engine, str]:
    """Import an engine, or a DAG or pipeline with the engine of its module that knows it; and the engine's address."""
    from ramify.engine.engine import Engine
    from ramify.engine.tasks.contents import definitions_of
    from ramify.shapes.dag.dag import Dag
    from ramify.shapes.pipeline.pipeline import Pipeline

    found: Startable = _load(address, Engine, Dag, Pipeline)
    if isinstance(found, Engine):
        return found, found, address
    where = address.rpartition(":")[0]
    for name, value in vars(_module_at(where)).items():
        if isinstance(value, Engine) and any(each is found for each in definitions_of(value)):
            return found, value, f"{where}:{name}"
    raise ConfigError(
        f"{address}: no engine in {where} has {found.name!r}. Import it where its engine is, and name that module."
    )


def _load(address: str, *wanted: type[Any]) -> Any:
    what = wanted[0].__name__
    where, colon, name = address.rpartition(":")
    if not colon or not where or not name:
        example = f"walk.py:{what.lower()}"
        raise ConfigError(f"{address!r}: expected MODULE:{what.upper()} or FILE.py:{what.upper()}. Write {example}.")
    module = _module_at(where)
    found = getattr(module, name, None)
    if isinstance(found, wanted):
        return found
    known = sorted(each for each, value in vars(module).items() if isinstance(value, wanted))
    words = " or ".join(each.__name__.lower() for each in wanted)
    there = f"It has {', '.join(known)}." if known else f"It has no {words} at all."
    other = "" if found is None else f", where that is of type {type(found).__name__}"
    raise ConfigError(f"no {words} {name!r} in {where}{other}. {there}")


def _module_at(where: str) -> ModuleType:
    return _load_file(Path(where)) if where.endswith(".py") else _load_module(where)


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(f"no module {name!r} here. Give its full name, or a file such as walk.py.") from None
        raise


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise ConfigError(f"no file {path.name!r} in {path.parent}. Give its path.")
    name = f"{_PREFIX}{path.stem}"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    with ExitStack() as half_loaded:
        half_loaded.callback(sys.modules.pop, name, None)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        half_loaded.pop_all()
    return module
