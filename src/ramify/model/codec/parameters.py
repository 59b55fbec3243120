"""The arguments and the result of a function by its signature, read once, when it is decorated.

Promises: every parameter has an annotation that the codec can decode, `Any` where the author gave none; a function that
can never be called through the codec is refused here, with the parameter's name, not when its first task is made.

The result of a handler is what it returns in the end: of a generator its return value, of a coroutine what awaiting it
gives. An async generator has no return value in Python: its result is what it yields as its last word, and without
an annotation that says so any result may come out of one.

Does not look at values, and does not follow annotations that are only visible to type checkers.
"""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Container,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from dataclasses import dataclass
from typing import Any, Never, NoReturn, Unpack, get_args, get_origin, get_type_hints

import msgspec

from ramify.errors import ConfigError
from ramify.model.codec.wire import Wire, can_rebuild

Function = Callable[..., object]

#: How a result is called in texts for people.
RESULT = "return value"

_ASYNC_STREAMS = (AsyncGenerator, AsyncIterator, AsyncIterable)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, with the annotation of what it holds in the body: for `*args` a tuple, for `**kwargs` a dict."""

    annotation: Any
    source: inspect.Parameter

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def default(self) -> object:
        return self.source.default

    @property
    def by_position(self) -> bool:
        return self.source.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

    @property
    def only_by_position(self) -> bool:
        return self.source.kind is inspect.Parameter.POSITIONAL_ONLY

    @property
    def is_args(self) -> bool:
        return self.source.kind is inspect.Parameter.VAR_POSITIONAL

    @property
    def is_kwargs(self) -> bool:
        return self.source.kind is inspect.Parameter.VAR_KEYWORD

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty and not (self.is_args or self.is_kwargs)


def read_parameters(
    fn: Function, without: Container[str] = (), last_word: type | None = None
) -> tuple[tuple[Parameter, ...], Any]:
    """The parameters of a function and the annotation of its result; raises ConfigError for what can never work.

    Those named in `without` are left out: they are no part of a stored call. `last_word` is the generic class whose
    parameter is the result of an async generator that yields it.
    """
    hints = annotations_of(fn)
    sources = [source for source in inspect.signature(fn).parameters.values() if source.name not in without]
    parameters = tuple(Parameter(_annotation(source, hints.get(source.name, Any)), source) for source in sources)
    result = _result(fn, hints.get("return", Any), last_word)
    for parameter in parameters:
        _check(fn, parameter.name, parameter.annotation, parameter.required)
    _check(fn, RESULT, result, needed=True)
    return parameters, result


def annotations_of(fn: Function) -> dict[str, Any]:
    """The annotations of a function by name, resolved; ConfigError when they cannot be."""
    try:
        return get_type_hints(fn, include_extras=True)
    except Exception as error:  # noqa: BLE001  whatever it is, the words are what the reader needs
        raise ConfigError(
            f"{fn.__name__}(): its annotations cannot be resolved ({error}). "
            "Define or import the names above the function, not only under TYPE_CHECKING"
        ) from None


def _annotation(source: inspect.Parameter, hint: Any) -> Any:
    match source.kind:
        case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD if get_origin(hint) is Unpack:
            return get_args(hint)[0]
        case inspect.Parameter.VAR_POSITIONAL:
            return tuple[hint, ...]
        case inspect.Parameter.VAR_KEYWORD:
            return dict[str, hint]
        case _:
            return hint


def _result(fn: Function, hint: Any, last_word: type | None) -> Any:
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if inspect.isasyncgenfunction(fn) or origin in _ASYNC_STREAMS:
        return _yielded_result(parts[0], last_word) if parts and last_word is not None else Any
    if origin is Generator or origin is Coroutine:
        return parts[2] if len(parts) == 3 else (None if parts else Any)
    if origin is Awaitable:
        return parts[0] if parts else Any
    if origin is Iterator or (origin is Iterable and inspect.isgeneratorfunction(fn)):
        return None
    return None if origin in (Never, NoReturn) else hint


def _yielded_result(yields: Any, last_word: type) -> Any:
    for part in (yields, *get_args(yields)):
        if get_origin(part) is last_word:
            return get_args(part)[0]
    return Any


def _check(fn: Function, name: str, annotation: Any, needed: bool) -> None:
    try:
        Wire(annotation)
        kind = msgspec.inspect.type_info(annotation)
    except TypeError as error:
        raise ConfigError(
            f"{fn.__name__}(): `{name}` cannot be stored as it is annotated. {error}. Use types JSON can tell apart"
        ) from None
    if needed and isinstance(kind, msgspec.inspect.CustomType) and not can_rebuild(kind.cls):
        raise ConfigError(
            f"{fn.__name__}(): `{name}` is annotated {_called(annotation)}, which cannot be stored. "
            "Use a concrete type: str, list[...], a dataclass, a Struct, a pydantic model"
        )


def _called(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
