"""Makers of calls: the function behind `task.of`, the shortest one that does what the options of the task ask for.

Promises: making a call costs one encoding and one struct; a key, a lane or a hold costs only where it was asked for.

Does not know engines, stores or what a task does when it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from ramify.engine.tasks.options import Options, Selector
from ramify.errors import BadPayload, ConfigError, NotKnownYet
from ramify.model.call import LEFT_OUT, Call, Group, OpenCall, ReferringCall, arguments_key, label_of
from ramify.model.codec import Refers
from ramify.model.reference import Reference
from ramify.model.task import check_name

_Select = Callable[[tuple[Any, ...], dict[str, Any]], object]


def maker(fn: Callable[..., Any], group: Group, options: Options, streams: Collection[str]) -> Callable[..., Call[Any]]:
    """The function behind `of`: the shortest that does what the options ask for."""
    signature = group.signature
    encode_positional, encode = signature.encode_positional, signature.encode
    label, lane = _labels(fn, group, options, streams), _lanes(fn, group, options, streams)

    def of_referring(*args: Any, **kwargs: Any) -> Call[Any]:
        """A call with references among its arguments."""
        body, references = signature.encode_referring(args, kwargs)
        varied = group.varied or group
        try:
            made: Call[Any] = ReferringCall(varied, body, None, None, lane(args, kwargs), references)
            return msgspec.structs.replace(made, label=label(made, args, kwargs))
        except NotKnownYet:
            raise _unknown(group.kind, references[0]) from None
        except BadPayload:
            raise
        except Exception as error:
            # The user's own function of the arguments, which did not expect a reference.
            raise _unknown(group.kind, references[0], f" ({type(error).__name__}: {error})") from error

    def lacking(args: tuple[Any, ...], kwargs: dict[str, Any], error: BadPayload) -> Call[Any]:
        """A call without one of its arguments, for what follows a job; `error` for what lacks more, or other things."""
        name = _lacks(fn, args, kwargs, streams)
        if name is None:
            raise error
        reference = Reference(LEFT_OUT, stream=name in streams)
        try:
            made = of_referring(*args, **kwargs, **{name: reference})
        except BadPayload:
            raise error from None

        def fill(reference: Reference) -> bytes:
            return signature.encode_referring(args, {**kwargs, name: reference})[0]

        return OpenCall(
            made.group, made.body, made.label, made.extra, made.in_lane, (reference,), name, str(error), fill
        )

    if any(inspect.signature(fn).parameters[name].default is inspect.Parameter.empty for name in streams):

        def of_streaming(*args: Any, **kwargs: Any) -> Call[Any]:
            try:
                return of_referring(*args, **kwargs)
            except BadPayload as error:
                return lacking(args, kwargs, error)

        return of_streaming

    if options.key is None and not options.once and options.lane is None:
        varied = group.varied or group

        def of(*args: Any, **kwargs: Any) -> Call[Any]:
            try:
                return Call(group, encode(args, kwargs) if kwargs else encode_positional(args))
            except Refers:
                pass
            except BadPayload as error:
                return lacking(args, kwargs, error)
            # Out here, so that what it raises has nothing of ours above it.
            body, references = signature.encode_referring(args, kwargs)
            return ReferringCall(varied, body, None, None, None, references)

        return of

    def of_chosen(*args: Any, **kwargs: Any) -> Call[Any]:
        try:
            body = encode(args, kwargs) if kwargs else encode_positional(args)
        except Refers:
            body = None
        except BadPayload as error:
            return lacking(args, kwargs, error)
        if body is None:
            return of_referring(*args, **kwargs)
        return Call(group, body, label(Call(group, body), args, kwargs), None, lane(args, kwargs))

    return of_chosen


def _unknown(kind: str, reference: Reference, why: str = "") -> BadPayload:
    return BadPayload(
        f"{kind}(): its key, once or lane comes from {reference!r}, which is not known yet{why}. "
        "Take it from another argument, or set it with .key() or .lane()."
    )


def _lacks(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], streams: Collection[str]
) -> str | None:
    """The one parameter that got no argument; None when there are others, or a stream takes what comes before."""
    known = inspect.signature(fn)
    try:
        given = known.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    every = known.parameters.values()
    if any(each.name in streams and each.default is not each.empty for each in every):
        return None
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    missing = [
        each for each in every if each.default is each.empty and each.kind not in many and each.name not in given
    ]
    return missing[0].name if len(missing) == 1 else None


def _labels(
    fn: Callable[..., Any], group: Group, options: Options, streams: Collection[str]
) -> Callable[[Call[Any], tuple[Any, ...], dict[str, Any]], bytes | None]:
    kind = group.kind
    if options.once is True:
        return lambda call, args, kwargs: label_of(kind, arguments_key(call))
    option, how = ("once", options.once) if options.once else ("key", options.key)
    if how is None:
        return lambda call, args, kwargs: None
    choose = _chooser(fn, option, how, streams)

    def label(call: Call[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
        text = _text(kind, option, choose(args, kwargs))
        return None if text is None else label_of(kind, text)

    return label


def _lanes(
    fn: Callable[..., Any], group: Group, options: Options, streams: Collection[str]
) -> Callable[[tuple[Any, ...], dict[str, Any]], str | None]:
    if options.lane is None:
        return lambda args, kwargs: None
    choose = _chooser(fn, "lane", options.lane, streams)

    def lane(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        text = _text(group.kind, "lane", choose(args, kwargs))
        return None if text is None else check_name("lane", text)

    return lane


def _chooser(fn: Callable[..., Any], option: str, how: Selector | bool, streams: Collection[str]) -> _Select:
    parameters = {name: each for name, each in inspect.signature(fn).parameters.items() if name not in streams}
    if callable(how):
        return lambda args, kwargs: how(*args, **kwargs)
    if not isinstance(how, str) or how not in parameters:
        raise ConfigError(
            f"@task({option}={how!r}) on {fn.__name__}(): expected one of its parameters "
            f"({', '.join(parameters) or 'it has none'}), or a function of the arguments that returns a str or None."
        )
    source = parameters[how]
    if source.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise ConfigError(
            f"@task({option}={how!r}) on {fn.__name__}(): {source} is several arguments. Give a function of them."
        )
    position = list(parameters).index(how)
    by_position = source.kind is not inspect.Parameter.KEYWORD_ONLY

    def choose(args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        return args[position] if by_position and position < len(args) else kwargs.get(how, source.default)

    return choose


def _text(kind: str, option: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Reference):
        raise BadPayload(
            f"{kind}(): its {option} would be the {value!r}, which is not known yet. Take it from another argument."
        )
    if isinstance(value, int | PurePath | UUID) and not isinstance(value, bool):
        return str(value)
    raise BadPayload(
        f"{kind}(): expected text as its {option}, got {value!r}. "
        f"Give {option} as a function of the arguments that returns a str or None."
    )
