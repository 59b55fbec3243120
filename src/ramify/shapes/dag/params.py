"""The values that a run of a DAG is given for its params: as they are stored, or not known before another run ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ramify.errors import ConfigError
from ramify.model.codec.fitting import fits, in_code
from ramify.model.codec.wire import Wire
from ramify.model.reference import Reference
from ramify.shapes.dag.node import Param
from ramify.shapes.dag.words import nearest, sealed

#: What stands for a default that there is not.
NO_DEFAULT: Any = object()


def declared(dag: str, params: Mapping[str, Param], name: object, of: Any, default: object) -> Param:
    """A new param of a DAG; ConfigError for a name that it cannot have, or a default that does not fit."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(f"{dag}: param({name!r}): expected a name that can be written as {dag}.of(name=…).")
    if name in params:
        raise ConfigError(f"{dag}: param({name!r}): this name is taken. Choose another name.")
    found = Param(name, of, None)
    return found if default is NO_DEFAULT else found._replace(default=sealed(dag, found, default))


def given(
    dag: str, params: Mapping[str, Param], values: Mapping[str, Any]
) -> tuple[dict[str, bytes], dict[str, Reference]]:
    """A value for each param, sealed; and those that stand for what is not known yet. ConfigError for what is wrong."""
    if unknown := [name for name in values if name not in params]:
        raise ConfigError(f"{dag}: unknown param {unknown[0]!r}. {nearest(unknown[0], params)}")
    known = {name: param.default for name, param in params.items() if param.default is not None}
    later: dict[str, Reference] = {}
    for name, value in values.items():
        if isinstance(value, Reference):
            later[name] = _fitting(dag, params[name], value)
            known.pop(name, None)
        else:
            known[name] = sealed(dag, params[name], value)
    if missing := [name for name in params if name not in known and name not in later]:
        raise ConfigError(
            f"{dag}: missing params without a default. Give {', '.join(f'{name}=…' for name in missing)}."
        )
    return known, later


def values_of(dag: str, params: Mapping[str, Param], stored: Mapping[str, bytes]) -> dict[str, Any]:
    """Stored values for params; ConfigError when one does not fit. A value without a name is for the only param."""
    if "" in stored and len(params) != 1:
        raise ConfigError(
            f"{dag}: expected one param, because it is given one value, got {len(params)}. Remove the others."
        )
    only = next(iter(params), "")
    return {name or only: _read(dag, params, name or only, raw) for name, raw in stored.items()}


def _read(dag: str, params: Mapping[str, Param], name: str, raw: bytes) -> Any:
    if name not in params:
        raise ConfigError(f"{dag}: unknown param {name!r}. {nearest(name, params)}")
    try:
        return Wire(params[name].annotation).read(raw)
    except Exception as error:  # noqa: BLE001  whatever it is, the words are what the caller needs
        raise ConfigError(f"{dag}: {name}={raw[:100].decode('utf-8', 'replace')}: {error}") from None


def _fitting(dag: str, param: Param, value: Reference) -> Reference:
    if value.stream:
        raise ConfigError(f"{dag}: {param.name}: expected one value, got the {value!r}. Collect them in a node first.")
    if not fits(value.of, param.annotation):
        raise ConfigError(
            f"{dag}: {param.name}: expected {in_code(param.annotation)}, "
            f"got the {value!r}, which is {in_code(value.of)}."
        )
    return value
