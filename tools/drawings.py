"""The drawings of the concept pages: each a function that gives the text of an SVG, the same every time.

What a drawing says about the order of tasks is computed, not drawn by hand: see `schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.svg import Area, Sheet

WIDTH = 760


def one_task() -> str:
    """The way of one task through the program, the store and a worker."""
    sheet = Sheet(WIDTH, 300, "One task's way: appended to the store, claimed, run, and committed with its children")
    sheet.block(20, 105, 150, 56, "1 your program", "engine.run(root)", look="mute")
    store = sheet.box(255, 30, 230, 240, "plain")
    sheet.text(370, 54, "store: one file", "middle", bold=True)
    sheet.text(272, 84, "segments: what is left to do", colour="soft", size=12)
    for number, look in enumerate(("wash", "plain", "plain")):
        sheet.box(272, 94 + 17 * number, 150 - 40 * number, 12, look)
    sheet.text(272, 170, "log: only added to", colour="soft", size=12)
    for number, name in enumerate(("tasks", "events", "commits")):
        sheet.block(272, 180 + 26 * number, 196, 21, name, look="mute", size=12)
    worker = sheet.box(590, 30, 150, 240, "plain")
    sheet.text(665, 54, "worker process", "middle", bold=True)
    for number, (name, look) in enumerate((("2 claim", "wash"), ("3 lease", "plain"), ("4 run", "mute"))):
        sheet.block(606, 70 + 48 * number, 118, 30, name, look=look)
        sheet.arrow([(665, 100 + 48 * number), (665, 118 + 48 * number)])
    sheet.block(606, 214, 118, 40, "5 commit", look="solid", bold=True)
    right, left = store.x + store.width, worker.x
    sheet.arrow([(170, 133), (store.x, 133)])
    sheet.text(212, 124, "append", "middle", size=12)
    sheet.arrow([(right, 85), (left + 16, 85)])
    sheet.text((right + left) / 2, 76, "segment, token", "middle", size=12)
    sheet.arrow([(left + 16, 234), (right, 234)], "accent", width=1.8)
    sheet.text((right + left) / 2, 206, "events,", "middle", size=12)
    sheet.text((right + left) / 2, 224, "children", "middle", size=12)
    return sheet.svg()


def log() -> str:
    """Tasks, events and commits in the log, and the live segments above what is unfinished."""
    sheet = Sheet(WIDTH, 372, "22 tasks in the log, 4 of them ended; two segments hold the other 18")
    left, cell = 96, 29.0

    def column(task: int) -> float:
        return left + (task - 1) * cell

    ended = {1: 1, 2: 2, 3: 2, 5: 2}
    sheet.text(20, 34, "The log: rows are added, never changed", bold=True)
    sheet.text(20, 69, "tasks", colour="soft")
    sheet.text(20, 103, "events", colour="soft")
    sheet.text(20, 137, "commits", colour="soft")
    for task in range(1, 23):
        sheet.block(column(task), 52, cell - 3, 25, str(task), look="solid" if task in ended else "plain", size=12)
    for task in ended:
        sheet.block(column(task), 87, cell - 3, 24, "end", look="mute", size=10)
    sheet.block(column(1), 121, 4 * cell + 20, 25, "1: ended 1, added 2 to 9", look="mute", size=10.5)
    sheet.block(column(6), 121, 9 * cell, 25, "2: ended 2, 3 and 5, added 10 to 22", look="mute", size=10.5)

    sheet.line([(20, 172), (WIDTH - 20, 172)], "rule")
    sheet.text(20, 202, "The segments: live rows for what is unfinished", bold=True)
    sheet.text(20, 241, "left", colour="soft")
    for task in range(2, 10):
        done = task in ended
        sheet.block(column(task), 224, cell - 3, 25, "0" if done else "1", look="plain" if done else "wash", mono=True)
    sheet.block(column(10), 224, 13 * cell - 3, 25, "no mask: all 13", look="wash")
    sheet.text(20, 277, "round", colour="soft")
    sheet.text(20, 301, "state", colour="soft")
    sheet.text(20, 325, "token", colour="soft")
    sheet.text(column(2), 277, "1")
    sheet.text(column(2), 301, "claimed by process A")
    sheet.text(column(2), 325, "7f3a…", mono=True)
    sheet.text(column(10), 277, "2")
    sheet.text(column(10), 301, "gated: round 1 is not over")
    sheet.text(column(10), 325, "none", colour="soft")
    sheet.note(356, "Task 1 has ended and is in no segment: its segment is gone, its rows in the log stay.")
    return sheet.svg()


def claims() -> str:
    """Two processes and the store: a claim, a commit, a freeze, and a refused commit."""
    sheet = Sheet(WIDTH, 520, "A claims and commits, freezes, and is reaped by B; A's late commit is refused")
    a, store, b = 130, 380, 630
    for x, name in ((a, "process A"), (store, "store"), (b, "process B")):
        sheet.block(x - 60, 20, 120, 30, name, look="mute", bold=True)
    sheet.line([(store, 50), (store, 500)], "rule")
    sheet.line([(b, 50), (b, 500)], "rule")
    sheet.line([(a, 50), (a, 262)], "rule")
    sheet.line([(a, 262), (a, 430)], "warn", dashed=True)
    sheet.line([(a, 430), (a, 500)], "rule")

    def say(y: float, start: int, end: int, text: str, colour: str = "soft") -> None:
        away = 8 if end > start else -8
        sheet.arrow([(start + away, y), (end - away, y)], colour, width=1.5)
        sheet.text((start + end) / 2, y - 6, text, "middle", "warn" if colour == "warn" else "ink", size=12)

    say(84, a, store, "claim at most 4,000 tasks")
    say(110, store, a, "tasks 2 to 4001, token 7f3a")
    sheet.block(a - 100, 124, 200, 40, "leases them to threads,", "asks the store nothing", look="wash", size=12)
    say(194, a, store, "commit under 7f3a: 3,000 ends", "accent")
    sheet.block(store + 14, 176, 216, 40, "one transaction: ends, children,", "arrivals, keys, counters, mask", size=12)
    say(240, store, a, "saved; 1,000 left")
    sheet.block(a - 100, 300, 200, 40, "frozen: no beat", "for 60 seconds", look="warn", size=12)
    say(280, b, store, "reap: A was silent for 60 s")
    sheet.block(store - 100, 294, 200, 24, "7f3a is void, 1,000 offered", size=12)
    say(350, b, store, "claim")
    say(378, store, b, "the same 1,000, token c91e")
    sheet.block(b - 100, 392, 200, 24, "runs them", look="wash", size=12)
    say(452, a, store, "commit under 7f3a: 1,000 ends", "warn")
    say(478, store, a, "refused; nothing is written", "warn")
    say(478, b, store, "commit under c91e: 1,000 ends", "accent")
    return sheet.svg()


@dataclass(frozen=True)
class Piece:
    """A task of the tree that `rounds` shows: how long it runs, and who made it."""

    name: str
    seconds: int
    maker: str | None = None

    @property
    def round(self) -> int:
        """Its depth."""
        return len(self.name) - 1


PIECES = (
    Piece("r", 1),
    *(Piece(f"r{child}", seconds, "r") for child, seconds in (("a", 1), ("b", 5), ("c", 1))),
    *(Piece(f"ra{child}", 1, "ra") for child in "123"),
    *(Piece(f"rc{child}", 1, "rc") for child in "12"),
    *(Piece(f"ra1{child}", 1, "ra1") for child in "xy"),
)
#: What a worker takes first, by order. With rounds, only the lowest unfinished one is open.
ORDERS: dict[str, Callable[[Piece], tuple[int, int]]] = {
    "rounds": lambda piece: (piece.round, PIECES.index(piece)),
    "any": lambda piece: (0, PIECES.index(piece)),
    "depth-first": lambda piece: (-piece.round, PIECES.index(piece)),
}


def schedule(order: str, workers: int = 2) -> list[tuple[Piece, int, int]]:
    """Who runs what, and from when, if every worker takes the first ready task of this order: (task, worker, start)."""
    started: dict[str, tuple[int, int]] = {}
    ends: dict[str, int] = {}
    now = 0
    while len(started) < len(PIECES):
        waiting = [piece for piece in PIECES if piece.name not in started]
        ready = [each for each in waiting if each.maker is None or ends.get(each.maker, now + 1) <= now]
        if order == "rounds":
            live = [each.round for each in PIECES if each.name not in ends or ends[each.name] > now]
            ready = [each for each in ready if each.round == min(live)]
        busy = {worker for name, (worker, _) in started.items() if ends[name] > now}
        free = [worker for worker in range(workers) if worker not in busy]
        for worker, piece in zip(free, sorted(ready, key=ORDERS[order]), strict=False):
            started[piece.name] = worker, now
            ends[piece.name] = now + piece.seconds
        now += 1
    return [(piece, *started[piece.name]) for piece in PIECES]


def rounds() -> str:
    """The same tree in three orders, on two workers, with one slow task in round 1."""
    sheet = Sheet(WIDTH, 418, "The same tree in three orders: only rounds wait for the slow task")
    left, second, height = 150, 58.0, 30
    looks = ("solid", "wash", "mute", "plain")
    for panel, order in enumerate(ORDERS):
        top = 22 + 124 * panel
        slots = schedule(order)
        sheet.text(20, top + 10, f'order="{order}"', bold=True, mono=True)
        for worker in range(2):
            sheet.text(left - 10, top + 43 + 36 * worker, f"worker {worker + 1}", "end", "soft", size=11)
        for piece, worker, start in slots:
            area = Area(left + second * start, top + 22 + 36 * worker, second * piece.seconds - 3, height)
            name = piece.name[1:] or "root"
            sheet.block(area.x, area.y, area.width, height, name, look=looks[piece.round])
        if order == "rounds":
            opens = sorted({min(start for each, _, start in slots if each.round == number) for number in (1, 2, 3)})
            for number, start in enumerate(opens, 1):
                x = left + second * start - 1.5
                sheet.line([(x, top + 2), (x, top + 94)], "accent", dashed=True)
                sheet.text(x + 4, top + 11, f"round {number}", colour="accent", size=11)
    sheet.text(20, 396, "round", colour="soft", size=12)
    for number, look in enumerate(looks):
        sheet.block(70 + 44 * number, 382, 34, 20, str(number), look=look, size=12)
    sheet.text(WIDTH - 20, 396, "time →", "end", "soft", size=12)
    return sheet.svg()


def joins() -> str:
    """Three members arrive at the slots of a join; its task runs or is skipped by its rule."""
    sheet = Sheet(WIDTH, 250, "Three members arrive at a join; its rule decides whether its task runs or is skipped")
    members = (("load a", "done", "wash"), ("load b", "failed", "warn"), ("load c", "done", "wash"))
    sheet.text(95, 34, "members", "middle", "soft")
    sheet.text(330, 34, "join", "middle", "soft")
    sheet.text(620, 34, "its task, by its rule", "middle", "soft")
    box = sheet.box(245, 48, 170, 164)
    sheet.text(330, 70, "slots", "middle", size=12)
    for number, (name, end, look) in enumerate(members):
        y = 82 + 34 * number
        sheet.block(20, y - 2, 150, 28, f"{name}: {end}", look=look)
        sheet.block(262, y, 60, 24, f"slot {number}", look="mute", size=12)
        sheet.block(326, y, 70, 24, "arrived", size=12)
        sheet.arrow([(170, y + 12), (262, y + 12)])
    sheet.text(330, 202, "3 of 3: full", "middle", bold=True)
    outcomes = (
        ('when="done"', "skipped", "mute"),
        ('when="any-done"', "runs", "wash"),
        ('when="always"', "runs", "wash"),
    )
    for number, (rule, what, look) in enumerate(outcomes):
        y = 82 + 34 * number
        sheet.arrow([(box.x + box.width, y + 12), (500, y + 12)])
        sheet.text(510, y + 17, rule, mono=True, size=12)
        sheet.block(650, y, 90, 24, what, look=look)
    sheet.note(238, "Each arrival is one bit, set in the commit that ends the member.")
    return sheet.svg()


def lives() -> str:
    """A task with two retries: three attempts and a crash in its first life, and a second life by hand."""
    sheet = Sheet(WIDTH, 268, "Attempts, a crash and two lives of one task, with the five events that record them")
    entries = (
        ("attempt 1", "raises", "warn", "1: retrying"),
        ("attempt 2", "process dies", "mute", None),
        ("attempt 2", "raises", "warn", "2: retrying"),
        ("attempt 3", "raises", "warn", "3: failed"),
        ("ramify retry", "by a person", "plain", "4: reopened"),
        ("attempt 1", "returns", "solid", "5: done"),
    )
    left, step, width = 20, 122, 110
    for number, (first, line, look, event) in enumerate(entries):
        x = left + step * number
        sheet.block(x, 72, width, 46, first, line, look=look, size=12, dashed=event is None)
        if number:
            sheet.arrow([(x - step + width, 95), (x, 95)])
        if event is None:
            sheet.text(x + width / 2, 176, "no event", "middle", "soft", size=12)
        else:
            sheet.block(x, 158, width, 28, event, look="mute", size=12)
            sheet.arrow([(x + width / 2, 118), (x + width / 2, 158)])
    for first_entry, last_entry, name in ((0, 3, "life 1, with retries=2"), (5, 5, "life 2")):
        start, end = left + step * first_entry, left + step * last_entry + width
        sheet.line([(start, 62), (start, 54), (end, 54), (end, 62)], "accent")
        sheet.text((start + end) / 2, 44, name, "middle", "accent")
    sheet.note(216, "The events are the only record: attempts, life and end are counted from them.")
    sheet.note(238, "A crash writes no event and uses no attempt; the process's death is counted apart.")
    return sheet.svg()


def editions() -> str:
    """A map whose source is retried: the items of the first life are replaced by those of the second."""
    sheet = Sheet(WIDTH, 236, "Retrying the source of a map replaces its first edition; only the second counts")

    def edition(y: float, name: str, maker: str, items: Sequence[str], look: str, *, dashed: bool = False) -> None:
        sheet.text(20, y + 23, name, bold=not dashed, colour="soft" if dashed else "ink")
        sheet.block(130, y, 150, 38, maker, look=look, dashed=dashed)
        for number, item in enumerate(items):
            x = 330 + 94 * number
            sheet.block(x, y, 84, 38, item, look=look, size=12, dashed=dashed)
        sheet.arrow([(280, y + 19), (330, y + 19)], dashed=dashed)

    edition(46, "edition 1", "map, life 1", ("load[0]", "load[1]", "load[2]"), "mute", dashed=True)
    sheet.text(330, 36, "replaced: out of results, counts, errors and keys", colour="soft", size=12)
    sheet.arrow([(205, 84), (205, 138)], "accent")
    sheet.text(214, 116, 'run.retry("files")', colour="accent", mono=True, size=12)
    edition(138, "edition 2", "map, life 2", ("load[0]", "load[1]", "load[2]", "load[3]"), "wash")
    sheet.text(330, 198, "counts: what gathers the map waits for these four", colour="soft", size=12)
    sheet.note(224, "Both editions stay in the log; a replaced task never runs again.")
    return sheet.svg()


def survival() -> str:
    """Commits of one process until it is killed: what is kept, and what runs again."""
    sheet = Sheet(WIDTH, 262, "A process that commits every 0.1 s is killed: commits are kept, the rest runs again")
    left, tenth, killed = 96, 84.0, 4.8
    sheet.text(20, 100, "work", colour="soft")
    sheet.text(20, 152, "store", colour="soft")
    for number in range(4):
        x = left + tenth * number
        sheet.block(x, 80, tenth - 3, 32, "finished", look="wash", size=12)
        sheet.arrow([(x + tenth - 1.5, 112), (x + tenth - 1.5, 134)], "accent")
        sheet.block(x, 134, tenth - 3, 28, "kept", look="solid", size=12)
    sheet.block(left + tenth * 4, 80, tenth * 0.8 - 3, 32, "unsaved", look="warn", size=12, dashed=True)
    x = left + tenth * killed
    sheet.line([(x, 44), (x, 176)], "warn", width=1.8)
    sheet.text(x, 36, "kill -9", "middle", "warn", mono=True)
    restart = x + 54
    sheet.line([(restart, 44), (restart, 176)], "soft", dashed=True)
    sheet.text(restart + 6, 54, "the same line again", colour="soft", size=12)
    sheet.block(restart + 4, 80, tenth * 0.8, 32, "again", look="wash", size=12)
    sheet.block(restart + 8 + tenth * 0.8, 80, 98, 32, "continues", look="wash", size=12)
    sheet.text(left + tenth, 190, "0.1 s", "middle", "soft", size=11)
    sheet.line(
        [(left + tenth * 0.5, 172), (left + tenth * 0.5, 176), (left + tenth * 1.5, 176), (left + tenth * 1.5, 172)]
    )
    sheet.note(222, "kept: every commit that returned, children of the finished tasks included")
    sheet.note(244, "again: tasks that were running, and those that finished after the last commit")
    return sheet.svg()
