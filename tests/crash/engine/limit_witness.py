"""A service on this machine that counts the requests which it serves at a time, and those that begin, by name.

A request is a connection with one line: NAME and the PID of its process. It is answered after a moment. Requests of a
process that was killed still run for that moment, as they would anywhere, and are not counted from the kill on.
"""

from __future__ import annotations

import socketserver
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict

#: How long a request takes.
STAY = 0.004


class Witness:
    """The service, and what it has seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[str, Counter[int]] = defaultdict(Counter)
        self._dead: set[int] = set()
        self.most: Counter[str] = Counter()
        self.begun: dict[str, list[float]] = defaultdict(list)
        self._server = _Server(("127.0.0.1", 0), _Request)
        self._server.witness = self
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="witness", daemon=True).start()

    def enter(self, name: str, process: int) -> None:
        """A request begins."""
        with self._lock:
            self.begun[name].append(time.monotonic())
            self._inside[name][process] += 1
            living = sum(many for each, many in self._inside[name].items() if each not in self._dead)
            self.most[name] = max(self.most[name], living)

    def leave(self, name: str, process: int) -> None:
        """It has ended."""
        with self._lock:
            self._inside[name][process] -= 1

    def is_killed(self, process: int) -> None:
        """A process is about to be killed, or is dead: what it asked for still runs, and counts no more."""
        with self._lock:
            self._dead.add(process)

    def most_within(self, name: str, seconds: float) -> int:
        """The most requests that began in any stretch of so many seconds."""
        times = self.begun[name]
        return max((bisect_left(times, since + seconds) - at for at, since in enumerate(times)), default=0)

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    witness: Witness


class _Request(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        name, process = self.rfile.readline().decode().split()
        self.server.witness.enter(name, int(process))
        threading.Event().wait(STAY)
        self.server.witness.leave(name, int(process))
        # Only now: whoever hears the answer frees a place, and the next request may begin.
        try:
            self.wfile.write(b".")
        except OSError:
            return
