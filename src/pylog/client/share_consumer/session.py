"""A share session with one node, as a machine: its epoch, its partitions, and the requests in it.

    epoch 0: begins, with all partitions  ->  1, 2...: what has changed, and acknowledgements  ->  -1: ends

One request at a time: each has the next epoch. The last one may go out behind a fetch that waits for records. After an
error of the session the next request begins a new one; what was acquired stays with the member until its lock ends, or
the node has seen that the connection is gone. (Kafka: ShareSessionHandler)
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from pylog.client.share_consumer.acknowledgements import Types, batches
from pylog.config.share_consumer import RECORD_LIMIT, ShareConsumerConfig
from pylog.errors import (
    InvalidShareSessionEpoch,
    NetworkError,
    ProtocolError,
    PylogError,
    RequestTimedOut,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from pylog.protocol.messages.share import (
    FINAL_EPOCH,
    NEW_SESSION,
    ShareAcknowledgeRequest,
    SharedPartition,
    ShareFetchRequest,
)

ENDED = (ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached)


class LeaderSession:
    """One session."""

    def __init__(self, config: ShareConsumerConfig, member_id: str) -> None:
        self._config = config
        self._member_id = member_id
        self.epoch = NEW_SESSION
        self.partitions: AbstractSet[SharedPartition] = frozenset()
        self._under_way = 0
        self.is_polling = False
        """True while a fetch is the one request that is not answered."""
        self.retry_ms = 0
        """The tick before which nothing is fetched, after an error."""

    @property
    def is_busy(self) -> bool:
        """True while a request in it is not answered."""
        return self._under_way > 0

    @property
    def may_end(self) -> bool:
        """True if its last request may go out: a fetch is under way, or nothing is."""
        return self.is_polling or not (self.is_busy or self.is_new)

    @property
    def is_new(self) -> bool:
        """True if the node does not know it."""
        return self.epoch == NEW_SESSION

    def fetch(
        self, wanted: AbstractSet[SharedPartition], acks: Mapping[SharedPartition, Types], max_wait_ms: int
    ) -> ShareFetchRequest:
        """The request for records of these partitions, with acknowledgements, which a new session cannot have."""
        config, topic = self._config, ShareFetchRequest.FetchTopic
        known, self.partitions = self.partitions, wanted
        added, gone = (wanted - known, known - wanted) if wanted is not known else ((), ())
        topics: dict[int, ShareFetchRequest.FetchTopic] = {}
        for one in dict.fromkeys((*added, *acks)):
            said = batches(acks[one]) if one in acks else []
            part = topic.FetchPartition(partition_index=one.partition, acknowledgement_batches=said)
            if one.topic in topics:
                topics[one.topic].partitions.append(part)
            else:
                topics[one.topic] = topic(topic_id=one.topic_id, partitions=[part])
        self._under_way, self.is_polling = 1, True
        return ShareFetchRequest(
            group_id=config.group_id, member_id=self._member_id, share_session_epoch=self.epoch,
            max_wait_ms=max_wait_ms, min_bytes=config.fetch_min_bytes, max_bytes=config.fetch_max_bytes,
            max_records=config.max_poll_records, batch_size=config.max_poll_records,
            share_acquire_mode=int(config.share_acquire_mode == RECORD_LIMIT), topics=[*topics.values()],
            forgotten_topics_data=_forgotten(gone) if gone else [],
        )  # fmt: skip

    def acknowledge(
        self, acks: Mapping[SharedPartition, Types], *, is_final: bool = False, renews: bool = False
    ) -> ShareAcknowledgeRequest:
        """The request that acknowledges, or ends the session."""
        topic = ShareAcknowledgeRequest.AcknowledgeTopic
        topics = {one.topic: topic(topic_id=one.topic_id, partitions=[]) for one in acks}
        for one, types in acks.items():
            part = topic.AcknowledgePartition(partition_index=one.partition, acknowledgement_batches=batches(types))
            topics[one.topic].partitions.append(part)
        self._under_way, self.is_polling = self._under_way + 1, False
        if is_final:
            self.epoch = FINAL_EPOCH
        return ShareAcknowledgeRequest(
            group_id=self._config.group_id, member_id=self._member_id, is_renew_ack=renews,
            share_session_epoch=self.epoch, topics=[*topics.values()],
        )  # fmt: skip

    def answered(self, error: PylogError | None) -> None:
        """Note the answer to a request, or the error in its place."""
        self._under_way -= 1
        self.is_polling = False
        is_ending = self.epoch == FINAL_EPOCH
        if not is_ending and (error is None or _goes_on(error)):
            self.epoch = self.epoch % 0x7FFFFFFF + 1
        elif not self._under_way:
            self.epoch = NEW_SESSION
            self.partitions = frozenset()


def _goes_on(error: PylogError) -> bool:
    """Whether a node has answered in the session: it has counted the request."""
    return isinstance(error, ProtocolError) and not isinstance(error, (*ENDED, NetworkError, RequestTimedOut))


def _forgotten(parts: Iterable[SharedPartition]) -> list[ShareFetchRequest.ForgottenTopic]:
    found: dict[UUID, list[int]] = {}
    for one in parts:
        found.setdefault(one.topic_id, []).append(one.partition)
    made = ShareFetchRequest.ForgottenTopic
    return [made(topic_id=topic_id, partitions=numbers) for topic_id, numbers in found.items()]
