"""The offset behind a record or a batch that cannot be read: as near as possible, and always further on."""

from pylog.client.cluster import Cluster
from pylog.client.consumer.subscription import PartitionState
from pylog.config import ConsumerConfig
from pylog.errors import CorruptBatch, CorruptRecord, DeserializationError
from pylog.protocol.batch import split
from pylog.protocol.messages import Fetch, Fetched, FetchPart
from pylog.record import TopicPartition
from pylog.runtime.rounds import Rounds

PROBES_MAX = 10_000


Unreadable = CorruptBatch | CorruptRecord | DeserializationError


def past(
    error: Unreadable, state: PartitionState, key: TopicPartition, cluster: Cluster, config: ConsumerConfig
) -> Rounds[int]:
    """The first offset behind the position that can be read, where `error` says why it cannot.

    A record is one offset, and a batch names its end. Where even that is damaged, one offset after the other is tried,
    so that no readable record is left out; after many of them the next offset is the answer.
    """
    at = state.position
    assert at is not None, "there was something to read"
    if isinstance(error, DeserializationError):
        return at + 1
    if isinstance(error, CorruptBatch) and error.next_offset is not None and error.next_offset > at:
        return error.next_offset
    for offset in range(at + 1, at + PROBES_MAX):
        if (yield from _is_readable(key, offset, state, cluster, config)):
            return offset
    return at + PROBES_MAX


def _is_readable(
    key: TopicPartition, offset: int, state: PartitionState, cluster: Cluster, config: ConsumerConfig
) -> Rounds[bool]:
    wanted = FetchPart(*key, offset, 1, topic_id=state.topic_id)
    leader = yield from cluster.rounds.leader(key)
    answer: Fetched = yield from cluster.rounds.ask(Fetch([wanted], max_wait_ms=0, max_bytes=1), node=leader)
    (part,) = answer.parts
    if part.error is not None:
        return not isinstance(part.error, CorruptBatch | CorruptRecord)
    try:
        next(split(part.data, check_crc=config.check_crcs), None)
    except CorruptBatch:
        return False
    return True
