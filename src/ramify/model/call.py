"""Calls: a task that does not exist yet, as a value.

A call is a kind with encoded arguments and whatever was chosen for this one task. `Group` holds what neighbouring tasks
share (it decides which of them can lie in one segment), so the calls of one task function share one group object and
making a call costs one encoding and one small struct. Each method gives back a new call; nothing is ever changed.

A call does not know stores, runs or ids, and making one does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from ramify.errors import BadPayload
from ramify.model.codec import Signature
from ramify.model.death import Deaths
from ramify.model.decoder import decoder
from ramify.model.digest import digest_of
from ramify.model.event import History
from ramify.model.join import Rule
from ramify.model.key import Hold, key_bytes, key_text
from ramify.model.policy import LEVELS, SECOND, Duration, seconds_in
from ramify.model.reference import Blank, Reference
from ramify.model.task import MAX_KEY, check_name

R_co = TypeVar("R_co", covariant=True)

_HOLDS = {Hold.LABEL: "key", Hold.ONCE: "once", Hold.UNIQUE: "unique"}
#: The longest wait a call may ask for: a hundred years.
LONGEST_DELAY = 100 * 365 * 86_400.0
#: Why a task was cancelled that was not begun in time.
EXPIRED = "it expired before it was begun"


class Extra(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options that few calls have: their own budget, headers, and when a continuation runs.

    One that has not started by `until`, a time of the store, is cancelled. A `spare` one that fails for good counts as
    skipped. One that polls is called again `every` so many seconds until it returns something, `within` so many at
    most.
    """

    retries: int | None = None
    timeout: float | None = None
    headers: dict[str, str] | None = None
    rule: Rule = Rule.ALL_DONE
    spare: bool = False
    until: int | None = None
    every: float | None = None
    within: float | None = None

    @property
    def polls(self) -> bool:
        """True if it may be called again although it did not fail."""
        return self.every is not None or self.within is not None

    def has_expired(self, now: int, history: History, deaths: Deaths) -> bool:
        """Return whether a task did not start in time. One with events, or in which a process died, has started."""
        return self.until is not None and self.until <= now and not deaths.ran and not history.events

    def encode(self) -> bytes | None:
        """The bytes a task row carries; None when there is nothing to carry."""
        return None if self == NO_EXTRA else msgspec.json.encode(self)

    @classmethod
    def decode(cls, raw: bytes | None) -> Extra:
        """The inverse of `encode`."""
        return NO_EXTRA if raw is None else _extra.decode(raw)


NO_EXTRA = Extra()
_extra = decoder(Extra)


@dataclass(frozen=True, slots=True)
class Group:
    """The properties that tasks of one segment share, and how their arguments are read.

    `delay` and `expires` count from the commit, in seconds; `keep` is in microseconds, None when nobody chose.
    """

    kind: str
    signature: Signature = field(compare=False, repr=False)
    queue: str = "default"
    priority: int = 0
    delay: float | None = None
    due: int | None = None
    hold: Hold = Hold.LABEL
    keep: int | None = None
    expires: float | None = None
    #: Whether calls of this very object have no label, extras or lane of their own, so that whole lists of them can
    #: be taken over; and the same group for calls that have, if it is made already.
    plain: bool = field(default=False, compare=False)
    varied: Group | None = field(default=None, compare=False, repr=False)
    #: The handler that calls of this group reach in this process, where one is known: a test can try one by itself.
    handler: object = field(default=None, compare=False, repr=False)


