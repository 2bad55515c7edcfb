"""The offsets of a stream, as Spark's checkpoint has them, and how far one batch goes: pure functions over numbers.

    {"flights": {"0": 23, "1": 5}, "#topicIds": {"flights": "5a3e..."}, "#first": {"flights": {"0": 0}}}

That is the JSON of Spark's Kafka source, with more entries: no topic can have such names. The ids tell a topic from
one that was made later under the same name, whose offsets mean something else. The end of a stream's first batch has
where that batch begins, in the same form. Text without these entries is understood, too.

Source: Spark's JsonUtils.partitionOffsets and KafkaMicroBatchStream (rateLimit, delayBatch).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from pylog.record import TopicPartition
from pylog.spark.options.limits import FIRST, TOPIC_IDS
from pylog.spark.options.read import Trigger
from pylog.spark.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The next offset of each partition, and the ids of the topics that they belong to."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """Without the topics whose id is not known."""
    first: "StreamOffsets | None" = field(default=None)
    """Where the batch begins that ends here, if it is the first of its stream."""

    def to_json(self) -> dict[str, object]:
        """As the checkpoint has them. The same offsets give the same text: Spark compares texts."""
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        ids = {topic: str(self.topic_ids[topic]) for topic in found if topic in self.topic_ids}
        first = {} if self.first is None else {FIRST: self.first.to_json()}
        return {**found, **({TOPIC_IDS: ids} if ids else {}), **first}

    @classmethod
    def from_json(cls, value: object) -> "StreamOffsets":
        """Offsets as `to_json` wrote them, or Spark's Kafka source. Raises ValueError for anything else."""
        if not isinstance(value, dict):
            raise _unreadable(value)
        ids = value.get(TOPIC_IDS, {})
        topics = {topic: found for topic, found in value.items() if topic not in (TOPIC_IDS, FIRST)}
        if not isinstance(ids, dict) or not all(isinstance(found, dict) for found in topics.values()):
            raise _unreadable(value)
        try:
            return cls(
                {
                    TopicPartition(topic, _number(partition)): _number(offset)
                    for topic, found in topics.items()
                    for partition, offset in found.items()
                },
                {str(topic): UUID(known) for topic, known in ids.items()},
                cls.from_json(value[FIRST]) if FIRST in value else None,
            )
        except (ValueError, AttributeError, TypeError):
            raise _unreadable(value) from None

    def is_other_topic(self, topic: str, topic_id: UUID | None) -> bool:
        """Whether these offsets belong to another topic of that name. False where one of the ids is not known."""
        known = self.topic_ids.get(topic)
        return known is not None and topic_id is not None and known != topic_id


def starting_offsets(end: str) -> str | None:
    """The option `startingOffsets` of a stream that goes on where a batch has ended: from what a checkpoint has of one
    source. None where that is another kind of source.
    """
    try:
        offsets = StreamOffsets.from_json(json.loads(end))
    except (ValueError, RecursionError):
        return None
    return json.dumps(replace(offsets, first=None).to_json()) if offsets.offsets else None


def _number(value: Any) -> int:
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        raise ValueError(value)
    number = int(value)
    if number < 0 or isinstance(value, float | bool):
        raise ValueError(value)
    return number


def _unreadable(value: object) -> ValueError:
    return ValueError(
        f'the checkpoint has offsets that pylog did not write: {str(value)[:200]}; expected {{"topic": {{"0": 23}}}}. '
        "A checkpoint belongs to one query and its source"
    )


def bounded(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """An end so that about `most` offsets lie between `start` and it, shared in proportion to what waits.

    A partition with something waiting gets at least one. A start that lies behind its end, or is missing, counts as the
    end. Source: KafkaMicroBatchStream.rateLimit.
    """
    waiting = {key: max(0, last - start.get(key, last)) for key, last in end.items()}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    return {
        key: end[key] if not count else start[key] + max(1, most * count // total) for key, count in waiting.items()
    }


def most_offsets(
    trigger: Trigger, waiting: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, float]
) -> int | None:
    """The most offsets that a batch takes, by offsets and by bytes; None: no limit.

    `waiting`: offsets that wait in each partition; `sizes`: bytes of one of them, on average.
    """
    limits = [] if trigger.max_offsets is None else [trigger.max_offsets]
    if trigger.max_bytes is not None:
        total = sum(count * sizes.get(key, 0) for key, count in waiting.items())
        if total > trigger.max_bytes:
            limits.append(max(1, int(trigger.max_bytes / total * sum(waiting.values()))))
    return min(limits, default=None)


class Delay:
    """Whether a batch waits for more: fewer than `min_offsets` are let wait, up to `max_delay_ms`. The first one runs.

    Source: KafkaMicroBatchStream.delayBatch.
    """

    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger
        self._last_ms: int | None = None

    def waits(self, waiting: int, now_ms: int) -> bool:
        """Whether to let these offsets wait; if not, the time until the next batch begins now."""
        least, last = self._trigger.min_offsets, self._last_ms
        if least is not None and last is not None and waiting < least and now_ms - last < self._trigger.max_delay_ms:
            return True
        self._last_ms = now_ms
        return False


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The ranges that one batch reads, and the wanted records that are not there."""

    ranges: tuple[OffsetRange, ...]
    losses: tuple[str, ...]


def between(start: StreamOffsets, end: StreamOffsets, first: Mapping[TopicPartition, int]) -> MicroBatch:
    """The ranges from one offset of a stream to another. `first`: where the partitions begin now.

    A partition that `start` does not have, or whose topic was made again, is read from where it begins.
    Source: KafkaOffsetReader.getOffsetRangesFromResolvedOffsets.
    """
    gone = sorted(start.offsets.keys() - end.offsets.keys())
    losses = [f"partition {_name(key)} is gone: it was deleted, or is not selected any more" for key in gone]
    ranges = []
    for key, last in sorted(end.offsets.items()):
        begin = start.offsets.get(key)
        if begin is not None and start.is_other_topic(key.topic, end.topic_ids.get(key.topic)):
            losses.append(f"topic {key.topic} was deleted and made again: {_name(key)} is read from its start")
            begin = first.get(key, 0)
        elif begin is None:
            begin = first.get(key, 0)
            if begin > 0:
                losses.append(f"added partition {_name(key)} starts from {begin} instead of 0")
        elif last < begin:
            losses.append(f"partition {_name(key)}'s offset was changed from {begin} to {last}")
        if begin < last:
            ranges.append(OffsetRange(key, begin, last))
    return MicroBatch(tuple(ranges), tuple(losses))


def _name(key: TopicPartition) -> str:
    return f"{key.topic}-{key.partition}"
