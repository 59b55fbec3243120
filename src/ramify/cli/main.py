"""`ramify`: the commands and the exit codes.

    0    success
    1    tasks failed, the store is not healthy (`health`, `doctor`), or a gate was not open
    2    the command line is wrong
    3    the store or the configuration is wrong
    130  interrupted by Ctrl-C or SIGTERM. Committed work stays, and the same command continues. A worker that saves
         all its running tasks after SIGTERM exits 0
    141  the reader of the output closed it, as in `ramify tasks | head`
    143  a second SIGTERM ended it at once; a second Ctrl-C exits 130

Commands are imported on first use, so that help is fast.
"""

from __future__ import annotations

from importlib import import_module

import click

from ramify import __version__
from ramify.cli.out import hush, tell
from ramify.errors import RamifyError

FAILED, USAGE, TROUBLE, INTERRUPTED, UNREAD = 1, 2, 3, 130, 141

#: Each command with the line that `ramify --help` shows, in the order people meet them.
COMMANDS = {
    "demo": "Grow a million tasks, kill the program twice, audit the result.",
    "run": "Run a task, a DAG or a pipeline to its end.",
    "start": "Register a run and return; workers do the work.",
    "worker": "Run the tasks in the store until stopped.",
    "status": "Show the progress of a run; --watch follows it.",
    "show": "Show the graph of a DAG or a pipeline, or of a run.",
    "runs": "List the runs in the store.",
    "tasks": "List the tasks of a run.",
    "jobs": "List the jobs in the queues, newest first.",
    "crons": "List schedules; pause, trigger, backfill or remove one.",
    "limits": "List limits of all processes together; set other numbers.",
    "errors": "Group failures by cause, in one run or in all.",
    "events": "Show the events of a task or a run; --follow tails them.",
    "why": "Explain why a task is not running.",
    "logs": "Show the log lines of a run or a task; --follow tails them.",
    "gates": "List gates that wait for an answer.",
    "answer": "Answer a gate of a pipeline.",
    "locks": "List the locks that are held, and who waits.",
    "unlock": "Take a lock from whoever holds it.",
    "topics": "List topics and the lag of readers; replay for one.",
    "follow": "Show what is published to a topic, as it comes.",
    "retry": "Retry tasks that ended.",
    "resolve": "Mark a task as done with a result, or as skipped.",
    "cancel": "Cancel a run, a task, or a task and its descendants.",
    "pause": "Pause a run: start no more of its tasks.",
    "resume": "Resume a paused run.",
    "drain": "Ask a worker to finish its running tasks and exit.",
    "backup": "Copy the store to one file while workers run.",
    "doctor": "Check the store and report what needs attention.",
    "health": "Report whether the store is healthy; for monitors.",
    "forget": "Delete ended runs for good.",
    "vacuum": "Delete unreachable rows and free disk space.",
}


class Commands(click.Group):
    """The commands, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"ramify.cli.commands.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command, and turn errors into a line and an exit code."""
        try:
            return super().invoke(ctx)
        except RamifyError as error:
            tell(f"ramify: {error}")
            ctx.exit(TROUBLE)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx is not None else ctx.command_path
            tell(f"ramify: {error.format_message().rstrip('.')}; see `{path} --help`")
            ctx.exit(USAGE)
        except BrokenPipeError:
            hush()
            ctx.exit(UNREAD)
        except KeyboardInterrupt:
            tell("interrupted")
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-s", "--store", "url", metavar="URL|FILE", help="The store to use.")
@click.version_option(__version__, prog_name="ramify")
@click.pass_context
def main(context: click.Context, url: str | None) -> None:
    """Run, inspect and repair Ramify's runs and tasks.

    The store is -s; else RAMIFY_URL; else `store` under [tool.ramify] in the nearest pyproject.toml; else the only
    Ramify file in this folder. RUN is a name, name#2 for its second generation, or an id.
    """
    context.obj = url
