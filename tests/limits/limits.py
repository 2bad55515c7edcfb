"""The limits of one run: what a seed draws, each at its least or near it."""

import os
import random
import resource
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("files", "descriptors", "segments", "caches", "buffers", "memory", "disk", "all")
FLUSHES = ("none", "interval", "sync")
MIB = 1 << 20
STACK_BYTES, SPARE_BYTES = 1024 * MIB, 900 * MIB
CANARIES = 6
"""How many numbers the canaries hold, beside one of their own."""


@dataclass
class Limits:
    """What a run has, by the seed."""

    seed: int
    kind: str
    pure: bool
    flush: Any
    node: dict[str, Any] = field(default_factory=dict)
    topic: dict[str, Any] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)
    descriptors: int | None = None
    """How many more than now the process may open."""
    threads: int | None = None
    """How many it may begin that are not the run's own: their stacks fill its address space."""
    disk_bytes: int | None = None
    """How much its file system has."""

    @property
    def may_refuse(self) -> bool:
        """Whether the system itself refuses calls: then a call may fail with a typed error."""
        return any(limit is not None for limit in (self.descriptors, self.threads, self.disk_bytes))


def draw(seed: int) -> Limits:
    """The limits of a run: kinds take turns, then kernels, then what else there is."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    limits = Limits(seed, kind, seed // len(KINDS) % 2 == 1, FLUSHES[seed // (2 * len(KINDS)) % len(FLUSHES)])
    limits.node = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
    limits.topic = {"file.delete.delay.ms": 0, "segment.ms": chance.choice([50, 300, 2000])}
    for wanted in KINDS[:-1]:
        # A system that refuses everything at once answers nothing.
        if kind == wanted or (kind == "all" and wanted in ("files", "segments", "caches", "buffers")):
            _DRAWS[wanted](limits, chance)
    if limits.may_refuse:
        # What is refused may be tried again until the time of its call is up.
        limits.producer |= {"request_timeout_ms": 2000, "delivery_timeout_ms": 4000, "max_block_ms": 4000}
    return limits


def _files(limits: Limits, chance: random.Random) -> None:
    limits.node["max.open.files"] = chance.choice([1, 2, 3, 5, 8, 16])


def _descriptors(limits: Limits, chance: random.Random) -> None:
    # Fewer than that, and not even the log can be opened.
    limits.descriptors = chance.choice([24, 32, 40, 60]) + CANARIES + 1
    limits.node["max.open.files"] = chance.choice([4, 256])


def _segments(limits: Limits, chance: random.Random) -> None:
    limits.topic |= {
        "segment.bytes": MIB, "segment.ms": chance.choice([1, 2, 10]), "segment.jitter.ms": chance.choice([0, 1]),
        "segment.index.bytes": chance.choice([12, 24, 36, 120]), "index.interval.bytes": chance.choice([0, 1]),
        "preallocate": chance.random() < 0.3, "flush.messages": chance.choice([1, 3, 2**63 - 1]),
    }  # fmt: skip


def _caches(limits: Limits, chance: random.Random) -> None:
    limits.node |= {
        "log.cleaner.dedupe.buffer.size": chance.choice([48, 72, 480]),
        "metadata.log.max.record.bytes.between.snapshots": 1,
        "producer.id.expiration.check.interval.ms": 1,
        "log.flush.offset.checkpoint.interval.ms": chance.choice([0, 1, 10]),
        "log.retention.check.interval.ms": chance.choice([1, 20]),
        "log.cleaner.backoff.ms": chance.choice([0, 1, 20]),
        "flush.interval.ms": chance.choice([1, 5]),
    }


def _buffers(limits: Limits, chance: random.Random) -> None:
    limits.producer |= {
        "batch_size": chance.choice([0, 1, 100, 700]), "buffer_memory": chance.choice([1200, 3000, 20_000]),
        "linger_ms": chance.choice([0, 1]), "max_in_flight_requests_per_connection": chance.choice([1, 5]),
    }  # fmt: skip
    limits.consumer |= {
        "max_poll_records": 1, "fetch_max_bytes": chance.choice([0, 1]), "max_partition_fetch_bytes": 1,
        "fetch_max_wait_ms": chance.choice([0, 1]),
    }  # fmt: skip


def _memory(limits: Limits, chance: random.Random) -> None:
    # Fewer than that, and not even the log can be opened.
    limits.threads = chance.choice([2, 4, 8, 16])


def _disk(limits: Limits, chance: random.Random) -> None:
    limits.disk_bytes = chance.choice([1, 2, 4]) * MIB
    limits.topic |= {"retention.bytes": chance.choice([-1, 100_000])}


_DRAWS = {
    "files": _files, "descriptors": _descriptors, "segments": _segments, "caches": _caches, "buffers": _buffers,
    "memory": _memory, "disk": _disk,
}  # fmt: skip


def lift_disk(limits: Limits, path: str) -> None:
    """Give the small file system of a run room, so that what lies there can be opened and judged."""
    if limits.disk_bytes is not None:
        subprocess.run(["mount", "-o", f"remount,size={256 * MIB}", path], check=True)


# --- of the system ----------------------------------------------------------------------------------------------------


def can_mount() -> bool:
    """Whether this user may mount a small file system."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """Hold this process to the limits of the system. The canaries have their numbers by then."""
    with (
        _limited(resource.RLIMIT_NOFILE, _highest() + 1, limits.descriptors),
        _few_threads(limits.threads),
    ):
        yield


@contextmanager
def _few_threads(count: int | None) -> Iterator[None]:
    """Let so many stacks fit into the address space, and leave room for objects: where an interpreter has none for a
    call, no program can keep a promise.
    """
    before = threading.stack_size(STACK_BYTES if count is not None else 0)
    try:
        with _limited(resource.RLIMIT_AS, _mapped() + SPARE_BYTES, None if count is None else count * STACK_BYTES):
            yield
    finally:
        threading.stack_size(before)


@contextmanager
def usual_stacks() -> Iterator[None]:
    """Begin threads of the run's own, which the limit does not count."""
    before = threading.stack_size(0)
    try:
        yield
    finally:
        threading.stack_size(before)


@contextmanager
def _limited(which: int, now: int, more: int | None) -> Iterator[None]:
    before = resource.getrlimit(which)
    if more is not None:
        resource.setrlimit(which, (now + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


def _highest() -> int:
    return max(map(int, os.listdir("/dev/fd")))


def _mapped() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
