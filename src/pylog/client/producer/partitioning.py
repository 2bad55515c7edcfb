"""The choice of a partition for a record that names none.

    choose      a function of the program, or "round_robin": for every record
    by_key      murmur2, or the hash that `partitioner` names, unless `partitioner_ignore_keys` is set
    sticky      all others: the accumulator has the partition of the moment

(Kafka: BuiltInPartitioner, Partitioner.)
"""

from collections.abc import Callable

from pylog.config import ProducerConfig
from pylog.protocol.partitioner import RoundRobinPartitioner, crc32_partition, murmur3_partition, partition_for_key

__all__ = ["Partitioning"]

CONSISTENT_RANDOM = "consistent_random"
BY_KEY = {"murmur3": murmur3_partition, CONSISTENT_RANDOM: crc32_partition}


class Partitioning:
    """The partitioning of one producer, by its config."""

    def __init__(self, config: ProducerConfig) -> None:
        given = config.partitioner
        name = given if isinstance(given, str) else None
        self.choose = RoundRobinPartitioner() if name == "round_robin" else given if callable(given) else None
        """Chooses for every record, from topic, key, value and the number of partitions; None: the key decides."""
        self._hash: Callable[[bytes, int], int] | None = BY_KEY.get(name or "", partition_for_key)
        if config.partitioner_ignore_keys or name == "sticky":
            self._hash = None
        self._empty_is_none = name == CONSISTENT_RANDOM

    @property
    def is_usual(self) -> bool:
        """Whether the key decides by Kafka's own hash, which the compiled kernel has."""
        return self._hash is partition_for_key and self.choose is None

    def by_key(self, key: bytes | None, count: int) -> int | None:
        """The partition that a key has among `count`; None: the key decides nothing."""
        if key is None or self._hash is None or (not key and self._empty_is_none):
            return None
        return self._hash(key, count)
