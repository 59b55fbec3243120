"""The faults: crashes, lost replies, late deliveries, verbs of the dead, and calls that make no sense."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ramify.errors import BadPayload, RamifyError, Reaped, StaleStamp, UnknownRun
from ramify.model.claim import Claim, Claimed
from ramify.model.commit import Committed
from ramify.model.death import Death
from ramify.model.event import UNTRIED
from ramify.model.process import NewProcess, Stamp
from ramify.model.segment import SegmentState
from tests.store.machine.bad import Call, bad_calls, lost_calls
from tests.store.machine.choices import Choices
from tests.store.machine.pair import Refused, Sent, Worker, claims_of, plain_claim, same_token
from tests.store.machine.rules import Act, WorkMachine
from tests.store.machine.scene import DEAD_AFTER, EVERYTHING, as_told


class FaultMachine(WorkMachine):
    """Everything that happens, and all that can go wrong."""

    def acts(self) -> Iterable[Act]:
        """What can happen or go wrong now."""
        yield from super().acts()
        somebody, crashed = self.scene.workers, self.scene.crashed
        yield 1, self.leave, somebody
        yield 1, self.crash, somebody
        yield 3, self.die_as_its_parent_tells, any(worker.left for worker in somebody)
        yield 1, self.crash_everything, len(somebody) > 1
        yield 5 if crashed else 1, self.reap_after_a_watch, True
        yield 1, self.reap_at_once, somebody and not crashed
        yield 3, self.send_the_last_again, self._senders(1)
        yield 2, self.deliver_an_older_one, self._senders(2)
        yield 3, self.a_last_verb_of_a_crashed_process_arrives, crashed
        yield 3, self.a_verb_of_a_dead_process_arrives, self.scene.gone
        yield 3, self.a_decision_arrives_once_more, self._named()
        yield 2, self.make_no_sense, somebody and self.scene.growing_runs()

    # who dies

    def leave(self, choose: Choices) -> None:
        worker = choose.one(self.scene.workers)
        assert worker.client.ask("leave", worker.process) is None
        self.scene.bury(worker)

    def crash(self, choose: Choices) -> None:
        self.scene.crash(choose.one(self.scene.workers))

    def die_as_its_parent_tells(self, choose: Choices) -> None:
        """Its parent buries it at once, and knows what it ran and whether it died of that."""
        worker = self._holder(choose)
        held = [task for left in worker.left.values() for task in left]
        ran, late = choose.some(held), choose.some(held)
        death = Death(dict.fromkeys(ran, choose.one((None, 1, 5))), choose.one((True, False)), frozenset(late[:1]))
        self.scene.crash(worker)
        worker.client.ask("bury", worker.process, death)
        self.scene.bury(worker)

    def crash_everything(self, _: Choices) -> None:
        self.scene.crash_all()
        self.before = self.now

    def reap_after_a_watch(self, choose: Choices) -> None:
        """Some are silent for too long, the crashed among them; somebody who was not buries them."""
        silent = choose.some(self.scene.workers)
        awake = [worker for worker in self.scene.workers if worker not in silent]
        reaper = choose.one(awake) if awake else self.scene.enter()
        self.scene.watch(silent)
        self.scene.reap(reaper)
        assert not self.scene.crashed
        assert not set(map(id, silent)) & set(map(id, self.scene.workers))

    def reap_at_once(self, choose: Choices) -> None:
        """Whether the window is clean or not. (Of the crashed the SQLite store knows more than the reference.)"""
        self.scene.reap(choose.one(self.scene.workers))

    # what is delivered when

    def _named(self) -> list[Sent]:
        """Decisions that say which one they follow."""
        return [sent for sent in self.decided if sent.args[1].after is not None]

    def a_decision_arrives_once_more(self, choose: Choices) -> None:
        """Whatever was decided meanwhile, it changes nothing any more."""
        sent = choose.one(self._named())
        self.scene.front.ask(sent.verb, *sent.args)
        self.before = self.now

    def _senders(self, least: int) -> list[Worker]:
        """Those who are not buried and have sent something."""
        return [worker for worker in self.scene.workers + self.scene.crashed if len(worker.sent) >= least]

    def send_the_last_again(self, choose: Choices) -> None:
        """A reply was lost and others went on meanwhile; the verb is sent again."""
        worker = choose.one(self._senders(1))
        first = worker.sent[-1]
        again = worker.client.deliver(first.verb, first.args, first.options)
        # How long it is until more is due counts from now.
        assert _undated(again.reference) == _undated(first.reference)
        worker.client.compare_next_due(again)
        if claims_of(first.reference) or isinstance(first.reference, Committed):
            self._same_claims(worker, first, again)
        else:
            assert again.sqlite == first.sqlite
        self.before = self.now

    def _same_claims(self, worker: Worker, first: Sent, again: Sent) -> None:
        """The SQLite store reads claims anew: it may leave out what the worker has lost, and shows the marks of now.

        With them came an event that says who decided, which is no attempt.
        """
        held = [s for s in self.scene.segments() if s.state is SegmentState.CLAIMED and s.owner == worker.process]
        still = [c for c in claims_of(first.reference) if any(set(c.tasks) & set(row.tasks) for row in held)]
        known = self.scene.pair.tokens.known
        ours = [plain_claim(claim, same_token) | _of_now(claim) for claim in still]
        theirs = [plain_claim(claim, known) | _of_now(claim) for claim in claims_of(again.sqlite)]
        assert ours == theirs, f"{first.verb} again:\n  then {ours}\n  now  {theirs}"
        if isinstance(first.reference, Committed):
            assert again.sqlite.seq == first.reference.seq
            assert tuple(map(known, again.sqlite.refused)) == first.reference.refused

    def deliver_an_older_one(self, choose: Choices) -> None:
        """A verb was held up on its way and arrives after later ones of the same process."""
        worker = choose.one(self._senders(2))
        late = choose.one(worker.sent[:-1])
        assert worker.client.ask(late.verb, *late.args, **late.options) == Refused(StaleStamp)
        self.before = self.now

    def a_last_verb_of_a_crashed_process_arrives(self, choose: Choices) -> None:
        """It was sent before the crash, and nobody has declared the process dead yet: it counts."""
        worker = choose.one(self.scene.crashed)
        if worker.left and choose.chance():
            worker.send("release", list(worker.left))
        else:
            worker.send("claim", self._want(choose))

    def a_verb_of_a_dead_process_arrives(self, choose: Choices) -> None:
        worker = choose.one(self.scene.gone)
        stamp = Stamp(worker.process, worker.n + 1)
        verbs: list[tuple[Any, ...]] = [
            ("claim", stamp, EVERYTHING),
            ("reap", worker.process, DEAD_AFTER),
            ("release", stamp, [b"void"]),
            ("reopen", stamp, self.scene.runs()[0].id, []),
            *(("commit", stamp, [as_told(claim)]) for claim in worker.claims.values()),
            *((sent.verb, *sent.args) for sent in worker.sent[-4:]),
        ]
        if any(known.id == worker.process for known in worker.client.reference.reads.processes()):
            verbs.append(("enter", NewProcess(worker.process)))
        verb, *args = choose.one(verbs)
        assert worker.client.ask(verb, *args) == Refused(Reaped)
        assert worker.client.ask("beat", worker.process).reaped
        assert worker.client.ask("leave", worker.process) is None
        if verb != "commit":
            self.before = self.now

    def make_no_sense(self, choose: Choices) -> None:
        worker, run = choose.one(self.scene.workers), choose.one(self.scene.growing_runs())
        for call in bad_calls(self.scene, worker, run.id):
            self._is_refused(call, BadPayload)
        for call in lost_calls(self.scene, worker):
            self._is_refused(call, UnknownRun)
        self.before = self.now

    def _is_refused(self, call: Call, error: type[RamifyError]) -> None:
        client, verb, args, options = call
        sent = client.deliver(verb, args, options)
        answers = sent.reference, sent.sqlite
        assert answers == (Refused(error),) * 2, f"{verb}{args}{options} should be refused, but: {answers}"


def _of_now(claim: Claim) -> dict[str, Any]:
    """What may have changed since a claim was granted, made the same: marks, and how many events there are."""
    tried = {task: replace(each, events=0) for task, each in claim.history.items()}
    return {"marks": None, "limited": None, "history": {task: each for task, each in tried.items() if each != UNTRIED}}


def _undated(answer: Any) -> Any:
    """An answer without the seconds until more is due."""
    if isinstance(answer, Committed):
        return replace(answer, claimed=_undated(answer.claimed))
    return replace(answer, next_due=None) if isinstance(answer, Claimed) else answer
