"""A durable work queue: jobs that fail are tried again, and at last put aside, and none is lost or done twice over.

    jobs ──> worker ──> done            the result, as a record
               ├──────> jobs            it failed: once more, with one attempt more in its header
               └──────> jobs.dead       it failed too often: look at it by hand

Each job ends in one transaction: what becomes of it and "the job was taken" (the committed offset) are one fact. A
worker that is killed in between leaves nothing behind: the next worker does that job again. Where a job may be done
twice, `pylog.workers` takes less, and a slow job holds up no other.

    python -m examples.work_queue [DIRECTORY]
"""

import sys
from collections.abc import Callable

import pylog

ATTEMPTS = 3


def work(log: pylog.Log, do: Callable[[bytes], bytes], *, name: str = "worker", idle_ms: int = 500) -> int:
    """Do jobs until none comes for `idle_ms`; gives how many ended. `name` is the worker's own, and stays its own."""
    ended = 0
    with (
        log.consumer("jobs", group_id="workers", auto_offset_reset="earliest", enable_auto_commit=False,
                     isolation_level="read_committed") as jobs,
        log.producer(transactional_id=name) as producer,
    ):  # fmt: skip
        while records := jobs.poll(timeout_ms=idle_ms, max_records=1):
            job = records[0]
            with producer.transaction():
                finish(producer, job, do)
                after = {pylog.TopicPartition(job.topic, job.partition): job.offset + 1}
                producer.send_offsets(after, jobs.group_metadata())
            ended += 1
    return ended


def finish(producer: pylog.Producer, job: pylog.ConsumerRecord, do: Callable[[bytes], bytes]) -> None:
    """Do a job, and say what became of it."""
    attempt = 1 + max((int(header.value or b"0") for header in job.headers if header.key == "attempts"), default=0)
    try:
        producer.send("done", do(job.value or b""), job.key)
    except Exception as error:  # noqa: BLE001 - whatever a job does wrong is its own affair
        target = "jobs" if attempt < ATTEMPTS else "jobs.dead"
        headers = [("attempts", b"%d" % attempt), ("error", repr(error).encode())]
        producer.send(target, job.value, job.key, headers=headers)


def main(path: str = ":memory:") -> None:
    """Twenty jobs, of which one fails once and one always does."""
    fails = {b"7": 1, b"13": ATTEMPTS}

    def square(job: bytes) -> bytes:
        if fails.get(job, 0) > 0:
            fails[job] -= 1
            raise ValueError(f"job {job.decode()} went wrong")
        return b"%d" % int(job) ** 2

    with pylog.open(path) as log:
        for topic in ("jobs", "done", "jobs.dead"):
            log.create_topic(topic, exist_ok=True)
        with log.producer() as producer:
            for number in range(20):
                producer.send("jobs", b"%d" % number, key=b"job-%d" % number)
        print(work(log, square), "jobs ended")
        for topic in ("done", "jobs.dead"):
            records = list(log.topic(topic)[0].records(isolation_level="read_committed"))
            print(topic, len(records), [record.value for record in records][-3:])


if __name__ == "__main__":
    main(*sys.argv[1:2])
