"""Types that calls of Ramify return or take. Programs get them from a call; import them to annotate your functions.

Runs and tasks
    Plan           a run that was not started yet: `dag.of(...)`, `pipeline.of(...)`
    DagPlan        the plan of a DAG; `.part(...)` takes a subset
    PipelinePlan   the plan of a pipeline
    How            how a start began: new, continued or finished (`run.begun`)
    Phase          the present activity of a run (`run.phase`)
    Counts         tasks by outcome (`run.counts`)
    RunSummary     a run in a few numbers (`run.summary`)
    TimelineRow    one attempt: when, where and how it ended (`run.timeline()`)
    DecisionRow    a decision about a run: who, why and when (`run.decisions()`)
    ResultRow      a result with its task, arguments and cursor (`run.results(rows=True)`)
    TaskState      the state of one task (`run["load[17]"]`)
    TaskError      a task that failed (`run.errors()`, `job.error`, `stream.failures`)
    ErrorGroup     failures that look alike (`RunFailed.groups`)
    Status         how a task ended (`TaskError.status`)
    Added          the task that a call became (`run.add(...)`)
    Retried        the effect of `run.retry(...)`
    Resolved       the effect of `run.resolve(...)`
    Settled        the effect of `cancel`: certain, requested, or none
    Table          the answer to `run.sql(...)`

Jobs and workers
    Queue          the handle of a queue (`engine.queue("mail")`)
    JobProgress    the last progress of a job (`job.progress`)
    Working        workers inside a program (`with engine.working():`)

Limits
    TaskLimit      a limit of all processes together (`engine.limit("api", max_running=5)`)

Values
    Values         values that a store shares (`engine.values("quota", int)`)
    CurrentValues  the same in a task, changed with its end (`current().values("quota", int)`)

Locks
    Lock           a lock that a store shares (`engine.lock("report")`)
    Held           a lock that this program holds (`with engine.lock("report") as held:`)

Topics
    Topic          a topic that a store shares (`engine.topic("orders", Order)`)
    TopicReader    a named reader by hand (`orders.read("billing")`)
    Following      publications as they come (`orders.follow()`)
    FailedTask     a task that failed for good (`engine.failures`)
    EndedRun       a run that ended (`engine.run_ends`)
    OnDecorator    the decorator that `engine.on(...)` returns

Tasks and resources
    TaskDecorator  the decorator that `engine.task(...)` returns
    Resource       a value shared by the tasks of a process (`@engine.resource`)
    AsyncResource  the same for async tasks
    Steps          the steps of a pipeline, from `steps(...)`
    OtherRun       a run that `dag.wait` takes
    EarlierRun     a run that `part(given=...)` takes
    Source         the origin of a stream's results

Inside a task
    CurrentRun     the run of a task (`current().run`)
    Context        the values of the run (`current().context`)
    Ends           how the tasks of the run ended (`current().run.ends`)
    Leader         the run that it follows (`current().leader`)
    Child          a child of a task of the leader

Health
    Health         the health of a store (`engine.health()`)
    Problem        a reason why a store is unhealthy
    StoreHealth    the store and its file
    ProcessHealth  a process
    ProcessState   the state of a process
    QueueHealth    a queue that has work
    StuckRun       a run that continues only if somebody acts
    BusyLimit      a limit without room for more tasks
    LateWork       tasks that nobody began in time
    ReadyTask      a task that could run now
"""

from ramify.coordination.held import Held as Held
from ramify.coordination.lock import Lock as Lock
from ramify.coordination.reader import TopicReader as TopicReader
from ramify.coordination.topic import Following as Following
from ramify.coordination.topic import Topic as Topic
from ramify.engine.jobs.job import JobProgress as JobProgress
from ramify.engine.jobs.queue import Queue as Queue
from ramify.engine.processes.working import Working as Working
from ramify.engine.resource import AsyncResource as AsyncResource
from ramify.engine.resource import Resource as Resource
from ramify.engine.runs.deciding import Resolved as Resolved
from ramify.engine.runs.keyed import TaskState as TaskState
from ramify.engine.runs.retrying import Retried as Retried
from ramify.engine.runs.rows import ResultRow as ResultRow
from ramify.engine.runs.timeline import DecisionRow as DecisionRow
from ramify.engine.runs.timeline import RunSummary as RunSummary
from ramify.engine.runs.timeline import TimelineRow as TimelineRow
from ramify.engine.tasks.limit import TaskLimit as TaskLimit
from ramify.engine.tasks.on import OnDecorator as OnDecorator
from ramify.engine.tasks.task import TaskDecorator as TaskDecorator
from ramify.engine.values import Values as Values
from ramify.inspect.health import Health as Health
from ramify.inspect.health import LateWork as LateWork
from ramify.inspect.health import Problem as Problem
from ramify.inspect.health import ProcessHealth as ProcessHealth
from ramify.inspect.health import ProcessState as ProcessState
from ramify.inspect.health import QueueHealth as QueueHealth
from ramify.inspect.health import ReadyTask as ReadyTask
from ramify.inspect.health import StoreHealth as StoreHealth
from ramify.inspect.health import StuckRun as StuckRun
from ramify.inspect.limits import BusyLimit as BusyLimit
from ramify.inspect.status import Counts as Counts
from ramify.inspect.status import Phase as Phase
from ramify.kernel.attempts.attempt_env import Child as Child
from ramify.kernel.attempts.attempt_env import CurrentRun as CurrentRun
from ramify.kernel.attempts.attempt_env import Leader as Leader
from ramify.kernel.attempts.context import Context as Context
from ramify.kernel.attempts.stream import Source as Source
from ramify.kernel.attempts.values import CurrentValues as CurrentValues
from ramify.model.event import Status as Status
from ramify.model.join import Ends as Ends
from ramify.model.mark import Settled as Settled
from ramify.model.outcome import TaskError as TaskError
from ramify.model.own_topics import EndedRun as EndedRun
from ramify.model.own_topics import FailedTask as FailedTask
from ramify.shapes.dag.part import EarlierRun as EarlierRun
from ramify.shapes.dag.start import DagPlan as DagPlan
from ramify.shapes.dag.wait import OtherRun as OtherRun
from ramify.shapes.pipeline.pipeline import PipelinePlan as PipelinePlan
from ramify.shapes.pipeline.steps import Steps as Steps
from ramify.shapes.plan import Added as Added
from ramify.shapes.plan import Plan as Plan
from ramify.shapes.start import How as How
from ramify.store.error_groups import ErrorGroup as ErrorGroup
from ramify.store.reads import Table as Table
