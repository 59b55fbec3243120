"""Traces with OpenTelemetry: spans of attempts, and traces that go on in tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ramify import AsyncSpawns, Backoff, Defer, Engine, Return, Skip, Spawns, Tasks, current, steps
from ramify.contrib.opentelemetry import trace, traced

jobs = Tasks()


#: Who was put off.
put_off_once: set[int] = set()


def here() -> str:
    """The id of the current span."""
    return otel.format_span_id(otel.get_current_span().get_span_context().span_id)


@jobs.task
def plain() -> str:
    return here()


@jobs.task
async def waiting() -> str:
    return here()


@jobs.task
def making() -> Spawns[str]:
    yield traced(plain.of())
    return here()


@jobs.task
async def slowly_making() -> AsyncSpawns[str]:
    yield traced(waiting.of())
    yield Return(here())


@jobs.task
def told() -> dict[str, str]:
    return {**current().headers, "task": str(current().task)}


@jobs.task(retries=1, backoff=Backoff(first=0))
def fragile() -> None:
    if current().attempt == 1:
        raise ValueError("not yet")


@jobs.task
def put_off() -> None:
    if current().task not in put_off_once:
        put_off_once.add(current().task)
        raise Defer(0.0)


@jobs.task
def needless() -> None:
    raise Skip("old")


@jobs.task
def numbers(n: int) -> list[int]:
    return list(range(n))


@jobs.task
def same(n: int) -> int:
    return n


class Scene:
    """An engine whose attempts make spans, and those spans."""

    def __init__(self) -> None:
        self.provider, self._kept = TracerProvider(), InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("test")
        self.engine = Engine("memory:", include=[jobs])
        trace(self.engine, self.provider)

    def spans(self) -> list[ReadableSpan]:
        """Those that ended, in the order in which they began."""
        return sorted(self._kept.get_finished_spans(), key=lambda span: span.start_time or 0)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.engine.close()
    scene.provider.shutdown()


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return otel.format_span_id(span.context.span_id)


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else otel.format_span_id(span.parent.span_id)


def test_a_trace_that_began_in_a_request_goes_on_in_its_task(scene: Scene) -> None:
    with scene.tracer.start_as_current_span("request") as request:
        run = scene.engine.start(traced(told.of()))
    with scene.engine.working(threads=1):
        run.wait()
    at = request.get_span_context()
    (result,) = run.results()
    assert result["traceparent"].startswith(f"00-{at.trace_id:032x}-{at.span_id:016x}-")
    _, span = scene.spans()
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id, span.parent.is_remote) == (at.trace_id, at.span_id, True)


def test_a_span_tells_which_task_it_is_by_the_conventions(scene: Scene) -> None:
    run = scene.engine.run(told.of())
    (span,) = scene.spans()
    assert (span.name, span.kind, span.parent) == ("process told", otel.SpanKind.CONSUMER, None)
    assert dict(span.attributes or {}) == {
        "messaging.system": "ramify",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "told",
        "messaging.message.id": next(iter(run.results()))["task"],
        "messaging.message.conversation_id": str(run.id),
        "messaging.ramify.attempt": 1,
    }
    assert span.status.status_code is otel.StatusCode.UNSET


def test_each_attempt_is_a_span_of_one_trace_and_one_that_fails_is_an_error(scene: Scene) -> None:
    with scene.tracer.start_as_current_span("request"):
        call = traced(fragile.of())
    scene.engine.run(call)
    request, first, second = scene.spans()
    assert (first.status.status_code, first.status.description) == (otel.StatusCode.ERROR, "not yet")
    assert (first.attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in first.events] == ["exception"]
    assert (second.status.status_code, (second.attributes or {})["messaging.ramify.attempt"]) == (
        otel.StatusCode.UNSET,
        2,
    )
    assert [parent_of(first), parent_of(second)] == [id_of(request)] * 2


def test_to_defer_and_to_skip_are_no_errors(scene: Scene) -> None:
    put_off_once.clear()
    scene.engine.run([put_off.of(), needless.of()])
    assert [span.status.status_code for span in scene.spans()] == [otel.StatusCode.UNSET] * 3


def test_handlers_of_every_calling_run_inside_their_spans(scene: Scene) -> None:
    run = scene.engine.run([making.of(), slowly_making.of()])
    ids = {id_of(span): span for span in scene.spans()}
    assert sorted(run.results()) == sorted(ids)
    parents = {span.name: ids[of].name for span in ids.values() if (of := parent_of(span)) is not None}
    assert parents == {"process plain": "process making", "process waiting": "process slowly_making"}


def test_without_a_trace_a_call_stays_as_it_is() -> None:
    call = plain.of()
    assert traced(call) is call


def test_what_shapes_do_between_tasks_makes_no_spans(scene: Scene) -> None:
    scene.engine.run(scene.engine.pipeline("count", steps(numbers).expand(same)).of(2))
    assert sorted(span.name for span in scene.spans()) == ["process numbers", "process same", "process same"]


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "ramify.contrib.opentelemetry")
    with pytest.raises(Exception, match=r"pip install 'ramify\[opentelemetry\]'"):
        __import__("ramify.contrib.opentelemetry")
