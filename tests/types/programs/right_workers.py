"""Workers, whose deserializers give the types of their jobs."""

from typing import Any

import pylog
from pylog.workers import Reject, Workers


def plain(record: pylog.ShareRecord) -> None:
    if record.value is None:
        raise Reject("a job has a value")
    print(record.value.decode(), record.delivery_count)


def counted(record: pylog.ShareRecord[bytes, int]) -> int:
    return 1 + (record.value or 0)


def work(log: pylog.Log, there: pylog.ConnectedLog) -> None:
    config = {"share.delivery.count.limit": 3}
    with Workers(log, "jobs", plain, group_id="g", threads=8, dead_letter="jobs.dead", group_config=config) as workers:
        workers.run()
    Workers(there, ["jobs", "more"], counted, group_id="g", value_deserializer=int, timeout_ms=1000).stop()


def done(workers: Workers) -> dict[str, Any]:
    return {"done": workers.done, "retried": workers.retried, "dead": workers.dead}
