"""Which configurations of the limits are explored, and which shortcuts must fail; see `limit` for settings.

The sentence of a shortcut says what it is and why it is wrong. No rules here, only choices.
"""

from __future__ import annotations

from functools import partial

from tests.protocol import limit_shortcuts as cut
from tests.protocol.checker import Case
from tests.protocol.limit import Limit


def right(name: str, setting: str, why: str, *, model: type[Limit] = Limit, full: bool = False) -> Case:
    return Case(f"limit/{name}", partial(model, setting), why, full=full)


def wrong(name: str, setting: str, model: type[Limit], breaks: str, why: str) -> Case:
    return Case(f"limit/{name}", partial(model, setting), why, breaks)


#: A run of which one task runs for hours and the next is ready as a head; and a run that nobody works for any more.
LONG, DESERTED = "a@h a@h a@h#1 a@h#1 a@h#1 total=2 holds=2 long=0", "a@h a@h#1 a@h#1 total=1 leaves=0"
#: Five tasks in four lanes: a row that is readied for the total may find its lane full.
CROWD = "a@f a@g a@h a@h a@i lane=1 total=2 holds=2"

RIGHT = (
    right("frozen", "a@h a@h a@h total=1 crash freeze", "One place: killed, frozen, thawed."),
    right("lost", "a@h a@h a@h total=1 crash lost", "Answers are lost, and what was sent is carried out late."),
    right("false-reap", "a@h a@h a@h total=1 lost false_reap", "A live process is taken for dead; its commit is late."),
    right("two-at-once", "a@h a@h a@h a@h total=2 holds=2 pairs crash", "Two places, taken and freed together."),
    right("give-back", "a@h a@h a@h total=1 release defer crash", "What is put back frees its place as well."),
    right("two-places", CROWD, "Lanes and a total: a row waits in one line, and moves from one to the other."),
    right("narrow-total", "a@h a@h a@g lane=1 total=1 crash", "A total that is as narrow as a lane."),
    right("kinds", "a@h a@h b@h x@h total=1 leaves=x crash", "Each kind has a head, as nobody may serve another."),
    right(
        "rate", "a@h a@h a@g lane=1 total=2 rate=total holds=2 pairs crash", "A rate that is used up opens by itself."
    ),
    right("lane-rate", "a@h a@h a@g lane=1 total=2 rate=lane lost", "Lanes that time opens, under a total."),
    right("closed", "a@h a@h a@g lane=1 total=1 close", "A task closes its lane or the total, again and again."),
    right("pause", "a@h a@h#1 a@h#1 total=1 pause crash", "Runs are paused and resumed at any time."),
    right("pause-shut", "a@h a@h#1 a@g#1 lane=1 total=1 rate=lane pause", "The heads that are paused wait for time."),
    right("cancel", "a@h a@h#1 a@h#1 total=1 cancel cancel_task crash", "Heads are swept and cancelled by themselves."),
    right(
        "change", "a@h a@h a@g a@g lane=1 total=1 change=total holds=2", "A limit is lowered, raised, removed, made."
    ),
    right("change-lane", "a@h a@h a@g lane=1 total=2 rate=lane change=lane", "So is one of lanes, with a rate."),
    right("long", LONG, "A claim that passes a head over meets the row behind it.", model=cut.PassesOver),
    right("deserted", DESERTED, "So does one that works for some runs only.", model=cut.PassesOver),
    right("plain", "a@h a@h a@h total=1 crash freeze lost", "Killed, frozen and delivered late.", full=True),
    right("two-at-once-lost", "a@h a@h a@h a@h total=2 holds=2 pairs lost", "With lost answers.", full=True),
    right("give-back-lost", "a@h a@h a@h total=1 release defer lost", "With lost answers.", full=True),
    right("two-places-killed", f"{CROWD} crash", "Killed, with lanes and a total.", full=True),
    right("narrow-frozen", "a@h a@h a@g lane=1 total=1 crash freeze lost", "With all three faults.", full=True),
    right("rate-lost", "a@h a@h a@g lane=1 total=2 rate=total crash lost", "A rate, with lost answers.", full=True),
    right("pause-lost", "a@h a@h#1 a@h#1 total=1 pause crash lost", "A pause, with lost answers.", full=True),
    right(
        "change-lost", "a@h a@h a@g lane=1 total=1 change=total pause lost", "Changes and pauses together.", full=True
    ),
    right(
        "passing",
        "a@h a@h#1 a@g#1 lane=1 total=1 leaves=0 pause crash",
        "Passing over loses nothing.",
        model=cut.PassesOver,
        full=True,
    ),
)
SHORTCUTS = (
    wrong(
        "stored-counter", "a@h a@h total=1 crash", cut.StoredCounter, "S3",
        "Count places in a row of their own: a reap that forgets to count down loses a place for ever.",
    ),
    wrong(
        "first-place-only", "a@h a@g lane=1 total=1", cut.FirstPlaceOnly, "S1",
        "Look at the lane, as it is the narrower one: the total is given twice.",
    ),
    wrong(
        "counts-once", "a@h a@h total=1 holds=2 pairs", cut.CountsOncePerClaim, "S1",
        "Count once for a claim: its second row takes the place that its first one took.",
    ),
    wrong(
        "release-readies-nobody", "a@h a@h total=1 release", cut.ReleaseReadiesNobody, "S3",
        "Ready the next by commits only: what is put back frees a place as well.",
    ),
    wrong(
        "defer-readies-nobody", "a@h a@h total=1 defer", cut.DeferReadiesNobody, "S3",
        "Ready the next at ends only: a task that is deferred frees its place for hours.",
    ),
    wrong(
        "reap-readies-nobody", "a@h a@h total=1 crash", cut.ReapReadiesNobody, "S3",
        "Leave it to whoever runs the reaped task again: by then another has taken the place, or nobody comes.",
    ),
    wrong(
        "second-transaction", "a@h a@h total=1 crash", cut.SecondTransaction, "S3",
        "Free the place, then ready the next: killed between, it leaves a line that nobody looks at.",
    ),
    wrong(
        "one-head-for-all-kinds", "x@h a@h a@h total=1 leaves=x", cut.OneHeadPerLine, "L",
        "Ready the first row of a line: if nobody serves its kind any more, it blocks all others.",
    ),
    wrong(
        "taken-without-next", "a@h a@h a@h a@h total=2 holds=2", cut.TakenWithoutNext, "S3",
        "Leave the next to the one who frees the place: of two places that were free, one stays empty.",
    ),
    wrong(
        "moved-without-next", CROWD, cut.MovedWithoutNext, "S3",
        "Move a head to the line of its lane, and let the total's line be: it has room, and waits for nobody.",
    ),
    wrong(
        "paused-without-next", "a@h a@h a@h#1 total=1 pause", cut.PausedWithoutNext, "S3",
        "Pause a head like any row: those behind it wait until the run is resumed.",
    ),
    wrong(
        "cancelled-without-next", "a@h a@h a@h total=1 cancel_task", cut.CancelledWithoutNext, "S3",
        "Cancel a head like any row: it will never be claimed, and those behind it wait for that.",
    ),
    wrong(
        "paused-stay-in-line", "a@h a@h#1 a@h total=1 pause", cut.PausedStayInLine, "S3",
        "Leave the rows of paused runs in their lines: one of them becomes a head that nobody may claim.",
    ),
    wrong(
        "change-forgets-lines", "a@h a@h total=1 change=total", cut.ChangeForgets, "S3",
        "Raise or remove a limit by its number alone: the new places are free, and no commit frees them.",
    ),
    wrong(
        "shut-without-head", "a@h a@h total=2 rate=total", cut.ShutWithoutHead, "S3",
        "Put a row that comes too soon into the line: nobody readies it when time opens the place.",
    ),
    wrong(
        "heads-of-before", "a@h a@h a@h total=2 rate=total holds=2 pairs", cut.HeadsOfBefore, "S3",
        "Ask the store for the head of a line: the claim has just taken it, and has not written that yet.",
    ),
    wrong(
        "line-of-before", "a@g a@h a@h a@i lane=1 total=2 close defer holds=2 pairs", cut.LineOfBefore, "S3",
        "Ask the store who is next in a line: the claim has just put a row behind the head that it moves away.",
    ),
    wrong(
        "shut-has-no-room", "a@h a@h a@h total=1 close", cut.ShutHasNoRoom, "S3",
        "Ready nobody for a place that is shut: when it opens, nobody comes by.",
    ),
    wrong(
        "claimed-keeps-its-line", "a@h a@h total=1", cut.KeepsItsLine, "S4",
        "Leave the line of a row as it is when it is claimed: put back, it looks like a head.",
    ),
    wrong(
        "behind-a-long-task", LONG, Limit, "L",
        "Let one head stand for all runs: while its run has no room, rows of others wait behind it for nothing.",
    ),
    wrong(
        "behind-a-deserted-run", DESERTED, Limit, "L",
        "Let one head stand for all runs: the program that worked for its run has gone, and others wait for ever.",
    ),
)  # fmt: skip
CASES = (*RIGHT, *SHORTCUTS)
