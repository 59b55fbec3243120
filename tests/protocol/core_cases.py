"""Which configurations of the core protocol are explored, and which shortcuts must fail.

A setting names a tree and the faults to come: `pair crash lost=2`. The cases marked `full` are too large for every day.
The sentence of a shortcut says what it is and why it is wrong. No rules here, only choices.
"""

from __future__ import annotations

from functools import partial

from tests.protocol import shortcuts as cut
from tests.protocol.checker import Case
from tests.protocol.core import Core


def build(model: type[Core], setting: str) -> Core:
    tree, *words = setting.split()
    numbers = {name: int(number or 1) for name, _, number in (word.partition("=") for word in words)}
    return model(tree, numbers.pop("processes", 2), bool(numbers.pop("rounds", 1)), **numbers)


def right(name: str, setting: str, why: str, *, model: type[Core] = Core, full: bool = False) -> Case:
    return Case(f"core/{name}", partial(build, model, setting), why, full=full)


def wrong(name: str, setting: str, model: type[Core], breaks: str, why: str) -> Case:
    return Case(f"core/{name}", partial(build, model, setting), why, breaks)


RIGHT = (
    right("plain", "twins crash freeze lost", "Crash, freeze and a lost reply, in a tree of two rounds."),
    right("two-crashes", "pair crash=2 freeze lost", "A successor that dies too."),
    right("two-lost", "pair crash freeze lost=2", "Two lost replies, of one process or of two."),
    right(
        "false-reap", "twins freeze lost false_reap", "A live process is taken for dead, with a request on the wire."
    ),
    right(
        "three-processes", "pair processes=3 crash freeze lost", "A third process beside a zombie and its successor."
    ),
    right("any-order", "twins rounds=0 crash freeze lost", "A run without rounds."),
    right("deep", "deep crash freeze lost", "Three rounds."),
    right("release", "pair crash lost release=2", "Work is put back, and the reply to that is lost."),
    right("defer", "pair crash lost defer", "A deferred task keeps its round open."),
    right("cancel", "twins crash freeze cancel_run", "The run is cancelled while processes die."),
    right("cancel-lost", "pair freeze lost false_reap cancel_run", "The run is cancelled around a late commit."),
    right(
        "cancel-voids-claims",
        "pair crash freeze lost cancel_run",
        "The wasteful alternative: cancel voids all claims.",
        model=cut.CancelVoidsClaims,
    ),
    right("subtree-cancel", "fork crash freeze cancel_tree", "A subtree is cancelled while it grows."),
    right("subtree-lost", "fork lost false_reap cancel_tree", "A subtree is cancelled around a late claim or commit."),
    right("task-cancel", "fork crash lost cancel_task", "One task is cancelled, queued or running."),
    right("reopen", "pair crash lost fail reopen", "Failed tasks get a new life around a crash and a late commit."),
    right("reopen-twice", "pair crash fail=2 reopen=2", "A task fails again in its second life."),
    right("reopen-cancel", "pair crash fail reopen cancel_run", "Reopened and cancelled."),
    right("taken-back", "pair crash lost take_back", "A claimed row is re-offered although its owner was not reaped."),
    right(
        "token-alone",
        "pair crash freeze false_reap",
        "The token fences zombies without the help of the session row.",
        model=cut.TokenAlone,
    ),
    right(
        "token-alone-lost",
        "twins crash freeze lost false_reap",
        "The token alone, with requests that arrive late.",
        model=cut.TokenAlone,
        full=True,
    ),
    right(
        "all-faults",
        "twins crash freeze lost false_reap cancel_run",
        "Every fault of processes and network, and a cancel.",
        full=True,
    ),
    right(
        "all-faults-taken-back",
        "pair crash freeze lost false_reap cancel_run take_back",
        "The same in a smaller tree, and a row is taken back.",
        full=True,
    ),
    right(
        "everything",
        "flat crash freeze lost false_reap take_back release fail reopen",
        "All faults, releases and new lives at once, on the smallest tree.",
        full=True,
    ),
    right("two-of-each", "pair crash=2 freeze=2 lost=2", "Two crashes, two freezes, two lost replies.", full=True),
    right("three-in-a-tree", "twins processes=3 crash freeze lost", "Three processes, four tasks.", full=True),
    right("reopen-all", "pair crash freeze lost fail reopen cancel_run", "New lives under every fault.", full=True),
    right("subtree-deep", "deep crash freeze lost cancel_tree", "A subtree of three rounds is cancelled.", full=True),
    right(
        "both-cancels", "fork crash freeze cancel_tree cancel_task", "A subtree and a task are cancelled.", full=True
    ),
    right("subtree-zombie", "fork freeze lost false_reap cancel_tree", "A subtree is cancelled; zombies.", full=True),
)

