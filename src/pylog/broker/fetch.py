"""A Fetch part by part, for a node that owns the log and one that only reads. (Kafka: ReplicaManager.readFromLog.)"""

from collections.abc import Callable

from pylog.errors import PylogError
from pylog.protocol.messages import CONSUMER, Fetch, Fetched, FetchedPart, FetchPart


def read_parts(message: Fetch, read: Callable[[FetchPart, int], FetchedPart]) -> Fetched:
    """Read each part with `read(part, bytes left)`, until `max_bytes` are used up; errors are in the parts."""
    parts: list[FetchedPart] = []
    left = message.max_bytes
    for asked in message.parts:
        try:
            part = read(asked, left)
        except PylogError as error:
            part = FetchedPart(asked.topic, asked.partition, error)
        parts.append(part)
        left -= part.size
        if left <= 0:
            break
    return Fetched(parts)


def is_enough(message: Fetch, fetched: Fetched) -> bool:
    """Whether a Fetch is answered at once: with bytes enough, an error, or news for a follower."""
    follower = message.replica_id != CONSUMER
    wanted = 1 if follower else max(1, min(message.min_bytes, message.max_bytes))
    return fetched.size >= wanted or any(
        part.error is not None
        or part.diverging is not None
        or (follower and part.high_watermark > asked.high_watermark)
        for asked, part in zip(message.parts, fetched.parts, strict=False)
    )
