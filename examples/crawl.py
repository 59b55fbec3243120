"""Crawl a site: `python examples/crawl.py [PAGES]`. The site is made up, and served on this machine alone.

A page is a task, and its links are its children. `once` is the visited set: however many pages link to an address, it
is fetched once. Each host is a lane: at most four pages of one host are fetched at a time, while other hosts go on.
Kill it at any moment and start it again: no page that was fetched is fetched again, and none is forgotten.
"""

import asyncio
import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from ramify import AsyncSpawns, Engine, Return

engine = Engine(Path(tempfile.gettempdir()) / "ramify-crawl.db")

HOSTS = ("north.example", "south.example", "west.example")
AT_A_TIME = 4
LINK = re.compile(r'href="([^"]+)"')


def host_of(url: str) -> str:
    return urlsplit(url).netloc


@engine.task(once="url", lane=host_of, concurrency=AT_A_TIME, timeout=10)
async def visit(url: str) -> AsyncSpawns[str]:
    page = await fetch(url)
    for link in LINK.findall(page):
        yield visit.of(urljoin(url, link))
    yield Return(url)


async def fetch(url: str) -> str:
    """Ask the site for a page. Hosts are told apart by name, as every web server does."""
    port = (await site()).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {urlsplit(url).path} HTTP/1.0\r\nHost: {host_of(url)}\r\n\r\n".encode())
        answer = (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, page = answer.partition("\r\n\r\n")
    if " 200 " not in head:
        raise ConnectionError(f"{url}: {head.splitlines()[0]}")
    return page


class Site:
    """Pages `/<pages>/<n>` on every host. Each links to two deeper ones, to the top, and to the next host."""

    def __init__(self) -> None:
        self.port = 0
        self.busy: Counter[str] = Counter()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).decode()
        path, host = asked.split()[1], asked.split("Host: ")[1].split()[0]
        _, pages, n = path.split("/")
        self.busy[host] += 1
        crowd = self.busy[host] > AT_A_TIME
        await asyncio.sleep(0.005)
        self.busy[host] -= 1
        status = "503 Too many at a time" if crowd else "200 OK"
        writer.write(f"HTTP/1.0 {status}\r\n\r\n{self.page(host, int(pages), int(n))}".encode())
        writer.close()

    def page(self, host: str, pages: int, n: int) -> str:
        deeper = [f'<a href="{below}">' for below in (2 * n + 1, 2 * n + 2) if below < pages]
        beside = HOSTS[(HOSTS.index(host) + 1) % len(HOSTS)]
        return f'<a href="0"> <a href="http://{beside}/{pages}/{n}"> {" ".join(deeper)}'


@engine.resource
async def site() -> AsyncIterator[Site]:
    """One per process that crawls, on a port of its own."""
    made = Site()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    run = engine.run(visit.of(f"http://{HOSTS[0]}/{pages}/0"), name=f"crawl of {pages}", again=True, order="any")
    found = Counter(host_of(url) for url in run.results())
    for host, count in sorted(found.items()):
        print(f"{count:6} pages of {host}")
    print(f"{found.total()} pages, each fetched once; {run.begun.value if run.begun else ''} run")


if __name__ == "__main__":
    main()
