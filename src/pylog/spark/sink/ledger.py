"""The ledger of streams: which micro-batch of a query was committed last, and what was in it. It is what makes a replay
do nothing, and what tells a replay from another batch of the same number.

    topic `__pylog_spark_commits`, compacted, of 4 partitions     key: the id of the query
    value: {"version":2, "batch":7, "records":100, "checksum":5}   and where the checkpoint can be read
           {..., "plan":"<sha256>", "ends":["{...}"]}              how it was planned, and where it ended (`plan`)
           and where the output mode is complete
           {..., "topic":"t", "topic_id":"<uuid>", "starts":{"0":120}}   what of the topic stays

A record is written in the transaction of its batch. It never expires; a query that is over for good may be removed with
a record without a value.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pylog.errors import OutOfOrderSequence, RequestTimedOut, StorageError
from pylog.protocol.partitioner import partition_for_key
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.spark.sink.plan import BatchPlan
from pylog.spark.sink.reach import as_owner, offsets_of
from pylog.spark.stream_offsets import starting_offsets

if TYPE_CHECKING:
    from pylog.client.producer import Producer
    from pylog.config.typed import TopicOptions
    from pylog.handles.any_log import AnyLog

LEDGER_TOPIC: Final = "__pylog_spark_commits"
LEDGER_PARTITIONS: Final = 4
LEDGER_CONFIG: "Final[TopicOptions]" = {"cleanup.policy": "compact", "segment.bytes": 1 << 20}
_VERSION: Final = 2
_POLL_MS: Final = 100
_READ_MAX: Final = 10_000
"""How many records of the ledger are read before it is compacted: two of its segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The part of its topic that a batch in the output mode complete leaves: the records from `starts` on."""

    topic: str
    topic_id: UUID
    starts: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The last batch of a query that was committed."""

    batch: int
    records: int
    checksum: int
    """Of the rows (`content`)."""
    plan: BatchPlan | None = field(default=None)
    replaced: Replaced | None = field(default=None)

    def has(self, batch: "Entry") -> bool:
        """Whether this is that batch, run again: planned by the same file, or the same rows planned again."""
        if self.batch != batch.batch:
            return False
        if self.plan is not None and batch.plan is not None and self.plan.digest == batch.plan.digest:
            return True
        return (self.records, self.checksum) == (batch.records, batch.checksum)


class Ledger:
    """The ledger of one query. Made again for each commit, after the query's producer has fenced earlier ones."""

    def __init__(self, log: "AnyLog", query: str, patience_ms: int) -> None:
        """`patience_ms`: how long to wait for the commits of other queries that are in the way."""
        self._log = log
        self._query = query.encode()
        self._patience_ms = patience_ms
        log.create_topic(LEDGER_TOPIC, LEDGER_PARTITIONS, LEDGER_CONFIG, exist_ok=True)
        self._read = 0
        self._at = TopicPartition(LEDGER_TOPIC, partition_for_key(self._query, LEDGER_PARTITIONS))

    def read(self) -> Entry | None:
        """The query's entry; None where nothing of it was committed.

        Raises RequestTimedOut where another query's transaction stays open, StorageError for an entry that makes no
        sense.
        """
        found: bytes | None = None
        # Everything below it has to be settled: an entry of this query may lie behind the first record of a transaction
        # that is open. A consumer that reads what is committed comes no further than to that record.
        end = offsets_of(self._log, [self._at], "latest")[self._at]
        clock = SystemClock()
        deadline = clock.tick_ms() + self._patience_ms
        with self._log.consumer(isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            consumer.assign([self._at])
            while consumer.position(self._at) < end:
                if clock.tick_ms() > deadline:
                    raise RequestTimedOut(
                        f"{LEDGER_TOPIC}-{self._at.partition}: a transaction of another query stays open there, so "
                        "what this one has committed cannot be told; let the query run again when that has ended"
                    )
                for record in consumer.poll(timeout_ms=_POLL_MS):
                    self._read += 1
                    if record.key == self._query and record.offset < end:
                        found = record.value
        return None if found is None else _parsed(found)

    def refuse(self, batch: Entry, last: Entry) -> OutOfOrderSequence:
        """The error of a batch whose number the ledger has, and which is not the last one that was committed."""
        ends = [] if last.plan is None else [text for text in map(starting_offsets, last.plan.ends) if text is not None]
        where = f": startingOffsets={' and '.join(ends)}" if ends else ""
        return OutOfOrderSequence(
            f"batch {batch.batch} of query {self._query.decode()} is not written: the log has batch {last.batch} of it "
            f"already, of {last.records} records, and this batch, of {batch.records} records, is no replay of that. "
            "The checkpoint was restored from a backup, or has lost files, so Spark has planned other batches with "
            f"numbers that are taken. To go on, put the checkpoint back as it was after batch {last.batch}; or take a "
            f"new checkpoint and start behind what is written{where}"
        )

    def write(self, producer: "Producer", entry: Entry) -> None:
        """Send the entry, in the producer's transaction."""
        producer.send(self._at.topic, _text(entry), self._query, partition=self._at.partition)

    def compact(self) -> None:
        """Compact the ledger when it is long and this process owns the directory. No other process compacts it where
        the directory is only opened for commits.
        """
        if self._read > _READ_MAX and (owned := as_owner(self._log)) is not None:
            owned.clean(LEDGER_TOPIC)


def _text(entry: Entry) -> bytes:
    fields: dict[str, object] = {
        "version": _VERSION, "batch": entry.batch, "records": entry.records, "checksum": entry.checksum,
    }  # fmt: skip
    if entry.plan is not None:
        fields |= {"plan": entry.plan.digest, "ends": entry.plan.ends}
    if (replaced := entry.replaced) is not None:
        starts = {str(number): offset for number, offset in replaced.starts.items()}
        fields |= {"topic": replaced.topic, "topic_id": str(replaced.topic_id), "starts": starts}
    return json.dumps(fields, separators=(",", ":")).encode()


def _parsed(text: bytes) -> Entry:
    try:
        fields = json.loads(text)
        if fields["version"] != _VERSION:
            raise ValueError(f"version {fields['version']} is unknown")
        plan = replaced = None
        if "plan" in fields:
            plan = BatchPlan(digest=str(fields["plan"]), ends=tuple(map(str, fields["ends"])))
        if "topic" in fields:
            starts = {int(number): int(offset) for number, offset in fields["starts"].items()}
            replaced = Replaced(topic=str(fields["topic"]), topic_id=UUID(fields["topic_id"]), starts=starts)
        batch, records, checksum = int(fields["batch"]), int(fields["records"]), int(fields["checksum"])
        return Entry(batch=batch, records=records, checksum=checksum, plan=plan, replaced=replaced)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"{LEDGER_TOPIC}: an entry cannot be read ({error!r}): {text[:200]!r}. Another version of pylog may have "
            "written it"
        ) from error
