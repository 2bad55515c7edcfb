"""A web application: POST /clicks/USER puts a click into the log, and GET / says how many there are.

    gunicorn --workers 4 examples.shared.web:app
    curl -d shoes http://127.0.0.1:8000/clicks/ann

Each worker opens the log when it is asked first, which is after gunicorn has forked it. A click that was answered is in
the log: whichever worker owns it may be killed.
"""

import os
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pylog

TOPIC = "clicks"


@cache
def clicks() -> tuple[pylog.Log, pylog.Producer]:
    """The log of this process, and its producer."""
    log = pylog.open(os.environ.get("SHARED_LOG", "shared-log"))
    log.create_topic(TOPIC, 3, exist_ok=True)
    return log, log.producer(linger_ms=0)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request (WSGI)."""
    log, producer = clicks()
    if environ["REQUEST_METHOD"] == "POST":
        user = environ["PATH_INFO"].rpartition("/")[2]
        click = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        told = producer.send(TOPIC, click, user.encode()).result()
        answer = f"worker {os.getpid()} put it at {told.partition}:{told.offset}\n"
    else:
        count = sum(part.high_watermark for part in log.topic(TOPIC))
        answer = f"{count} clicks\n"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
    return [answer.encode()]
