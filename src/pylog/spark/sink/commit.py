"""The driver's half of a write: all that the tasks have staged, appended in one transaction.

    1. the producer takes up the transactional id of the write: a driver that was thought dead is fenced, and what it
       has left open is aborted
    2. a stream reads its ledger: where the batch is there already, only what may have been left of it is done; one that
       is not the last of its query, or has other rows, is refused
    3. one transaction: the staged batches, and the ledger's record
    4. where the topic is replaced, its records before the transaction are deleted; a replay does it again
    5. what was staged is removed

An error before the end of step 3 leaves nothing that a reader of committed records sees. The log is opened for the
commit: by this process, or through the process that owns the directory, or the servers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pylog.client.admin.configs import ConfigValue
from pylog.errors import PolicyViolation, UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.spark.options.where import GivenDirectories
from pylog.spark.options.write import WriteOptions
from pylog.spark.sink.content import MODULUS
from pylog.spark.sink.ledger import Entry, Ledger, Replaced
from pylog.spark.sink.plan import BatchPlan
from pylog.spark.sink.reach import offsets_of, opened, producer_of
from pylog.spark.sink.staged_topic import StagedRecords
from pylog.spark.sink.staging import Staged, StagedFiles, now_ms

if TYPE_CHECKING:
    from pylog.handles.any_log import AnyLog

TRANSACTIONAL_ID: Final = "pylog-spark-"
"""Before the id of the query, or of the batch write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One batch write, or one batch of a stream."""

    options: WriteOptions
    id: str
    """Of the query, or of the batch write."""
    batch: int | None
    """The number of the batch in its query; None in a batch write, which is never replayed."""
    replaces: bool
    """Whether it takes the place of all that its topic had."""
    plan: BatchPlan | None = field(default=None)
    """How the batch was planned, where that is known."""


def commit(write: Write, messages: Sequence[Staged]) -> None:
    """Commit what the tasks have staged; does nothing where that was done.

    Raises what opening the log does, KafkaStorage (a log directory was not named), StorageError (what was staged is not
    there), OutOfOrderSequence (the query has committed another batch of this number, or a later one: its checkpoint was
    restored), ProducerFenced (another driver runs the query), and what a producer does.
    """
    where = write.options.where
    if not write.replaces and not any(message.batches for message in messages):
        return
    with opened(where, writes=True) as log:
        staging = StagedFiles(where.paths[0]) if isinstance(where, GivenDirectories) else StagedRecords(log)
        config = write.options.producer
        with producer_of(log, config, transactional_id=f"{TRANSACTIONAL_ID}{write.id}") as producer:
            ledger = None if write.batch is None else Ledger(log, write.id, config.transaction_timeout_ms)
            last, entry = None if ledger is None else ledger.read(), _entry(write, messages)
            if ledger is None or last is None or last.batch < entry.batch:
                entry = replace(entry, replaced=_replaced(log, write))
                with producer.transaction():
                    for topic, partition, batch in staging.batches(messages):
                        producer.send_batch(topic, partition, batch)
                    if ledger is not None:
                        ledger.write(producer, entry)
            elif last.has(entry):
                entry = last
            else:
                raise ledger.refuse(entry, last)
        if ledger is not None:
            ledger.compact()
        if entry.replaced is not None:
            _delete_before(log, entry.replaced)
        staging.drop(messages)
        if write.batch is None:
            staging.clean(None, -1, now_ms())
        else:
            staging.clean(write.id, write.batch, now_ms())


def drop(write: Write, messages: Sequence[Staged]) -> None:
    """Remove what was staged: the write was aborted. What is committed stays, as it was copied."""
    if isinstance(write.options.where, GivenDirectories):
        StagedFiles(write.options.where.paths[0]).drop(messages)


def _entry(write: Write, messages: Sequence[Staged]) -> Entry:
    return Entry(
        batch=-1 if write.batch is None else write.batch,
        records=sum(message.records for message in messages),
        checksum=sum(message.checksum for message in messages) % MODULUS,
        plan=write.plan,
    )


def _replaced(log: "AnyLog", write: Write) -> Replaced | None:
    if not write.replaces:
        return None
    topic = write.options.topic
    assert topic is not None, "it was checked when the write was planned"
    check_replaceable(log, topic)
    found = log.admin.topic(topic)
    ends = offsets_of(log, [TopicPartition(topic, part.partition) for part in found.partitions], "latest")
    starts = {key.partition: offset for key, offset in ends.items()}
    return Replaced(topic=topic, topic_id=found.id, starts=starts)


def check_replaceable(log: "AnyLog", topic: str) -> None:
    """Raise PolicyViolation where the records of a topic cannot be deleted before an offset."""
    policy = _value(log.admin.describe_topic_config(topic), "cleanup.policy")
    if "delete" not in policy.split(","):
        raise PolicyViolation(
            f"topic '{topic}' has cleanup.policy={policy}: what it has cannot be replaced. Set compact,delete, or "
            "append to it"
        )


def _value(config: Mapping[str, ConfigValue], name: str) -> str:
    return str(config[name].value)


def _delete_before(log: "AnyLog", replaced: Replaced) -> None:
    try:
        found = log.admin.topic(replaced.topic)
    except UnknownTopicOrPartition:
        return
    if found.id == replaced.topic_id:
        log.delete_records({
            TopicPartition(replaced.topic, number): offset for number, offset in replaced.starts.items()
        })  # fmt: skip
