"""The changes of `service.py`, live in the browser: `uvicorn --app-dir examples service_feed:app --port 8002`.

It is a process of its own, which reads the same store and works on nothing. /feed is a stream of server-sent events and
needs nothing but uvicorn; /live is a web socket, for which uvicorn needs `pip install websockets`. Add
`--timeout-graceful-shutdown 5`, so that a stop does not wait for browsers that listen.

    curl -N "localhost:8002/feed?since=0"       # all changes that are kept, and those to come
    curl -N "localhost:8002/feed?since=17"      # those after number 17
    open http://localhost:8002                  # in a browser: the page below
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

from service import Change, changes
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ramify import Published

PAGE = """<!doctype html><title>Changes</title><ul id=list></ul><script>
new EventSource("/feed").onmessage = (message) => {
  const line = document.createElement("li"); line.textContent = message.data; list.prepend(line);
};
</script>"""


async def page(request: Request) -> HTMLResponse:
    return HTMLResponse(PAGE)


async def feed(request: Request) -> StreamingResponse:
    """Server-sent events: a browser that lost the process asks again by itself, after the last number it has seen."""
    return StreamingResponse(events(place(request)), media_type="text/event-stream")


async def events(since: int) -> AsyncIterator[str]:
    async for change in changes.follow(since=since):
        yield f"id: {change.number}\ndata: {told(change)}\n\n"


async def live(socket: WebSocket) -> None:
    """A web socket: one text for each change."""
    await socket.accept()
    async with asyncio.TaskGroup() as both:
        sending = both.create_task(send(socket))
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass  # until the browser leaves
        sending.cancel()


async def send(socket: WebSocket) -> None:
    with suppress(WebSocketDisconnect):
        async for change in changes.follow(since=place(socket)):
            await socket.send_text(told(change))


def place(asked: HTTPConnection) -> int:
    since = asked.headers.get("last-event-id") or asked.query_params.get("since", "0")
    return int(since) if since.isdecimal() else 0


def told(change: Published[Change]) -> str:
    return json.dumps({"number": change.number, "order": change.key, "item": change.value.item})


app = Starlette(routes=[Route("/", page), Route("/feed", feed), WebSocketRoute("/live", live)])
