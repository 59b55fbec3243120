"""`ramify`: the commands and the exit codes.

    0    done
    1    some tasks failed, the store is not healthy (`health`, `doctor`), or a gate was not open
    2    the command line was wrong
    3    the store or the configuration was
    130  interrupted by Ctrl-C or SIGTERM; what was committed stays, and the same command goes on. A worker that
         finished and saved all that it ran after SIGTERM ends with 0
    141  whoever read the output went away, as with `ramify tasks | head`
    143  SIGTERM came again and ended it at once; for Ctrl-C, that is 130 as well

Commands are imported when they are asked for, so that help comes at once.
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
    "demo": "Grow a million tasks, be killed twice, lose nothing.",
    "run": "Run a task of yours, a DAG or a pipeline, to the end.",
    "start": "Start such a run, and leave the work to workers.",
    "worker": "Work on whatever is in the store, until stopped.",
    "status": "How a run is doing; --watch stays with it.",
    "show": "The graph of a DAG, or of a run of one.",
    "runs": "All runs of the store.",
    "tasks": "Tasks of a run.",
    "jobs": "Jobs of the queues, from the newest back.",
    "crons": "Schedules: their next slots; pause, trigger, backfill, remove.",
    "errors": "What failed, in groups; in one run or in all.",
    "events": "What became of a task, or of a run as it happens.",
    "why": "Why a task is not running.",
    "logs": "What tasks of a run logged.",
    "gates": "Gates of pipelines that wait for an answer.",
    "answer": "Answer a gate of a pipeline.",
    "retry": "Begin again with tasks that failed.",
    "resolve": "Say by hand how a task should count.",
    "cancel": "Cancel a run, a task, or a task and all below it.",
    "pause": "Grant no more work of a run.",
    "resume": "Let a paused run go on.",
    "drain": "Ask a process to finish what it runs and leave.",
    "backup": "Copy the store while others work on it.",
    "doctor": "Look the store over.",
    "health": "Is the store healthy, and if not, why? For monitors.",
    "forget": "Remove ended runs for good.",
    "vacuum": "Remove what nobody can reach any more.",
}


class Commands(click.Group):
    """The commands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"ramify.cli.commands.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing what it lists."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command, and turn what goes wrong into a line and an exit code."""
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
@click.option("-s", "--store", "url", metavar="URL|FILE", help="Which store.")
@click.version_option(__version__, prog_name="ramify")
@click.pass_context
def main(context: click.Context, url: str | None) -> None:
    """Look after Ramify's runs and tasks.

    The store is the one given with -s; else RAMIFY_URL; else store under [tool.ramify] in the nearest pyproject.toml;
    else the only Ramify file in this folder. RUN is a name, name#2 for its second generation, or an id.
    """
    context.obj = url
