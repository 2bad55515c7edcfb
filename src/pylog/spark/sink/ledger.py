"""The ledger of streams: which micro-batch of a query was committed last. It is what makes a replay do nothing.

    topic `__pylog_spark_commits`, compacted, of 4 partitions     key: the id of the query
    value: {"version":1, "batch":7, "records":100}                 and where the output mode is complete
           {..., "topic":"t", "topic_id":"<uuid>", "starts":{"0":120}}   what of the topic stays

A record is written in the transaction of its batch. It never expires; a query that is over for good may be removed with
a record without a value.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pylog.errors import RequestTimedOut, StorageError
from pylog.protocol.partitioner import partition_for_key
from pylog.record import TopicPartition
from pylog.runtime.clock import SystemClock
from pylog.spark.sink.reach import offsets_of

if TYPE_CHECKING:
    from pylog.client.producer import Producer
    from pylog.client_half import ClientHalf
    from pylog.config.typed import TopicOptions

LEDGER_TOPIC: Final = "__pylog_spark_commits"
LEDGER_PARTITIONS: Final = 4
LEDGER_CONFIG: "Final[TopicOptions]" = {"cleanup.policy": "compact", "segment.bytes": 1 << 20}
_POLL_MS: Final = 100
_READ_MAX: Final = 10_000
"""How many records of the ledger are read before it is compacted: two of its segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """What a batch in the output mode complete leaves of its topic: the records from `starts` on."""

    topic: str
    topic_id: UUID
    starts: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The last batch of a query that was committed."""

    batch: int
    records: int
    replaced: Replaced | None = field(default=None)


class Ledger:
    """The ledger of one query. Made anew for each commit, after the query's producer has fenced earlier ones."""

    def __init__(self, log: "ClientHalf[Any]", query: str, patience_ms: int) -> None:
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

    def write(self, producer: "Producer", entry: Entry) -> None:
        """Send the entry, in the producer's transaction."""
        producer.send(self._at.topic, _text(entry), self._query, partition=self._at.partition)

    def compact(self) -> None:
        """Compact the ledger when it is long and this process owns the directory. No other process compacts it where
        the directory is only opened for commits.
        """
        from pylog.log import Log

        if self._read > _READ_MAX and isinstance(self._log, Log) and self._log.mode == "own":
            self._log.clean(LEDGER_TOPIC)


def _text(entry: Entry) -> bytes:
    fields: dict[str, object] = {"version": 1, "batch": entry.batch, "records": entry.records}
    if (replaced := entry.replaced) is not None:
        starts = {str(number): offset for number, offset in replaced.starts.items()}
        fields |= {"topic": replaced.topic, "topic_id": str(replaced.topic_id), "starts": starts}
    return json.dumps(fields, separators=(",", ":")).encode()


def _parsed(text: bytes) -> Entry:
    try:
        fields = json.loads(text)
        if fields["version"] != 1:
            raise ValueError(f"version {fields['version']} is none that is known")
        replaced = None
        if "topic" in fields:
            starts = {int(number): int(offset) for number, offset in fields["starts"].items()}
            replaced = Replaced(topic=str(fields["topic"]), topic_id=UUID(fields["topic_id"]), starts=starts)
        return Entry(batch=int(fields["batch"]), records=int(fields["records"]), replaced=replaced)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"{LEDGER_TOPIC}: an entry cannot be read ({error!r}): {text[:200]!r}. A newer pylog may have written it"
        ) from error
