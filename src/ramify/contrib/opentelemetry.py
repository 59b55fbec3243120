"""Traces with OpenTelemetry: a span for each attempt, in the process that runs it, and traces that continue in tasks.

Promises: what an attempt does is inside its span, so that other instrumentation finds it. A trace continues in all that
an attempt makes: children, continuations, and runs that it launches. To enqueue jobs is a PRODUCER span, and the parent
of the spans of their attempts; `job.then(call)` continues the trace of its job. Runs continue the trace in which they
are started, without a span of their own. A call that was made with `traced` continues the one in which it was made.

Does not set up an SDK: the program does, where worker processes import it. Makes no spans for single calls, of which
there may be millions, nor for what shapes do between tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from ramify.engine.engine import Engine
from ramify.errors import NotInstalled
from ramify.kernel.attempts.control import Defer, Skip
from ramify.kernel.attempts.current import Current
from ramify.model.call import Call, shared_headers

try:
    from opentelemetry import propagate
    from opentelemetry import trace as otel
except ImportError as error:
    raise NotInstalled("traces need the package opentelemetry-api: pip install 'ramify[opentelemetry]'") from error

R = TypeVar("R")


def trace(engine: Engine, provider: otel.TracerProvider | None = None) -> None:
    """Make a span for each attempt of an engine's tasks, and for each `enqueue`, by the program's tracer provider or
    `provider`.

    Call it at the top of the module that has the engine, so that worker processes do the same.
    """
    tracer = otel.get_tracer("ramify", tracer_provider=provider)
    engine.around(_spans(tracer))
    engine._runtime.enqueuing.sending = _sending(tracer)
    engine._runtime.tracing = _trace_here


def traced(call: Call[R]) -> Call[R]:
    """Return the call with the current trace in its headers; without a trace, the call itself."""
    headers = _trace_here()
    return call.headers(**headers) if headers else call


def _trace_here() -> dict[str, str]:
    """The current trace as headers; none where there is none."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def _spans(tracer: otel.Tracer) -> Callable[[Current], Iterator[None]]:
    """The hook that puts each attempt into a span, with the trace that its call was made in as the parent."""

    def span(me: Current) -> Iterator[None]:
        attributes: dict[str, str | int] = {
            "messaging.system": "ramify",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": me.queue,
            "messaging.ramify.task": me.kind,
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
            if passed := _trace_here():
                me._pass_on(passed)
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


def _sending(tracer: otel.Tracer) -> Callable[[list[Call[Any]]], AbstractContextManager[list[Call[Any]]]]:
    """The surroundings of each adding of jobs: one span for all of them, with which their trace continues."""
    fields = propagate.get_global_textmap().fields

    @contextmanager
    def sending(calls: list[Call[Any]]) -> Iterator[list[Call[Any]]]:
        shared = shared_headers(call.extra for call in calls)
        is_traced = not fields.isdisjoint(shared)
        queues = sorted({call.group.queue for call in calls})
        attributes: dict[str, str | int] = {
            "messaging.system": "ramify",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": queues[0] if len(queues) == 1 else ", ".join(queues),
        }
        if len(calls) > 1:
            attributes["messaging.batch.message_count"] = len(calls)
        else:
            attributes["messaging.ramify.task"] = calls[0].kind
        # Not as the current span: others may run between the steps of a coroutine that enqueues.
        span = tracer.start_span(
            f"send {calls[0].kind}",
            context=propagate.extract(shared) if is_traced else None,
            kind=otel.SpanKind.PRODUCER,
            attributes=attributes,
        )
        passed: dict[str, str] = {}
        propagate.inject(passed, otel.set_span_in_context(span))
        try:
            yield [call.headers(**passed) if is_traced or not _is_traced(call, fields) else call for call in calls]
        except Exception as error:
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(otel.StatusCode.ERROR, str(error))
            raise
        finally:
            span.end()

    return sending


def _is_traced(call: Call[Any], fields: set[str]) -> bool:
    """Return whether a call has a trace of its own."""
    return not fields.isdisjoint(shared_headers([call.extra]))
