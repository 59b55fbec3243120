"""The names that users type, in one place: `ramify` gives them out when they are first used, and loads this then.

`import ramify` alone stays quick that way, and type checkers see the same names at once. Types that calls return are in
`ramify.types`, exceptions in `ramify.errors`. Nothing else imports this module.
"""

from ramify.coordination.publishing import Published as Published
from ramify.engine.engine import Engine as Engine
from ramify.engine.jobs.job import Job as Job
from ramify.engine.runs.run import Run as Run
from ramify.engine.tasks.task import AsyncSpawns as AsyncSpawns
from ramify.engine.tasks.task import Spawns as Spawns
from ramify.engine.tasks.task import Task as Task
from ramify.engine.tasks.tasks import Tasks as Tasks
from ramify.kernel.attempts.control import Defer as Defer
from ramify.kernel.attempts.control import Fatal as Fatal
from ramify.kernel.attempts.control import Return as Return
from ramify.kernel.attempts.control import Skip as Skip
from ramify.kernel.attempts.current import Current as Current
from ramify.kernel.attempts.current import current as current
from ramify.kernel.attempts.stream import Stream as Stream
from ramify.model.call import Call as Call
from ramify.model.job import JobState as JobState
from ramify.model.outcome import Failure as Failure
from ramify.model.policy import Backoff as Backoff
from ramify.model.policy import Rate as Rate
from ramify.model.run import RunState as RunState
from ramify.model.slot import Slot as Slot
from ramify.shapes.dag.dag import Dag as Dag
from ramify.shapes.dag.node import Node as Node
from ramify.shapes.pipeline.pipeline import Pipeline as Pipeline
from ramify.shapes.pipeline.route import Route as Route
from ramify.shapes.pipeline.steps import steps as steps
