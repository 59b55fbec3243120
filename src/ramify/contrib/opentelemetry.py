"""Traces with OpenTelemetry: a span for each attempt, in the process that runs it, and traces that go on in tasks.

Promises: a call that was made with `traced` carries the trace in which it was made, in its headers; the span of each of
its attempts has that as its parent. What an attempt does is inside its span, so that other instrumentation finds it.

Does not set up an SDK: the program does, where worker processes import it. Makes no spans for calls, of which there may
be millions, nor for what shapes do between tasks. A call that was not `traced` begins a trace of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from ramify.engine.engine import Engine
from ramify.errors import NotInstalled
from ramify.kernel.control import Defer, Skip
from ramify.kernel.current import current
from ramify.kernel.handler import Calling, Handler
from ramify.model.call import Call
from ramify.model.task import is_own

try:
    from opentelemetry import propagate
    from opentelemetry import trace as otel
except ImportError as error:
    raise NotInstalled("traces need the package opentelemetry-api: pip install 'ramify[opentelemetry]'") from error

R = TypeVar("R")


def trace(engine: Engine, provider: otel.TracerProvider | None = None) -> None:
    """Make a span for each attempt of the tasks of an engine; without a provider, by the one of the program.

    Call it at the top of the module that has the engine, so that worker processes do the same.
    """
    tracer = otel.get_tracer("ramify", tracer_provider=provider)
    engine._inside.wraps.append(lambda handler: _spanned(handler, tracer))


def traced(call: Call[R]) -> Call[R]:
    """The same call, with the current trace in its headers; without one, the call itself."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return call.headers(**headers) if headers else call


@contextmanager
def _span(handler: Handler, tracer: otel.Tracer) -> Iterator[None]:
    """The span of the current attempt, with the trace that its call was made in as the parent."""
    me = current()
    attributes: dict[str, str | int] = {
        "messaging.system": "ramify",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": handler.kind,
        "messaging.message.id": str(me.task),
        "messaging.message.conversation_id": str(me.run_id),
        "messaging.ramify.attempt": me.attempt,
    }
    with tracer.start_as_current_span(
        f"process {handler.kind}",
        context=propagate.extract(me.headers),
        kind=otel.SpanKind.CONSUMER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except (Defer, Skip, GeneratorExit):
            # Not an error: it goes on later, or there was nothing to do, or nobody wants the rest of it.
            raise
        except BaseException as error:
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(otel.StatusCode.ERROR, str(error))
            raise


def _spanned(handler: Handler, tracer: otel.Tracer) -> Handler:
    """A handler that is called in the same way, inside a span."""
    fn = handler.fn
    if is_own(handler.kind):
        return handler
    match handler.calling:
        case Calling.PLAIN:

            @wraps(fn)
            def spanned(*args: Any, **kwargs: Any) -> Any:
                with _span(handler, tracer):
                    return fn(*args, **kwargs)

        case Calling.GENERATOR:

            @wraps(fn)
            def spanned(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                with _span(handler, tracer):
                    return (yield from fn(*args, **kwargs))

        case Calling.ASYNC:

            @wraps(fn)
            async def spanned(*args: Any, **kwargs: Any) -> Any:
                with _span(handler, tracer):
                    return await fn(*args, **kwargs)

        case Calling.ASYNC_GENERATOR:

            @wraps(fn)
            async def spanned(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
                with _span(handler, tracer):
                    async with aclosing(fn(*args, **kwargs)) as made:
                        async for each in made:
                            yield each

    return replace(handler, fn=spanned)
