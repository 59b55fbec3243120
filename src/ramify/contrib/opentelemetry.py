"""Traces with OpenTelemetry: a span for each attempt, in the process that runs it, and traces that go on in tasks.

Promises: a call that was made with `traced` carries the trace in which it was made, in its headers; the span of each of
its attempts has that as its parent. What an attempt does is inside its span, so that other instrumentation finds it.

Does not set up an SDK: the program does, where worker processes import it. Makes no spans for calls, of which there may
be millions, nor for what shapes do between tasks. A call that was not `traced` begins a trace of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ramify.engine.engine import Engine
from ramify.errors import NotInstalled
from ramify.kernel.control import Defer, Skip
from ramify.kernel.current import Current
from ramify.model.call import Call

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
    engine.around(_spans(tracer))


def traced(call: Call[R]) -> Call[R]:
    """The same call, with the current trace in its headers; without one, the call itself."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return call.headers(**headers) if headers else call


def _spans(tracer: otel.Tracer) -> Callable[[Current], Iterator[None]]:
    """The hook that puts each attempt into a span, with the trace that its call was made in as the parent."""

    def span(me: Current) -> Iterator[None]:
        attributes: dict[str, str | int] = {
            "messaging.system": "ramify",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": me.kind,
            "messaging.message.id": str(me.task),
            "messaging.message.conversation_id": str(me.run_id),
            "messaging.ramify.attempt": me.attempt,
        }
        with tracer.start_as_current_span(
            f"process {me.kind}",
            context=propagate.extract(me.headers),
            kind=otel.SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as made:
            try:
                yield
            except (Defer, Skip, GeneratorExit):
                # Not an error: it goes on later, or there was nothing to do, or nobody wants the rest of it.
                raise
            except BaseException as error:
                made.record_exception(error)
                made.set_attribute("error.type", type(error).__qualname__)
                made.set_status(otel.StatusCode.ERROR, str(error))
                raise

    return span
