"""The tasks of a node by what people call it: its id."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice

from ramify.inspect.find import title
from ramify.inspect.graph import Role, role_of
from ramify.inspect.history import UnknownTask
from ramify.inspect.lives import lives_of
from ramify.inspect.run_graph import has_nodes, node_rows
from ramify.inspect.show import key_text
from ramify.model.event import Status
from ramify.model.key import key_bytes
from ramify.model.run import StoredRun
from ramify.model.task import Row, is_own
from ramify.store.reads import Reads

#: Among how many nodes one with a similar id is looked for.
_SIMILAR = 10_000
_NOT_DONE = (Status.FAILED, Status.QUARANTINED, Status.CANCELLED, Status.SKIPPED)


def tasks_to_retry(reads: Reads, run: StoredRun, id: str) -> list[int]:
    """What trying a node again means: its task, or, of a map that was made, those of its items that were not done.

    UnknownTask when the run has no such node.
    """
    row = _node(reads, run, id)
    (life,) = lives_of(reads, [row.id])
    if role_of(row.kind) is Role.MAP and life.ended is Status.DONE:
        return sorted(_not_done(reads, row))
    return [row.id]


def _node(reads: Reads, run: StoredRun, id: str) -> Row:
    key = key_bytes(id)
    for kind in reads.counts(run.id):
        for task in reads.find_tasks(run.id, kind, key):
            row = reads.task(task)
            if row is not None and row.parent is None:
                return row
    known = [key_text(row.key) or "" for row in islice(node_rows(reads, run.id), _SIMILAR)]
    near = difflib.get_close_matches(id, known, 1) if has_nodes(reads, run.id) else []
    hint = f"did you mean {near[0]!a}?" if near else "`ramify show` lists its nodes"
    raise UnknownTask(f"{title(run)} has no node {id!a}; {hint}")


def _not_done(reads: Reads, made_by: Row) -> Iterator[int]:
    kinds = [kind for kind in reads.counts(made_by.run) if not is_own(kind)]
    for kind in kinds:
        for status in _NOT_DONE:
            after, more = 0, True
            while more:
                page = reads.results(made_by.run, kind=kind, status=status, after=after)
                for ended in page.rows:
                    row = reads.task(ended.task)
                    if row is not None and row.parent == made_by.id:
                        yield ended.task
                after, more = page.after, page.more
