"""Two tasks that add a job to a queue with their ends, while the queue is cancelled; see `ramify.model.addition`.

The queue is named, not its run: if the newest run of the name takes nothing more, or there is none, the commit opens
the next generation. Checked: X a job is in the log exactly if the end of its task is, E an ended run has no live work,
C a job is not swept by a cancel that came before it, G no two runs of a name are open, L all tasks and jobs end.

A lock of the newest run and one of the next generation (a unique index, which makes a second insert wait and then
begin again) stand for those of a server; where there is one writer, a whole commit is one statement.

Limits: one queue, two tasks with a job each, two cancels; jobs outside of commits come in the same way (`append`). That
commits are guarded and sent again is in `core`, and a client frozen inside its transaction in `open_transaction`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.protocol.checker import Case
from tests.protocol.scripts import QUIT, Interleaved, Note, Script, Statement

Answers = list[tuple["Queue", Note]]
NAMES = ("Ann", "Bob")
OPEN, DRAINING, ENDED = "open", "draining", "ended"
READY, HELD, OVER, SWEPT = "ready", "held", "over", "swept"
CANCELS = 2


class Job(NamedTuple):
    run: int  #: the place of its run
    state: str = READY
    late: bool = False  #: ghost: it came when its run was no longer open


class Queue(NamedTuple):
    runs: tuple[str, ...] = (OPEN,)  #: the states of the runs of the name, by generation
    jobs: tuple[Job | None, Job | None] = (None, None)
    ended: tuple[bool, bool] = (False, False)  #: the tasks
    lock: str = ""  #: of the newest run
    opening: str = ""  #: who has inserted the next generation and not committed it
    cancels: int = 0


def judge(db: Queue) -> str:
    if db.runs.count(OPEN) > 1:
        return "G two runs of one name are open"
    jobs = [job for job in db.jobs if job is not None]
    if any(db.runs[job.run] == ENDED and job.state in (READY, HELD) for job in jobs):
        return "E an ended run has live work"
    if any(job.state == SWEPT and job.late for job in jobs):
        return "C a job was swept by a cancel that came before it"
    apart = any(done != (job is not None) for done, job in zip(db.ended, db.jobs, strict=True))
    return "X a job is in the log without the end of its task, or the end without the job" if apart else ""


def at_rest(db: Queue) -> bool:
    return all(db.ended) and all(job is not None and job.state in (OVER, SWEPT) for job in db.jobs)


def newest(db: Queue) -> int | None:
    """The place of the run that takes jobs, if there is one."""
    return len(db.runs) - 1 if db.runs and db.runs[-1] == OPEN else None


def ends(db: Queue, who: int) -> Queue:
    return db._replace(ended=(True, db.ended[1]) if who == 0 else (db.ended[0], True))


def adds(db: Queue, who: int, run: int) -> Queue:
    """The same with the job; `run` begins with it if there is none at that place."""
    if run == len(db.runs):
        db = db._replace(runs=(*db.runs, OPEN))
    job = Job(run, late=db.runs[run] != OPEN)
    return db._replace(jobs=(job, db.jobs[1]) if who == 0 else (db.jobs[0], job))


# commits


def one_writer(who: int) -> Script[Queue]:
    def commit(db: Queue, _note: Note) -> Answers:
        run = newest(db)
        return [(ends(adds(db, who, len(db.runs) if run is None else run), who), None)]

    return Script(NAMES[who], (Statement("ends its task, adds the job, COMMIT", commit),))


def server(how: str, who: int) -> Script[Queue]:
    """Locks the newest run, or inserts the next generation, which others wait for and then begin again."""
    name = NAMES[who]

    def look(db: Queue, _note: Note) -> Answers:
        if db.ended[who]:
            return []
        run = newest(db)
        if how == "into-draining" and db.runs and db.runs[-1] == DRAINING:
            run = len(db.runs) - 1
        if run is None:
            return [(db, len(db.runs))]
        if how == "no-lock":
            return [(db, run)]
        return [] if db.lock else [(db._replace(lock=name), run)]

    def insert(db: Queue, run: Note) -> Answers:
        if how == "not-unique" or (run < len(db.runs) and db.lock == name) or how == "no-lock":
            return [(db, run)]
        if db.opening:
            return []
        return [(db, QUIT)] if run < len(db.runs) else [(db._replace(opening=name), run)]

    def commit(db: Queue, run: Note) -> Answers:
        if how == "not-unique" and db.lock != name:
            run = len(db.runs)
        after = ends(adds(db, who, run), who)
        return [(unlocked(after, name), None)]

    steps = (
        Statement("looks for the newest run of the name, and locks it", look),
        Statement("inserts the next generation if it must", insert),
        Statement("ends its task, adds the job, COMMIT", commit),
    )
    return Script(name, steps, repeats=True)


def unlocked(db: Queue, name: str) -> Queue:
    return db._replace(lock="" if db.lock == name else db.lock, opening="" if db.opening == name else db.opening)


def known_before(how: str, who: int) -> Script[Queue]:
    """Takes the run that it knew before its transaction; it is told no, or not, if that has ended meanwhile."""

    def look(db: Queue, _note: Note) -> Answers:
        run = newest(db)
        return [(db, len(db.runs) if run is None else run)]

    def commit(db: Queue, run: Note) -> Answers:
        if db.ended[who]:
            return []
        taken = run < len(db.runs) and db.runs[run] != OPEN
        if how == "known-at-the-beginning" and taken:
            return [(db, run)]
        return [(ends(adds(db, who, min(run, len(db.runs))), who), None)]

    when = (
        "begins its task, with the run of the queue" if how == "known-at-the-beginning" else "looks for the newest run"
    )
    return Script(NAMES[who], (Statement(when, look), Statement("ends its task, adds the job, COMMIT", commit)))


def apart(how: str, who: int) -> Script[Queue]:
    """Two transactions: the end and the job, or the other way round."""

    def end(db: Queue, _note: Note) -> Answers:
        return [(ends(db, who), None)]

    def add(db: Queue, _note: Note) -> Answers:
        run = newest(db)
        return [(adds(db, who, len(db.runs) if run is None else run), None)]

    steps = (Statement("ends its task, COMMIT", end), Statement("adds the job, COMMIT", add))
    return Script(NAMES[who], steps if how == "afterwards" else steps[::-1])


# everybody else


def swept(db: Queue, run: int) -> Queue:
    """The same without what nobody holds of a run; it ends if that was all."""
    first, second = (
        job._replace(state=SWEPT) if job is not None and job.run == run and job.state == READY else job
        for job in db.jobs
    )
    held = any(job is not None and job.run == run and job.state == HELD for job in db.jobs)
    state = DRAINING if held else ENDED
    return db._replace(jobs=(first, second), runs=(*db.runs[:run], state, *db.runs[run + 1 :]))


def canceller() -> Script[Queue]:
    def cancel(db: Queue, _note: Note) -> Answers:
        run = newest(db)
        if run is None or db.lock or db.cancels == CANCELS:
            return []
        return [(swept(db._replace(cancels=db.cancels + 1), run), None)]

    return Script("Carol", (Statement("cancels the queue, COMMIT", cancel, fault=True),), repeats=True)


def advancer() -> Script[Queue]:
    def advance(db: Queue, _note: Note) -> Answers:
        return [(swept(db, run), None) for run, state in enumerate(db.runs) if state == DRAINING and not db.lock]

    return Script("advance", (Statement("sweeps a draining run, and may end it, COMMIT", advance),), repeats=True)


def worker() -> Script[Queue]:
    def step(before: str, after: str, db: Queue) -> Answers:
        found: Answers = []
        for at, job in enumerate(db.jobs):
            if job is None or job.state != before or (before == READY and db.runs[job.run] != OPEN):
                continue
            new = job._replace(state=after)
            found.append((db._replace(jobs=(new, db.jobs[1]) if at == 0 else (db.jobs[0], new)), None))
        return found

    steps = (
        Statement("claims a job, COMMIT", lambda db, _note: step(READY, HELD, db)),
        Statement("ends a job, COMMIT", lambda db, _note: step(HELD, OVER, db)),
    )
    return Script("worker", steps, repeats=True)


def model(how: str, runs: tuple[str, ...]) -> Interleaved[Queue]:
    match how:
        case "one-writer":
            commits = [one_writer(who) for who in (0, 1)]
        case "known-at-the-beginning" | "looked-up-before":
            commits = [known_before(how, who) for who in (0, 1)]
        case "afterwards" | "before":
            commits = [apart(how, who) for who in (0, 1)]
        case _:
            commits = [server(how, who) for who in (0, 1)]
    return Interleaved(Queue(runs), (*commits, canceller(), advancer(), worker()), judge, at_rest)


CASES = (
    *(
        Case(f"addition/{how}", partial(model, how, (OPEN,)), why, breaks)
        for how, breaks, why in (
            ("one-writer", "", "The commit looks for the newest run by name, or opens the next, and adds the job."),
            ("locked", "", "On a server it locks the newest run, or inserts the next generation, which is unique."),
            ("looked-up-before", "E", "Look the run up before the transaction: by then it has ended."),
            (
                "known-at-the-beginning",
                "L",
                "Keep to the run of the beginning: it has ended, and so the task cannot end.",
            ),
            ("no-lock", "E", "Look for the run without its lock: it ends between the look and the COMMIT."),
            ("into-draining", "C", "Add to a run that drains, as it has not ended: the job is swept, unseen."),
            ("afterwards", "X", "Add the job after the commit: a kill between loses it."),
            ("before", "X", "Add the job before the commit: a kill between adds it twice, as the task is run again."),
        )
    ),
    *(
        Case(f"addition/{name}", partial(model, how, ()), why, breaks)
        for name, how, breaks, why in (
            (
                "none-yet",
                "locked",
                "",
                "Two commits that find no run both insert the first generation; the second joins it.",
            ),
            ("not-unique", "not-unique", "G", "Look, then insert: two commits that find no run open one each."),
        )
    ),
)
