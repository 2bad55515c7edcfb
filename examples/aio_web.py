"""A web application in an event loop on top of pylog: it appends what is posted, and streams a topic as it grows.

    POST /topics/NAME                body = one message  -> 201, its place, when it is on the disk
    GET  /topics/NAME?from=OFFSET    server-sent events: the messages from there on (or from now on), as they come

Each event has its offset as its id, so a browser that has lost the connection goes on where it was: an `EventSource`
sends `Last-Event-ID` by itself. A reader costs no thread. Needs `starlette` and `uvicorn`.

    python -m examples.aio_web DIRECTORY [PORT]
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import pylog
from pylog.errors import InvalidTopic, UnknownTopicOrPartition


def application(path: str) -> Starlette:
    """The application over a log directory, which is open for as long as it runs."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pylog.aio.open(path) as log, log.producer(linger_ms=0) as producer:
            app.state.log, app.state.producer = log, producer
            yield

    routes = [Route("/topics/{name}", post, methods=["POST"]), Route("/topics/{name}", follow)]
    return Starlette(routes=routes, lifespan=lifespan)


async def post(request: Request) -> Response:
    """Append the body of a request."""
    name, state = request.path_params["name"], request.app.state
    try:
        await state.log.create_topic(name, exist_ok=True)
    except InvalidTopic as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    done = await state.producer.send_and_wait(name, await request.body())
    return JSONResponse({"partition": done.partition, "offset": done.offset}, status_code=201)


async def follow(request: Request) -> Response:
    """Stream the first partition of a topic."""
    name, log = request.path_params["name"], request.app.state.log
    try:
        view = await log.topic(name)
        last = request.headers.get("last-event-id")
        begin = int(last) + 1 if last is not None else int(request.query_params.get("from", view[0].high_watermark))
    except (UnknownTopicOrPartition, ValueError) as error:
        return JSONResponse({"error": str(error)}, status_code=404)
    return StreamingResponse(events(log, pylog.TopicPartition(name, 0), begin), media_type="text/event-stream")


async def events(
    log: pylog.aio.Log[pylog.TopicView], partition: pylog.TopicPartition, begin: int
) -> AsyncIterator[bytes]:
    """The records of a partition as server-sent events. A client that goes away cancels this, which closes it."""
    async with log.consumer(auto_offset_reset="earliest") as consumer:
        await consumer.assign([partition])
        consumer.seek(partition, begin)
        async for record in consumer:
            lines = (record.value or b"").split(b"\n")
            yield b"id: %d\n" % record.offset + b"".join(b"data: %s\n" % line for line in lines) + b"\n"


def main() -> None:
    directory, *port = sys.argv[1:]
    uvicorn.run(application(directory), host="127.0.0.1", port=int(port[0]) if port else 8000)


if __name__ == "__main__":
    main()
