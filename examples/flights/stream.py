"""Step 7: Spark streams the flights while they are appended, is killed in the middle, and comes to the same windows.

The job is a process of its own (`stream_job`). It reads the files of the log, and writes through the process that owns
the directory, which is this one. Its windows are records of a topic: what a reader has of them is one batch, whole.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pylog

from .append import PRODUCER, TOPIC_CONFIG
from .data import HEADERS, LIVE_TOPIC, PARTITIONS, WINDOWS_TOPIC, Flight, Source, read_flights
from .report import Advance, Report, expect
from .spark import Daily, agree

PIECES = 8
LOOK_SECONDS = 0.2
STALLED_SECONDS = 180.0
"""So long without a new window, and the step has failed."""


def stream_flights(report: Report, log: pylog.Log, source: Source, folder: str, days: list[Daily]) -> None:
    """Append, stream, kill, go on, and compare with what the batch has computed."""
    report.step("Stream into Spark, and kill it")
    report.say(
        f"The flights are appended once more, to topic {LIVE_TOPIC!r}, piece by piece. A Spark process reads the topic "
        f"as a stream and keeps the windows in topic {WINDOWS_TOPIC!r}, exactly once. In the middle we kill it with "
        "SIGKILL and start it again: it goes on from its checkpoint."
    )
    log.create_topic(LIVE_TOPIC, partitions=PARTITIONS, config=TOPIC_CONFIG)
    log.create_topic(WINDOWS_TOPIC)
    began = time.perf_counter()
    batches = _stream(report, log, source, folder)
    report.figure(
        "streamed", f"{time.perf_counter() - began:.1f} s, with both starts of Spark; {batches} batches were seen"
    )
    windows = _windows(log)
    expect(len(windows) == len(days), f"the stream has {len(windows):,} windows, the batch {len(days):,}")
    for day in days:
        streamed = windows[f"{day.day} {day.origin}"]
        expect(agree(streamed, day), f"{day.origin} on {day.day}: the stream says {streamed}, the batch {day}")
    report.proved(f"the stream, killed once, has the same {len(windows):,} windows as the batch")


def _stream(report: Report, log: pylog.Log, source: Source, folder: str) -> int:
    """Run the job over all pieces; gives how often its windows were seen to change."""
    flights, total = read_flights(source), len(source.lines)
    piece = total // PIECES + 1
    seen, batches = 0, 0
    with report.progress("flights in the windows", total) as advance, log.producer(**PRODUCER) as producer:
        _append(producer, itertools.islice(flights, piece))
        for share in (total // 2, total):
            with _job(log.path, folder) as job:
                changed_at = time.monotonic()
                while seen < share:
                    now = _look(log, seen, advance)
                    if now != seen:
                        # The next piece comes while the stream is at this one, so that it is killed in a batch.
                        _append(producer, itertools.islice(flights, piece))
                        seen, batches, changed_at = now, batches + 1, time.monotonic()
                    expect(job.poll() is None, f"Spark has ended: see {_words(folder)}")
                    stalled = time.monotonic() - changed_at > STALLED_SECONDS
                    expect(not stalled, f"Spark shows no new window: see {_words(folder)}")
            expect(share == total or seen < total, "Spark was through before it was killed")
    return batches


def _append(producer: pylog.Producer, flights: Iterator[Flight]) -> None:
    for value, key, timestamp_ms in flights:
        producer.send(LIVE_TOPIC, value, key, timestamp_ms=timestamp_ms, headers=HEADERS)
    producer.flush()


def _look(log: pylog.Log, seen: int, advance: Advance) -> int:
    """How many flights are in the windows now."""
    time.sleep(LOOK_SECONDS)
    counted = sum(window.flights for window in _windows(log).values())
    advance(counted - seen)
    return counted


def _windows(log: pylog.Log) -> dict[str, Daily]:
    """The windows as they are now, by their keys; the last one of a key counts."""
    found = {}
    with log.consumer(isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partition = pylog.TopicPartition(WINDOWS_TOPIC, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        while records := consumer.poll(0, 10_000):
            for record in records:
                window = json.loads(record.value or b"null")
                found[(record.key or b"").decode()] = Daily(
                    window["day"], window["origin"], window["flights"], window["departed"], window.get("mean_delay")
                )
    return found


@contextmanager
def _job(path: str, folder: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The job, which is killed with all that it has started."""
    os.makedirs(folder, exist_ok=True)
    with open(_words(folder), "ab") as words:
        command = [sys.executable, "-m", f"{__package__}.stream_job", os.path.abspath(path), folder]
        job = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True)
    try:
        yield job
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def _words(folder: str) -> str:
    return os.path.join(folder, "spark.txt")
