"""Traces with OpenTelemetry: spans of attempts, and traces that go on in tasks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ramify import AsyncSpawns, Backoff, Defer, Engine, QueueFull, Return, Skip, Spawns, Tasks, current, steps
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
def untraced_children() -> Spawns[None]:
    current().spawn(plain.of(), then=told.of())
    yield plain.of()


@jobs.task
async def slow_untraced_children() -> AsyncSpawns[None]:
    yield plain.of()


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
        "messaging.destination.name": "default",
        "messaging.ramify.task": "told",
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


def chain_of(scene: Scene, span: ReadableSpan) -> list[str]:
    """The names of a span and of those above it."""
    by_id = {id_of(each): each for each in scene.spans()}
    above = parent_of(span)
    return [span.name] if above is None else [span.name, *chain_of(scene, by_id[above])]


def spans_called(scene: Scene, name: str) -> list[ReadableSpan]:
    return [span for span in scene.spans() if span.name == name]


def test_to_enqueue_is_a_span_and_the_parent_of_the_attempts(scene: Scene) -> None:
    with scene.tracer.start_as_current_span("request"):
        job = scene.engine.enqueue(plain.of().queue("mail"))
    with scene.engine.working(threads=1):
        job.result(60)
    (sent,) = spans_called(scene, "send plain")
    assert (sent.kind, sent.status.status_code) == (otel.SpanKind.PRODUCER, otel.StatusCode.UNSET)
    assert dict(sent.attributes or {}) == {
        "messaging.system": "ramify",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.ramify.task": "plain",
    }
    (processed,) = spans_called(scene, "process plain")
    assert (processed.attributes or {})["messaging.destination.name"] == "mail"
    assert chain_of(scene, processed) == ["process plain", "send plain", "request"]


def test_jobs_that_are_enqueued_together_share_a_span_unless_they_have_a_trace_of_their_own(scene: Scene) -> None:
    with scene.tracer.start_as_current_span("earlier"):
        call = traced(plain.of())
    with scene.tracer.start_as_current_span("request"):
        jobs, total = scene.engine.enqueue_many([plain.of(), waiting.of(), call], then=told.of())
    with scene.engine.working(threads=1):
        total.result(60)
    assert len(jobs) == 3
    (sent,) = (span for span in scene.spans() if span.kind is otel.SpanKind.PRODUCER)
    assert (sent.attributes or {})["messaging.batch.message_count"] == 4
    found = [chain_of(scene, span)[1:] for span in scene.spans() if span.kind is otel.SpanKind.CONSUMER]
    assert sorted(found) == [["earlier"], *[["send plain", "request"]] * 3]


def test_jobs_continue_the_trace_that_they_were_made_in(scene: Scene) -> None:
    with scene.tracer.start_as_current_span("earlier"):
        call = traced(told.of())
    with scene.tracer.start_as_current_span("request"):
        job = scene.engine.enqueue(call)
        follower = job.then(told.of())
    with scene.engine.working(threads=1):
        follower.result(60)
    first, second = spans_called(scene, "process told")
    assert chain_of(scene, first) == ["process told", "send told", "earlier"]
    assert chain_of(scene, second) == ["process told", "send told", "send told", "earlier"]


def test_to_enqueue_in_vain_is_an_error(scene: Scene) -> None:
    scene.engine.queue("full", max_pending=1)
    scene.engine.enqueue(plain.of().queue("full"))
    with pytest.raises(QueueFull):
        scene.engine.enqueue(plain.of().queue("full"))
    good, bad = spans_called(scene, "send plain")
    assert (good.status.status_code, bad.status.status_code) == (otel.StatusCode.UNSET, otel.StatusCode.ERROR)
    assert (bad.attributes or {})["error.type"] == "QueueFull"


def test_to_enqueue_from_a_coroutine_is_a_span_too(scene: Scene) -> None:
    with scene.tracer.start_as_current_span("request"):
        asyncio.run(scene.engine.aenqueue(plain.of()))
    (sent,) = spans_called(scene, "send plain")
    assert chain_of(scene, sent) == ["send plain", "request"]


def test_all_that_an_attempt_makes_is_below_its_span(scene: Scene) -> None:
    with scene.tracer.start_as_current_span("request"):
        run = scene.engine.start([untraced_children.of(), slow_untraced_children.of()])
    with scene.engine.working(threads=2):
        run.wait(60)
    chains = [chain_of(scene, span) for span in scene.spans() if span.name in ("process plain", "process told")]
    assert sorted(chains) == [
        ["process plain", "process slow_untraced_children", "request"],
        ["process plain", "process untraced_children", "request"],
        ["process plain", "process untraced_children", "request"],
        ["process told", "process untraced_children", "request"],
    ]


def test_the_trace_continues_through_shapes_and_in_runs_that_they_launch(scene: Scene) -> None:
    counts = scene.engine.pipeline("count", steps(numbers).expand(same))
    outer = scene.engine.pipeline("outer", steps(same).run(counts))
    with scene.tracer.start_as_current_span("request"):
        scene.engine.run(outer.of(2))
    found = [chain_of(scene, span) for span in scene.spans() if span.kind is otel.SpanKind.CONSUMER]
    assert sorted(found) == [["process numbers", "request"], *[["process same", "request"]] * 3]


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
