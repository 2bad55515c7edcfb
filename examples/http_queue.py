"""A server of one's own on top of pylog: a durable queue by HTTP, in a page of code.

    POST /queues/NAME                body = one message             -> 201, its place
    GET  /queues/NAME?group=G&max=N  -> 200, the next messages that group G has not taken, as JSON; they are taken then

Messages survive kills and power cuts: a POST is answered when its message is on the disk. A queue is a topic, a group
of readers has its place in it as committed offsets. Every request has a thread, and all of them share one sync.

    python -m examples.http_queue DIRECTORY [PORT]
"""

import json
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs, urlsplit

import pylog
from pylog import Consumer

MESSAGE_BYTES_MAX = 1 << 20
MESSAGES_MAX = 100
Asked = dict[str, list[str]]
"""What stands behind the question mark of a path."""


class Queue:
    """The log behind the server, and a consumer for each group."""

    def __init__(self, log: pylog.Log) -> None:
        self.log = log
        self.producer = log.producer(linger_ms=0)
        self._consumers: dict[tuple[str, str], tuple[Consumer, Lock]] = {}
        self._lock = Lock()

    def put(self, name: str, message: bytes) -> dict[str, int]:
        """Append a message, and wait until it is durable."""
        self.log.create_topic(name, exist_ok=True)
        done = self.producer.send(name, message).result()
        return {"partition": done.partition, "offset": done.offset}

    def take(self, name: str, group: str, most: int) -> list[str]:
        """The next messages of a group, which are committed before they are given out: at most once."""
        self.log.topic(name)
        consumer, lock = self._consumer(name, group)
        with lock:
            records = consumer.poll(timeout_ms=200, max_records=most)
            consumer.commit()
        return [(record.value or b"").decode(errors="replace") for record in records]

    def _consumer(self, name: str, group: str) -> tuple[Consumer, Lock]:
        with self._lock:
            if (name, group) not in self._consumers:
                made = self.log.consumer(name, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
                self._consumers[name, group] = made, Lock()
            return self._consumers[name, group]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    queue: Queue

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > MESSAGE_BYTES_MAX:
            self.close_connection = True
            self._answer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                {"error": f"a message has up to {MESSAGE_BYTES_MAX} bytes, and a length"},
            )
            return
        message = self.rfile.read(int(size))
        self._do(HTTPStatus.CREATED, lambda name, asked: self.queue.put(name, message))

    def do_GET(self) -> None:
        self._do(HTTPStatus.OK, self._take)

    def _take(self, name: str, asked: Asked) -> list[str]:
        most = int(asked.get("max", ["10"])[0])
        return self.queue.take(name, asked.get("group", ["default"])[0], min(most, MESSAGES_MAX))

    def _do(self, status: HTTPStatus, call: Callable[[str, Asked], object]) -> None:
        where = urlsplit(self.path)
        folder, _, name = where.path.removeprefix("/").partition("/")
        if folder != "queues" or not name:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there are /queues/NAME alone"})
            return
        try:
            self._answer(status, call(name, parse_qs(where.query)))
        except (pylog.PylogError, ValueError) as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _answer(self, status: HTTPStatus, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def server(log: pylog.Log, port: int = 0) -> ThreadingHTTPServer:
    """A server of a log, on the loopback; `serve_forever` runs it."""
    handler = type("QueueHandler", (Handler,), {"queue": Queue(log)})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


def main(path: str, port: str = "8080") -> None:
    """Serve until Ctrl-C."""
    with pylog.open(path) as log, server(log, int(port)) as serving:
        print(f"curl -d hello http://127.0.0.1:{serving.server_port}/queues/jobs")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
