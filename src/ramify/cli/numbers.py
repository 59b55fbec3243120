"""Numbers that are typed: ids, sequences and counts, each within what a store or a machine can take."""

from __future__ import annotations

import click

from ramify.kernel.settings import MOST_PROCESSES, MOST_THREADS
from ramify.model.task import MAX_ID

#: The id of a task, or the last one of the page before.
TASK = click.IntRange(0, MAX_ID)
#: Where a tail stands.
SEQUENCE = click.IntRange(0, MAX_ID)
#: How many of something are wanted.
COUNT = click.IntRange(1, MAX_ID)
PROCESSES = click.IntRange(0, MOST_PROCESSES)
THREADS = click.IntRange(0, MOST_THREADS)
