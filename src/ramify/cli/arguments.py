"""Arguments of a task from text: what was typed, read by the annotation of the parameter it is for.

`3` is a number for an `int` and a text for a `str`; lists and objects are typed as JSON. What was given as JSON as a
whole (`--args`) is read just as kindly. Whether the arguments fit the function is decided where every call is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from ramify.cli.visit import Wrong
from ramify.engine.task import Task
from ramify.model.call import Call
from ramify.model.codec import annotations_of
from ramify.model.decoder import converter

AnyTask = Task[..., Any, Any]


def call_of(task: AnyTask, typed: Sequence[str], given: str | None) -> Call[Any]:
    """The call that was typed, or given as JSON: a list by position, an object by name."""
    if given is None:
        places = _places(task)
        return task.of(*[_from_text(task, text, *next(places)) for text in typed])
    if typed:
        raise Wrong("give the arguments as text or with --args, not both")
    try:
        tree = msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise Wrong(f"--args is not JSON ({error}); give a list by position or an object by name") from error
    if isinstance(tree, list):
        places = _places(task)
        return task.of(*[_converted(task, part, *next(places)) for part in tree])
    if isinstance(tree, dict):
        hints = annotations_of(task.fn)
        return task.of(**{name: _converted(task, part, name, hints.get(name, Any)) for name, part in tree.items()})
    raise Wrong("--args must be a JSON list (by position) or object (by name)")


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


def _from_text(task: AnyTask, text: str, name: str, annotation: Any) -> Any:
    try:
        return _lax(text, annotation)
    except msgspec.ValidationError as error:
        try:
            return _lax(msgspec.json.decode(text), annotation)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise _misfit(task, text, name, annotation, error) from error


def _converted(task: AnyTask, tree: object, name: str, annotation: Any) -> Any:
    try:
        return _lax(tree, annotation)
    except msgspec.ValidationError as error:
        raise _misfit(task, tree, name, annotation, error) from error


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


def _misfit(task: AnyTask, tree: object, name: str, annotation: Any, error: Exception) -> Wrong:
    wanted = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return Wrong(f"{task.kind}(): {name} is {wanted}, and {tree!a} is not ({error})")