SHORTCUTS = (
    wrong(
        "no-token-guard",
        "pair freeze",
        cut.NoTokenGuard,
        "S1",
        "Commit without comparing tokens: a thawed zombie ends tasks that its successor has ended.",
    ),
    wrong(
        "token-lookup-late-delivery",
        "pair lost",
        cut.LooksUpTokenTooEarly,
        "S7",
        "Look for the token after a lost reply: the lost commit may still be carried out after the look.",
    ),
    wrong(
        "token-lookup-partial-commit",
        "flat lost",
        cut.LooksUpToken,
        "S7",
        "Token still there, so it was not applied: but a partial commit leaves the token in place.",
    ),
    wrong(
        "token-absent-means-applied",
        "fork lost false_reap",
        cut.LooksUpToken,
        "S7",
        "Token gone, so it was applied: but a reap removes the token too.",
    ),
    wrong(
        "token-absent-means-refused",
        "fork lost",
        cut.AbsentMeansRefused,
        "S7",
        "Token gone, so it was refused: but the final commit deletes its own row.",
    ),
    wrong(
        "number-read-not-consumed",
        "pair lost",
        cut.ReadsNumber,
        "S7",
        "Read the session's number instead of sending the verb again: the late copy is still accepted.",
    ),
    wrong(
        "blind-resend",
        "pair lost",
        cut.BlindResend,
        "S1",
        "Send the commit again as a new verb: if the first one was applied, its tasks end twice.",
    ),
    wrong(
        "already-means-applied",
        "flat lost take_back",
        cut.AlreadyMeansApplied,
        "S7",
        "Take `already` for applied: the number may have been used up by a refusal.",
    ),
    wrong(
        "claim-reply-forgotten",
        "pair lost",
        cut.ForgetsClaim,
        "L",
        "Forget a claim whose reply was lost: its owner lives, beats and does not know, so nobody takes it back.",
    ),
    wrong(
        "claim-by-reaped-process",
        "pair lost crash",
        cut.ClaimsForTheReaped,
        "L",
        "Grant a claim without asking whether its process was reaped: nobody reaps it a second time.",
    ),
    wrong(
        "reap-whole-range",
        "pair crash",
        cut.ReapsWholeRange,
        "S3",
        "Re-offer the whole range of a claim: what a partial commit finished is run again.",
    ),
    wrong(
        "reap-process-row-first",
        "pair crash",
        cut.ReapsRowFirst,
        "L",
        "Mark the process first, void its claims later: a reaper that dies between leaves claims for ever.",
    ),
    wrong(
        "reap-from-snapshot",
        "pair freeze",
        cut.ReapsFromSnapshot,
        "S3",
        "Re-offer what was read earlier: the process may have committed since.",
    ),
    wrong(
        "seal-when-claim-is-empty",
        "pair",
        cut.SealsWhenClaimIsEmpty,
        "S5",
        "Seal a round because a claim found nothing: others still hold its tasks.",
    ),
    wrong(
        "cancel-deletes-queued",
        "pair rounds=0 cancel_run",
        cut.CancelDeletesQueued,
        "S6",
        "Cancel by deleting what is queued: a running parent publishes children afterwards, and they run.",
    ),
    wrong(
        "cancel-once-no-sweep",
        "pair cancel_run",
        cut.CancelSweepsOnce,
        "L",
        "Sweep once, when cancel is called: children published later are never ended, and neither is the run.",
    ),
    wrong(
        "cancel-no-sweep-after-reap",
        "flat cancel_run crash",
        cut.CancelSweepsOnce,
        "L",
        "Sweep once, when cancel is called: rows that a reap brings back are never ended, and neither is the run.",
    ),
    wrong(
        "subtree-cancel-by-snapshot",
        "fork cancel_tree",
        cut.SubtreeBySnapshot,
        "S6",
        "Cancel the descendants that are queued now: those not yet spawned escape.",
    ),
    wrong(
        "children-after-commit",
        "pair crash",
        cut.ChildrenAfter,
        "S2",
        "Publish children after the commit of their parent: a kill between loses them.",
    ),
    wrong(
        "children-before-commit",
        "pair crash freeze",
        cut.ChildrenBefore,
        "S2",
        "Publish children before the commit of their parent: a kill between leaves them to be published again.",
    ),
    wrong(
        "split-in-two-transactions",
        "pair crash",
        cut.SplitsInTwo,
        "S3",
        "Shrink a row, then insert the part: a kill between loses the part.",
    ),
    wrong(
        "retry-into-own-round",
        "pair fail reopen",
        cut.RetriesIntoOwnRound,
        "S4",
        "Reopen failed tasks into their old round: a sealed round grows.",
    ),
    wrong(
        "anti-join-any-life",
        "pair fail reopen",
        cut.SkipsWhatEverEnded,
        "S3",
        "Skip what has a terminal event: after a reopen the old event hides the new life, and it never runs.",
    ),
)

CASES = RIGHT + SHORTCUTS
