"""A Fetch part by part, for a node that owns the log and one that only reads. (Kafka: ReplicaManager.readFromLog.)"""

from collections.abc import Callable

from pylog.errors import PylogError
from pylog.protocol.messages import CONSUMER, Fetch, Fetched, FetchedPart, FetchPart
from pylog.protocol.messages.records import NOTHING


def read_parts(message: Fetch, read: Callable[[FetchPart, int], FetchedPart]) -> Fetched:
    """Read each part with `read(part, bytes left)`, until `max_bytes` are used up; errors are in the parts.

    A part gives its first batch however large that is, but only if none before it has any: what does not fit beside
    others waits for the next fetch (KIP-74).
    """
    parts: list[FetchedPart] = []
    left = message.max_bytes
    for asked in message.parts:
        try:
            part = read(asked, left)
        except PylogError as error:
            # A traceback holds frames, and what these refer to: a request may have a hundred thousand such parts.
            part = FetchedPart(asked.topic, asked.partition, error.with_traceback(None))
        if left < message.max_bytes and part.size > min(left, asked.max_bytes):
            _leave_out(part)
        parts.append(part)
        left -= part.size
        if left <= 0:
            break
    return Fetched(parts)


def _leave_out(part: FetchedPart) -> None:
    """Take the records out of a part."""
    if part.extent is not None:
        part.extent.close()
    part.data, part.extent, part.aborted = NOTHING, None, []


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
