"""Every case of every model. The tests and the command line read nothing else, so a new model is one line here."""

from __future__ import annotations

from tests.protocol import (
    addition,
    batch,
    beat,
    blame,
    cancel_task,
    core_cases,
    decide,
    dedupe,
    edition,
    forget,
    heir,
    join,
    limit_cases,
    limit_lock,
    lock,
    open_transaction,
    outage,
    reopen,
    seal,
    stage,
    swap,
    swap_part,
)
from tests.protocol.checker import Case

CASES: tuple[Case, ...] = (
    *core_cases.CASES,
    *seal.CASES,
    *join.CASES,
    *dedupe.CASES,
    *stage.CASES,
    *cancel_task.CASES,
    *batch.CASES,
    *reopen.CASES,
    *heir.CASES,
    *edition.CASES,
    *open_transaction.CASES,
    *beat.CASES,
    *outage.CASES,
    *decide.CASES,
    *blame.CASES,
    *forget.CASES,
    *swap.CASES,
    *swap_part.CASES,
    *addition.CASES,
    *limit_cases.CASES,
    *limit_lock.CASES,
    *lock.CASES,
)
