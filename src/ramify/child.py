"""`python -m ramify.child ORDERS FD`: one worker process of a crew. People do not call it; `processes=N` does.

It imports the engine, works with a kernel of its own, and writes a word to FD with every beat, so that the crew can
tell a hung child from a busy one. FD closes when the crew's process dies; then it stops. It stays with this process:
neither what a task starts nor what it forks has it. SIGTERM stops it, however often it comes, and SIGUSR1 lets it write
its stacks; SIGINT and the signals that steer a crew are left to the crew, because a terminal sends them to both.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from ramify.engine.engine import Engine
from ramify.engine.processes.address import load_engine
from ramify.engine.processes.crew_signals import words_of
from ramify.engine.processes.importing import importing
from ramify.engine.processes.member import END_OF_URL, NOT_STARTED, OTHER_TROUBLE, TROUBLES, Orders, Service
from ramify.engine.processes.os_signals import hear
from ramify.engine.processes.signal_text import Log
from ramify.errors import ConfigError, RamifyError, StoreError
from ramify.inspect.text import tell
from ramify.inspect.words import plural
from ramify.kernel.core.pressure import is_out_of_files, resident_bytes
from ramify.kernel.kernel import Kernel
from ramify.kernel.settings import Settings
from ramify.kernel.signals import Entered, Saved, Signal, Stopping, Took
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.store import forks

MEGABYTE = 1_000_000
#: Seconds between two signs of life while the engine is imported and its store is opened.
SAY_EVERY = 5.0
_NO_FILES = (f"[Errno {errno.EMFILE}]", f"[Errno {errno.ENFILE}]")


class Report:
    """The line to the crew. A crew that is gone is told nothing, and that is no trouble."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._fd = fd
        self._lock = threading.Lock()
        forks.register(self)
        self._has_entered = threading.Event()
        self._is_idle = False

    def say(self, line: str) -> None:
        """Write one line, whole: several threads have something to say, and some lines are long."""
        rest = f"{line}\n".encode("utf-8", "replace")
        with self._lock, contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def hear_url(self) -> str:
        """The store to work on, which the crew says first, and says nothing else."""
        said = b""
        while not said.endswith(END_OF_URL):
            more = os.read(self._fd, 4096)
            if not more:
                raise ConfigError("the crew was gone before it said which store to work on")
            said += more
        return said[:-1].decode("utf-8", "surrogateescape")

    def wait_for_its_end(self) -> None:
        """Return when the crew's process is gone."""
        with contextlib.suppress(OSError):
            while os.read(self._fd, 4096):
                pass

    def orphan(self) -> None:
        """In a forked child: it has nothing to say to the crew, and must not keep the line open."""
        self._lock = threading.Lock()
        with contextlib.suppress(OSError):
            os.close(self._fd)
        self._fd = -1

    def relay(self, text: str) -> None:
        """Let the crew say something to people, which a child does not do itself."""
        self.say(f"said {' '.join(text.split())}")

    def keep_saying(self, word: str) -> None:
        """Say a word now and then until this process has entered: a slow import or a store that is away is no hang."""

        def go_on() -> None:
            while not self._has_entered.wait(SAY_EVERY):
                self.say(word)

        threading.Thread(target=go_on, name="ramify-starting", daemon=True).start()

    def idle(self) -> None:
        """In a burst: nothing is ready. Said once, until there is something to do again."""
        if not self._is_idle:
            self._is_idle = True
            self.say("idle")

    def trouble(self, error: Exception) -> None:
        """Tell the crew why this process ends."""
        words = " ".join(str(error).split())
        how = next((word for word, kind in TROUBLES.items() if isinstance(error, kind)), OTHER_TROUBLE)
        self.say(f"{how} {words if isinstance(error, RamifyError) else f'{type(error).__name__}: {words}'}")

    def __call__(self, signal: Signal) -> None:
        """Tell the crew which number this process has, when it saves and leaves, and what people should hear."""
        match signal:
            case Entered(process):
                self._has_entered.set()
                self.say(f"process {process}")
            case Stopping("saving"):
                self.say("saving")
            case Stopping("done", unfinished):
                self.say(f"left {unfinished}")
            case Took(tasks) if tasks and self._is_idle:
                self._is_idle = False
                self.say("busy")
            case _:
                words = words_of(signal)
                if words is not None:
                    self.say(f"signal {words}")


class Recycling:
    """A listener that ends this process between two tasks, for another to take its place: it looks at each commit."""

    def __init__(self, kernel: Kernel, service: Service, report: Report) -> None:
        self._kernel = kernel
        self._service = service
        self._report = report
        self._is_leaving = False

    def __call__(self, signal: Signal) -> None:
        """Hear a signal."""
        if isinstance(signal, Saved) and not self._is_leaving:
            if _was_refused_files(signal) and is_out_of_files():
                # The tasks it holds would fail one by one, so it starts no more. One such failure is no reason to
                # leave while other tasks still have descriptors to give back.
                self._leave("a task used up its file descriptors", self._kernel.stop)
            elif (why := self._why()) is not None:
                self._leave(why, self._kernel.finish)

    def _leave(self, why: str, end: Callable[[], None]) -> None:
        self._is_leaving = True
        self._report.say(f"recycled {why}")
        end()

    def _why(self) -> str | None:
        most, megabytes = self._service.recycle_tasks, self._service.recycle_mb
        # Its claims stop there, so nothing is left in its hands by then.
        if most is not None and (through := self._kernel.core.claim_policy.through) >= most:
            return f"it had done {plural(through, 'task')}"
        used = None if megabytes is None else resident_bytes()
        if megabytes is not None and used is not None and used > megabytes * MEGABYTE:
            return f"it used {used / MEGABYTE:,.0f} MB"
        return None