class Call(msgspec.Struct, Generic[R_co], frozen=True, gc=False):
    """A task to be made: `measure.of("/usr")`. Yield, spawn, enqueue or run it. Its methods return changed copies."""

    group: Group
    body: bytes
    label: bytes | None = None
    extra: bytes | None = None
    in_lane: str | None = None

    @property
    def kind(self) -> str:
        """The name of the task function."""
        return self.group.kind

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, decoded from their stored form."""
        return self.group.signature.decode(self.body)

    def __repr__(self) -> str:
        args, kwargs = self.arguments()
        inside = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{self.group.kind}({', '.join(inside)})" + "".join(f".{choice}" for choice in self._choices())

    def _choices(self) -> Iterator[str]:
        """Yield what was chosen for this one, as it is written."""
        group, extra = self.group, Extra.decode(self.extra)
        if self.label is not None:
            keep = f", keep={group.keep / SECOND:g}" if group.keep else ""
            yield f"{_HOLDS[group.hold]}({key_text(self.label)!r}{keep})"
        if group.delay is not None:
            yield f"delay({group.delay:g})"
        if group.due is not None:
            yield f"at({datetime.fromtimestamp(group.due / SECOND, UTC).isoformat()})"
        if group.priority:
            yield f"priority({group.priority})"
        if group.expires is not None:
            yield f"expires({group.expires:g})"
        if group.queue != "default":
            yield f"queue({group.queue!r})"
        if self.in_lane is not None:
            yield f"lane({self.in_lane!r})"
        if extra.retries is not None:
            yield f"retries({extra.retries})"
        if extra.timeout is not None:
            yield f"timeout({extra.timeout:g})"
        if extra.headers:
            yield f"headers({', '.join(f'{name}={value!r}' for name, value in extra.headers.items())})"
        if extra.every is not None:
            yield f"poll({extra.every:g}{'' if extra.within is None else f', timeout={extra.within:g}'})"
        if extra.rule is Rule.ALWAYS:
            yield "always()"

    def key(self, key: str) -> Call[R_co]:
        """Label it with a key, to find, group and join on. Several tasks may have the same key."""
        return self._named(key, Hold.LABEL)

    def once(self, key: str | None = None) -> Call[R_co]:
        """Run at most once in its run: a second call with this key adds nothing. The key defaults to the arguments."""
        return self._named(arguments_key(self) if key is None else key, Hold.ONCE)

    def unique(self, key: str | None = None, keep: Duration | None = None) -> Call[R_co]:
        """Hold this key alone, in every run: until it has ended, and for `keep` after a success.

        The key defaults to the arguments. `keep` defaults to the time the result of a job is kept; for a task of a run,
        to nothing.
        """
        kept = None if keep is None else round(_seconds("unique(keep={})", keep) * SECOND)
        return self._named(arguments_key(self) if key is None else key, Hold.UNIQUE, kept)

    def delay(self, length: Duration) -> Call[R_co]:
        """Start no earlier than this many seconds, or this timedelta, after it is committed."""
        return self._grouped(delay=_seconds("delay({})", length), due=None)

    def at(self, when: datetime) -> Call[R_co]:
        """Start no earlier than this datetime, which must have a time zone."""
        if not isinstance(when, datetime) or when.utcoffset() is None:
            raise BadPayload(
                f"at({when!r}): expected a datetime with a time zone. Write at(datetime(..., tzinfo=UTC))."
            )
        return self._grouped(due=round(when.timestamp() * SECOND), delay=None)

    def expires(self, length: Duration) -> Call[R_co]:
        """Cancel it if it has not started this long after it was added."""
        if (seconds := _seconds("expires({})", length)) == 0:
            raise BadPayload("expires(0): expected more than 0 seconds.")
        return self._grouped(expires=seconds)

    def priority(self, level: int) -> Call[R_co]:
        """Set its priority. Lower comes first; 0 is the default."""
        if isinstance(level, bool) or not isinstance(level, int) or level not in LEVELS:
            raise BadPayload(
                f"priority({level!r}): expected a whole number from {LEVELS[0]} to {LEVELS[-1]}; lower comes first."
            )
        return self._grouped(priority=level)

    def queue(self, name: str) -> Call[R_co]:
        """Set the queue by which workers choose tasks."""
        return self._grouped(queue=check_name("queue", name))

    def lane(self, name: str) -> Call[R_co]:
        """Set its lane, such as a host or a tenant, for limits and fairness."""
        return msgspec.structs.replace(self, group=self._varied, in_lane=check_name("lane", name))

    def retries(self, count: int) -> Call[R_co]:
        """Set its number of retries: `retries(2)` is up to three attempts."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise BadPayload(f"retries({count!r}): expected a whole number, 0 or more.")
        return self._with(retries=count)

    def timeout(self, length: Duration) -> Call[R_co]:
        """Set the time limit of one attempt."""
        if (seconds := _seconds("timeout({})", length)) == 0:
            raise BadPayload("timeout(0): expected more than 0 seconds.")
        return self._with(timeout=seconds)

    def poll(self, every: Duration, *, timeout: Duration | None = None) -> Call[R_co]:
        """Call it every so many seconds until it returns something other than False or None. That uses no attempts.

        It fails with a TimeoutError if it has returned nothing `timeout` after its first call.
        """
        if (pause := _seconds("poll({})", every)) == 0:
            raise BadPayload("poll(0): expected more than 0 seconds between two calls.")
        within = None if timeout is None else _seconds("poll(timeout={})", timeout)
        if within == 0:
            raise BadPayload("poll(timeout=0): expected more than 0 seconds.")
        return self._with(every=pause, within=within)

    def headers(self, **headers: str) -> Call[R_co]:
        """Attach small texts, inherited by all tasks it makes; read them as `current().headers`."""
        for name, value in headers.items():
            if not isinstance(value, str):
                raise BadPayload(f"headers({name}={value!r}): expected text, got {type(value).__name__}.")
        known: Mapping[str, str] = Extra.decode(self.extra).headers or {}
        return self._with(headers={**known, **headers})

    def always(self) -> Call[R_co]:
        """Run it as a continuation (`spawn(then=...)`) even if some members did not end as done."""
        return self._with(rule=Rule.ALWAYS)

    def _named(self, key: str, hold: Hold, keep: int | None = None) -> Call[R_co]:
        label = label_of(self.kind, key)
        return msgspec.structs.replace(self._grouped(hold=hold, keep=keep, plain=False), label=label)

    def _grouped(self, **changes: Any) -> Call[R_co]:
        return msgspec.structs.replace(self, group=replace(self.group, varied=None, **changes))

    @property
    def _varied(self) -> Group:
        group = self.group
        return group if not group.plain else group.varied or replace(group, plain=False)

    def _with(self, **changes: Any) -> Call[R_co]:
        extra = msgspec.structs.replace(Extra.decode(self.extra), **changes)
        try:
            return msgspec.structs.replace(self, group=self._varied, extra=extra.encode())
        except ValueError:
            raise BadPayload(f"{changes!a} holds text that cannot be stored (a lone surrogate)") from None


