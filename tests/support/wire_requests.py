"""Requests of a raw connection, one method each, for tests that say every number themselves.

A method takes what matters and gives the part of the answer that belongs to it, as a dict. `version` None is the
highest that the server serves; where a version names topics by id, the id is looked up.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from pylog.protocol.batch import encode, split
from pylog.record import ConsumerRecord, Record
from support.raw_client import Body, WireClient, error_name

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
GROUP, TRANSACTION = 0, 1
TIMEOUT_MS = 30_000
T0 = 1_700_000_000_000


def records(*values: bytes, timestamp: int = T0, **batch: Any) -> bytes:
    """One batch of records with these values; producer_id, producer_epoch, base_sequence, codec... as in `encode`."""
    return bytes(encode([Record(value, timestamp=timestamp) for value in values], now_ms=timestamp, **batch).data)


def decoded(data: bytes | None, topic: str, partition: int, first: int = 0) -> list[ConsumerRecord]:
    """The records of a fetch from offset `first` on, without markers."""
    batches = split(data or b"")
    return [one for batch in batches if not batch.is_control for one in batch.records(topic, partition, first)]


def error_of(answer: Body) -> str:
    """The name of the error of an answer or of a part of one."""
    return error_name(answer["errorCode"])


class Requests:
    def __init__(self, wire: WireClient) -> None:
        self.wire = wire

    def topic_id(self, topic: str) -> UUID:
        (found,) = self.metadata(topic)["topics"]
        identity: UUID = found["topicId"]
        return identity

    def metadata(self, *topics: str, create: bool = False) -> Body:
        asked = [{"name": topic} for topic in topics]
        return self.wire.ask("Metadata", {"topics": asked, "allowAutoTopicCreation": create})

    def _named(self, topic: str, is_by_id: bool, key: str = "name") -> Body:
        return {"topicId": self.topic_id(topic)} if is_by_id else {key: topic}

    def produce(
        self, topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1,
        transactional_id: str | None = None, version: int | None = None,
    ) -> Body:  # fmt: skip
        version = self.wire.highest("Produce") if version is None else version
        parts = [{"index": partition, "records": data}]
        named = self._named(topic, version >= 13)
        body = {"transactionalId": transactional_id, "acks": acks, "timeoutMs": TIMEOUT_MS}
        answer = self.wire.ask("Produce", {**body, "topicData": [{**named, "partitionData": parts}]}, version=version)
        part: Body = answer["responses"][0]["partitionResponses"][0]
        return part

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, isolation: int = READ_UNCOMMITTED,
        max_bytes: int = 1 << 20, wait_ms: int = 0, min_bytes: int = 0, version: int | None = None,
        leader_epoch: int = -1,
    ) -> Body:  # fmt: skip
        version = self.wire.highest("Fetch") if version is None else version
        part = {
            "partition": partition, "fetchOffset": offset, "partitionMaxBytes": max_bytes,
            "currentLeaderEpoch": leader_epoch,
        }  # fmt: skip
        named = self._named(topic, version >= 13, "topic")
        body = {"maxWaitMs": wait_ms, "minBytes": min_bytes, "maxBytes": max_bytes, "isolationLevel": isolation}
        answer = self.wire.ask("Fetch", {**body, "topics": [{**named, "partitions": [part]}]}, version=version)
        found: Body = answer["responses"][0]["partitions"][0]
        return found

    def read(self, topic: str, *, partition: int = 0, isolation: int = READ_UNCOMMITTED) -> list[ConsumerRecord]:
        """Every record that may be read now, from the start of the log; those of aborted transactions left out."""
        found: list[ConsumerRecord] = []
        offset = self.offset(topic, EARLIEST, partition=partition)
        end = self.offset(topic, LATEST, partition=partition, isolation=isolation)
        while offset < end:
            part = self.fetch(topic, offset, partition=partition, isolation=isolation)
            assert part["errorCode"] == 0, error_of(part)
            batches = list(split(part["records"] or b""))
            aborted = {(each["producerId"], each["firstOffset"]) for each in part["abortedTransactions"] or ()}
            found += _committed(batches, aborted, topic, partition, offset)
            offset = batches[-1].next_offset
        return found

    def offset(
        self, topic: str, timestamp: int, *, partition: int = 0, isolation: int = READ_UNCOMMITTED
    ) -> int:  # fmt: skip
        offset: int = self.list_offsets(topic, timestamp, partition=partition, isolation=isolation)["offset"]
        return offset

    def list_offsets(
        self, topic: str, timestamp: int, *, partition: int = 0, isolation: int = READ_UNCOMMITTED,
        version: int | None = None,
    ) -> Body:  # fmt: skip
        part = {"partitionIndex": partition, "timestamp": timestamp}
        body = {"replicaId": -1, "isolationLevel": isolation, "timeoutMs": TIMEOUT_MS}
        topics = [{"name": topic, "partitions": [part]}]
        answer = self.wire.ask("ListOffsets", {**body, "topics": topics}, version=version)
        found: Body = answer["topics"][0]["partitions"][0]
        return found

    def init_producer(
        self, transactional_id: str | None = None, *, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1,
        version: int | None = None,
    ) -> Body:  # fmt: skip
        body: Body = {"transactionalId": transactional_id, "transactionTimeoutMs": timeout_ms}
        if producer_id >= 0:
            body |= {"producerId": producer_id, "producerEpoch": epoch}
        return self.wire.ask("InitProducerId", body, version=version)

    def add_partitions(
        self, transactional_id: str, producer: Body, topic: str, partitions: Sequence[int] = (0,)
    ) -> str:
        """Add partitions to a transaction as a client does (version 3); gives the error of the first."""
        body = {
            "v3AndBelowTransactionalId": transactional_id, "v3AndBelowProducerId": producer["producerId"],
            "v3AndBelowProducerEpoch": producer["producerEpoch"],
            "v3AndBelowTopics": [{"name": topic, "partitions": list(partitions)}],
        }  # fmt: skip
        answer = self.wire.ask("AddPartitionsToTxn", body, version=3)
        return error_name(answer["resultsByTopicV3AndBelow"][0]["resultsByPartition"][0]["partitionErrorCode"])

    def add_offsets(self, transactional_id: str, producer: Body, group: str, *, version: int = 3) -> str:
        body = {"transactionalId": transactional_id, "groupId": group, **_identity(producer)}
        return error_of(self.wire.ask("AddOffsetsToTxn", body, version=version))

    def end(self, transactional_id: str, producer: Body, *, commit: bool, version: int = 4) -> Body:
        """End a transaction. Up to version 4 the epoch stays; from 5 on the answer has the next one (KIP-890)."""
        body = {"transactionalId": transactional_id, "committed": commit, **_identity(producer)}
        return self.wire.ask("EndTxn", body, version=version)

    def commit_offsets_in_transaction(
        self, transactional_id: str, producer: Body, group: str, topic: str, offset: int, *, version: int = 4
    ) -> str:
        parts = [{"partitionIndex": 0, "committedOffset": offset, "committedMetadata": ""}]
        body = {
            "transactionalId": transactional_id, "groupId": group, **_identity(producer),
            "topics": [{"name": topic, "partitions": parts}],
        }  # fmt: skip
        answer = self.wire.ask("TxnOffsetCommit", body, version=version)
        return error_of(answer["topics"][0]["partitions"][0])

    def commit_offset(
        self, group: str, topic: str, offset: int, *, partition: int = 0, metadata: str | None = "",
        generation: int = -1, member_id: str = "", version: int | None = None,
    ) -> str:  # fmt: skip
        version = self.wire.highest("OffsetCommit") if version is None else version
        parts = [{"partitionIndex": partition, "committedOffset": offset, "committedMetadata": metadata}]
        body = {"groupId": group, "generationIdOrMemberEpoch": generation, "memberId": member_id}
        topics = [{**self._named(topic, version >= 10), "partitions": parts}]
        answer = self.wire.ask("OffsetCommit", {**body, "topics": topics}, version=version)
        return error_of(answer["topics"][0]["partitions"][0])

    def fetch_offset(
        self, group: str, topic: str, *, partition: int = 0, stable: bool = False, version: int | None = None
    ) -> Body:
        """The committed offset of a partition (versions from 8 on)."""
        version = self.wire.highest("OffsetFetch") if version is None else version
        topics = [{**self._named(topic, version >= 10), "partitionIndexes": [partition]}]
        body = {"groups": [{"groupId": group, "topics": topics}], "requireStable": stable}
        (answer,) = self.wire.ask("OffsetFetch", body, version=version)["groups"]
        assert answer["errorCode"] == 0, error_of(answer)
        found: Body = answer["topics"][0]["partitions"][0]
        return found


def _identity(producer: Body) -> Body:
    return {"producerId": producer["producerId"], "producerEpoch": producer["producerEpoch"]}


def _committed(
    batches: Iterable[Any], aborted: set[tuple[int, int]], topic: str, partition: int, first: int
) -> list[ConsumerRecord]:
    """The records of batches without those of aborted transactions, as a consumer with read_committed takes them."""
    found: list[ConsumerRecord] = []
    open_aborts: set[int] = set()
    for batch in batches:
        starts = {key for key in aborted if key[1] <= batch.base_offset}
        aborted -= starts
        open_aborts |= {producer_id for producer_id, _ in starts}
        if batch.is_control:
            open_aborts.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_aborts):
            found += batch.records(topic, partition, first)
    return found