def _was_refused_files(saved: Saved) -> bool:
    """Return whether an attempt failed because no more files could be opened."""
    failures = (
        Failure.decode(end.value) for end in saved.ends(False) if end.status in (Status.RETRYING, Status.FAILED)
    )
    return any(failure.type == "OSError" and failure.text.startswith(_NO_FILES) for failure in failures)


def main(argv: Sequence[str]) -> int:
    """Work until told to stop."""
    if len(argv) != 2:
        sys.stderr.write("python -m ramify.child is started by processes=N, not by hand; see `ramify run --help`\n")
        return 2
    # Not ignored: what a task starts would ignore it too.
    hear((signal.SIGINT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU), lambda number, frame: None)
    # Written by the signal itself, whoever holds the interpreter. Before the import: a program may use it otherwise.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    orders = Orders.decode(argv[0])
    report = Report(int(argv[1]))
    report.keep_saying("starting")
    try:
        # Before the import, which may end this process: what is left unread would break the line for both.
        url = report.hear_url()
        engine = _engine(orders, url, report)
        kernel = _kernel(engine, orders, report)
    except Exception as error:  # noqa: BLE001 - whatever a user's module raises is why there is no worker
        report.trouble(error)
        return NOT_STARTED
    _stop_on_signals(kernel)
    threading.Thread(target=_stop_with_the_crew, args=(kernel, report), daemon=True).start()
    try:
        with engine._runtime.using_resources():
            # Beside this thread, which hears signals and must not be caught in a task.
            kernel.start()
            kernel.join()
        if kernel.core.watch.is_over or kernel.is_drained:
            report.say("drained" if kernel.is_drained else "over")
    except Exception as error:
        report.trouble(error)
        if isinstance(error, StoreError):
            # Its text says what to do, and the crew tells it; where in our code it was met helps nobody.
            return 1
        raise
    return 0


def _load(orders: Orders) -> Engine:
    sys.path += [each for each in orders.path if each not in sys.path]
    with importing(orders.address):
        return load_engine(orders.address)


def _engine(orders: Orders, url: str, report: Report) -> Engine:
    engine = _load(orders)
    runtime = engine._runtime
    runtime.url, runtime.durability, runtime.since = url, orders.durability, orders.since
    # The crew has it open: where there is none, it was taken away.
    runtime.creates = False
    runtime.say, runtime.teller = report.relay, report
    if orders.log is not None:
        log = Log(tell, *orders.log)
        runtime.log_with(log)
        # What the crew hears of as well, it writes itself, once for all of its members.
        runtime.listen(lambda signal: log(signal) if words_of(signal) is None else None)
    return engine


def _kernel(engine: Engine, orders: Orders, report: Report) -> Kernel:
    settings = Settings(
        runs=None if orders.runs is None else frozenset(orders.runs),
        until_ended=orders.until_ended,
        queues=orders.queues,
        threads=orders.threads,
        grace=orders.grace,
        beat_every=orders.beat_every,
        dead_after=orders.dead_after,
        supervisor=os.getppid(),
        on_beat=lambda: report.say(f"beat {kernel.core.leases.adapters[False].target}"),
        on_idle=report.idle if orders.service.burst else None,
        most_tasks=orders.service.recycle_tasks,
    )
    kernel = engine._runtime.kernel(settings)
    kernel.signals.listen(Recycling(kernel, orders.service, report))
    return kernel


def _stop_on_signals(kernel: Kernel) -> None:
    heard: queue.SimpleQueue[int] = queue.SimpleQueue()

    def stop() -> None:
        while heard.get():
            kernel.stop()

    # A thread of its own: the handler may have interrupted the very thread that holds the kernel's lock.
    threading.Thread(target=stop, name="ramify-signals", daemon=True).start()
    # As often as it comes: a service manager sends it to the whole group, and the crew once more. Who wants an end at
    # once kills. Also where the program was started with it ignored, because the crew has no other way to ask.
    hear((signal.SIGTERM,), lambda number, frame: heard.put(number), also_ignored=True)


def _stop_with_the_crew(kernel: Kernel, report: Report) -> None:
    report.wait_for_its_end()
    kernel.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
elif __name__ == "__mp_main__":
    # A task made a process with multiprocessing's spawn or forkserver, which import their parent's program anew, and
    # will look for the task's functions where this process has them.
    _load(Orders.decode(sys.argv[1]))