class ReferringCall(Call[R_co], frozen=True, gc=True):  # what its references name may lead back to it
    """A call that takes results of others: only a shape that knows what `references` mean can start it.

    The first of them goes into slot 0 of the join that its task waits on, and each of the others behind the one before.
    Blanks among them have no slot; they are known by their places.
    """

    references: tuple[Reference, ...] = ()

    def slots(self) -> Iterator[tuple[Reference, int]]:
        """Each reference with its first slot."""
        first = 0
        for reference in self.references:
            if not isinstance(reference, Blank):
                yield reference, first
                first += reference.size

    def blanks(self) -> Iterator[tuple[Blank, int]]:
        """Each blank with its place."""
        return ((each, at) for at, each in enumerate(self.references) if isinstance(each, Blank))


def inheriting(calls: Sequence[Call[Any]], headers: Mapping[str, str]) -> Sequence[Call[Any]]:
    """The same calls with these headers, but for those that a call has itself under the same name."""
    if not headers or not calls:
        return calls
    alone = with_headers(None, headers)
    return [
        msgspec.structs.replace(
            call, group=call._varied, extra=alone if call.extra is None else with_headers(call.extra, headers)
        )
        for call in calls
    ]


def with_headers(extra: bytes | None, headers: Mapping[str, str]) -> bytes | None:
    """Return what a task row carries, with these headers, but for those that it has itself under the same name."""
    known = Extra.decode(extra)
    return msgspec.structs.replace(known, headers={**headers, **(known.headers or {})}).encode()


def shared_headers(extras: Iterable[bytes | None]) -> dict[str, str]:
    """The headers that all of some tasks have, by what their rows carry."""
    shared: dict[str, str] | None = None
    for extra in extras:
        mine = Extra.decode(extra).headers or {}
        shared = mine if shared is None else dict(shared.items() & mine.items())
        if not shared:
            break
    return shared or {}


#: The source of the reference that stands for an argument that was left out.
LEFT_OUT = "the job before it"


class OpenCall(ReferringCall[R_co], frozen=True, gc=True):
    """A call without one argument, which is the result of a job before it. Only what follows a job can be one.

    `lacks` is the parameter, `why` what everybody else refuses it with. `fill` makes the arguments for a reference.
    """

    lacks: str = ""
    why: str = ""
    fill: Callable[[Reference], bytes] = lambda reference: b""

    def closed(self, results: int, of: Any = Any) -> Call[R_co]:
        """The call, to be added behind so many jobs; BadPayload for several and a parameter that takes one."""
        is_stream = self.references[0].stream
        if results != 1 and not is_stream:
            raise BadPayload(
                f"{self.kind}(): expected one job before it, because `{self.lacks}` takes one result, got {results}. "
                f"Annotate `{self.lacks}` as a Stream"
            )
        body = self.fill(Reference(LEFT_OUT, stream=is_stream, size=results, of=of))
        return Call(self.group, body, self.label, self.extra, self.in_lane)


def whole(call: Call[R_co]) -> Call[R_co]:
    """Return a call that has all its arguments; BadPayload for one that lacks one."""
    if isinstance(call, OpenCall):
        raise BadPayload(call.why)
    return call


def arguments_key(call: Call[Any]) -> str:
    """A text that is the same for equal arguments, and differs for others."""
    if isinstance(call, ReferringCall):
        raise BadPayload(
            f"{call!r}: its arguments are its key, and {call.references[0]!r} is not known yet. Give a key: once(key)."
        )
    return digest_of(call.group.signature.identity(call.body)).hex()


def label_of(kind: str, key: object) -> bytes:
    """A key as a call carries it; BadPayload for one that cannot be kept."""
    if not isinstance(key, str) or not key:
        raise BadPayload(f"{kind}(): expected text as its key, got {key!r}. Give text that is not empty.")
    label = key_bytes(key)
    if len(label) > MAX_KEY:
        raise BadPayload(f"{kind}(): expected a key of at most {MAX_KEY} bytes, got {len(label)}. Use a hash of it.")
    return label


def _seconds(written: str, length: object) -> float:
    seconds = seconds_in(length)
    if seconds is None or not math.isfinite(seconds):
        raise BadPayload(f"{written.format(repr(length))}: expected seconds or a timedelta.")
    if not 0 <= seconds <= LONGEST_DELAY:
        raise BadPayload(f"{written.format(repr(length))}: expected 0 seconds or more, at most a hundred years.")
    return seconds
