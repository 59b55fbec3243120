"""Roots from text: a task with its arguments, or a DAG or a pipeline with its params.

What was typed is read by the annotation of the parameter it is for.

`3` is a number for an `int` and a text for a `str`; lists and objects are typed as JSON. What was given as JSON as a
whole (`--args`) is read just as kindly. Whether the arguments fit the function is decided where every call is made.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from ramify.cli.visit import Wrong
from ramify.engine.engine import Engine
from ramify.engine.tasks.task import Task
from ramify.errors import BadPayload, ConfigError
from ramify.model.call import Call, whole
from ramify.model.codec import annotations_of
from ramify.model.codec.refusal import said_by_types
from ramify.model.decoder import converter
from ramify.shapes.dag.dag import Dag
from ramify.shapes.plan import Plan

if TYPE_CHECKING:
    from ramify.engine.processes.address import Startable

AnyTask = Task[..., Any, Any]


def root_of(address: str, found: Startable, words: Sequence[str], given: str | None) -> Call[Any] | Plan[Any]:
    """Read the words behind an address: of an engine, a task and its arguments; else params as NAME=VALUE."""
    try:
        if isinstance(found, Engine):
            if not words:
                raise Wrong(f"{address}: expected a task of this engine, got none. Name one, and its arguments")
            return call_of(_task(found, address, words[0]), words[1:], given)
        if isinstance(found, Dag):
            hints = {name: param.annotation for name, param in found._params.items()}
        else:
            first: object = found._first.task
            hints = dict(annotations_of(first.fn)) if isinstance(first, Task) else {}
        return found.of(**_params(found.name, hints, words, given))
    except (BadPayload, ConfigError) as error:
        raise Wrong(str(error)) from error


def _task(engine: Engine, address: str, wanted: str) -> AnyTask:
    table: Mapping[str, AnyTask] = engine._runtime.table()
    if wanted in table:
        return table[wanted]
    names = sorted(table)
    close = difflib.get_close_matches(wanted, names, n=3) or names
    if not names:
        raise Wrong(f"no task {wanted!a} in {address}. It has no tasks at all")
    rest = f", and {len(names) - len(close)} more" if len(close) < len(names) else ""
    raise Wrong(f"no task {wanted!a} in {address}. There {'is' if len(close) == 1 else 'are'} {', '.join(close)}{rest}")


def _params(what: str, hints: Mapping[str, Any], typed: Sequence[str], given: str | None) -> dict[str, Any]:
    """Values by name; whether they are all there, and no others, is decided by whoever takes them."""
    if given is not None:
        tree = _json(typed, given)
        if not isinstance(tree, dict):
            raise Wrong(f"--args: expected a JSON object with the params of {what} by name")
        return {name: _converted(what, part, name, hints.get(name, Any)) for name, part in tree.items()}
    found: dict[str, Any] = {}
    for each in typed:
        name, sign, text = each.partition("=")
        if not sign:
            known = next(iter(hints), "name")
            raise Wrong(f"{what}: expected params as NAME=VALUE, got {each!a}. Write {known}={each}")
        if name in found:
            raise Wrong(f"{what}: {name} is given twice. Give it once")
        found[name] = _from_text(what, text, name, hints.get(name, Any))
    return found


def call_of(task: AnyTask, typed: Sequence[str], given: str | None) -> Call[Any]:
    """The call that was typed, or given as JSON: a list by position, an object by name."""
    what = f"{task.kind}()"
    if given is None:
        places = _places(task)
        return whole(task.of(*[_from_text(what, text, *next(places)) for text in typed]))
    tree = _json(typed, given)
    if isinstance(tree, list):
        places = _places(task)
        return whole(task.of(*[_converted(what, part, *next(places)) for part in tree]))
    if isinstance(tree, dict):
        hints = annotations_of(task.fn)
        named = {name: _converted(what, part, name, hints.get(name, Any)) for name, part in tree.items()}
        return whole(task.of(**named))
    raise Wrong("--args: expected a JSON list (by position) or object (by name)")


def _json(typed: Sequence[str], given: str) -> object:
    if typed:
        raise Wrong("--args: expected the arguments as text or with --args, not both")
    try:
        return msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise Wrong(f"--args: expected JSON ({error}). Give a list by position or an object by name") from error


def _places(task: AnyTask) -> Iterator[tuple[str, Any]]:
    """The parameters that text is for, in order, and after the last one whatever the function will refuse."""
    hints = annotations_of(task.fn)
    for parameter in inspect.signature(task.fn).parameters.values():
        match parameter.kind:
            case _ if parameter.name in task.handler.streams:
                continue
            case parameter.POSITIONAL_ONLY | parameter.POSITIONAL_OR_KEYWORD:
                yield parameter.name, hints.get(parameter.name, Any)
            case parameter.VAR_POSITIONAL:
                while True:
                    yield parameter.name, hints.get(parameter.name, Any)
            case _:
                continue
    while True:
        yield "one too many", Any


def _from_text(what: str, text: str, name: str, annotation: Any) -> Any:
    try:
        return _lax(text, annotation)
    except msgspec.ValidationError as error:
        try:
            return _lax(msgspec.json.decode(text), annotation)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise _misfit(what, text, name, annotation, error) from error


def _converted(what: str, tree: object, name: str, annotation: Any) -> Any:
    try:
        return _lax(tree, annotation)
    except msgspec.ValidationError as error:
        raise _misfit(what, tree, name, annotation, error) from error


def _lax(tree: object, annotation: Any) -> Any:
    return converter(annotation, _rebuild, strict=False, str_keys=True)(tree)


def _rebuild(annotation: Any, tree: object) -> object:
    """Types that msgspec does not know: paths, and models with their own validation."""
    if isinstance(annotation, type):
        validate: Callable[[Any], object] | None = getattr(annotation, "model_validate", None)
        if validate is not None:
            try:
                return validate(tree)
            except ValueError as error:
                raise msgspec.ValidationError(str(error)) from error
        if issubclass(annotation, PurePath) and isinstance(tree, str):
            return annotation(tree)
    raise msgspec.ValidationError(f"`{annotation}` cannot be made from text")


def _misfit(what: str, tree: object, name: str, annotation: Any, error: Exception) -> Wrong:
    wanted = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    more = "" if said_by_types(error) else f" ({error})"
    return Wrong(f"{what}: {name}: expected {wanted}, got {tree!a}{more}")
