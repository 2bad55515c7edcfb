"""The partition of a record, chosen as Kafka's Java producer chooses it (BuiltInPartitioner; KIP-480, KIP-794).

A record with a key goes to `(murmur2(key) & 0x7fffffff) % partitions`, over all partitions of the topic: the same key
lands where any other client with Kafka's default partitioner puts it, as long as the number of partitions stays. An
empty key is a key. Records without a key stick to a partition until about a batch of bytes went there, then to another
one, chosen uniformly: batches are full, and every partition gets its share.

Groups and transactional ids belong to partitions of the internal topics by another hash, Java's of a string. Two other
partitioners go by murmur3 of the key (x86, 32 bits, seed 0, not signed), and by turns; and one chooses as librdkafka.
"""

from codecs import getencoder
from itertools import count
from random import Random
from struct import iter_unpack
from zlib import crc32

from mmh3 import hash as murmur3

from pylog.kernel import murmur2

utf_16_be = getencoder("utf-16-be")
"""Looked up at import: a codec is a module, and importing one takes a descriptor, which may not be left later."""


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a keyed record, in [0, partitions). Raises ValueError where there are no partitions.

    The sign of the hash is masked away, not negated (Kafka: Utils.toPositive).
    """
    if partitions <= 0:
        raise ValueError(f"{partitions} partitions: there is no partition to choose")
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_for(name: str, partitions: int) -> int:
    """The partition of an internal topic that a group or a transactional id belongs to, in [0, partitions).

    The leader of that partition is its coordinator. Kafka: Utils.abs(groupId.hashCode()) % partitions, where the hash
    goes over UTF-16 units, and the one number without an absolute value counts as 0. Raises ValueError where there are
    no partitions.
    """
    if partitions <= 0:
        raise ValueError(f"{partitions} partitions: there is no partition to choose")
    hashed = 0
    for (unit,) in iter_unpack(">H", utf_16_be(name, "surrogatepass")[0]):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed = (1 << 32) - hashed
    return (hashed & 0x7FFFFFFF) % partitions


def murmur3_partition(key: bytes, partitions: int) -> int:
    """The partition of a keyed record by murmur3, otherwise as `partition_for_key`."""
    if partitions <= 0:
        raise ValueError(f"{partitions} partitions: there is no partition to choose")
    return murmur3(key, signed=False) % partitions


def crc32_partition(key: bytes, partitions: int) -> int:
    """The partition of a keyed record as librdkafka chooses it by default ("consistent_random"), by CRC-32.

    There an empty key counts as no key. Raises ValueError where there are no partitions.
    """
    if partitions <= 0:
        raise ValueError(f"{partitions} partitions: there is no partition to choose")
    return crc32(key) % partitions


class RoundRobinPartitioner:
    """A partitioner that takes each partition in its turn, whatever the key (Kafka: RoundRobinPartitioner)."""

    def __init__(self) -> None:
        self._turns: dict[str, count[int]] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        return next(self._turns.setdefault(topic, count())) % partitions


class StickyPartitioner:
    """The partitioner of one topic's records without a key. Not thread-safe: the producer holds its lock around it.

    `batch_size` is in bytes; with 0 every record gets a new choice. `random` is for tests that want to know the
    choices. Raises ValueError for a negative size.
    """

    __slots__ = ("_batch_size", "_bytes", "_current", "_random")

    def __init__(self, batch_size: int, random: Random | None = None) -> None:
        if batch_size < 0:
            raise ValueError(f"batch_size {batch_size}: it is not negative")
        self._batch_size = batch_size
        self._random = random or Random()
        self._current = -1
        self._bytes = 0

    def partition(self, partitions: int) -> int:
        """The partition for the next record, in [0, partitions); the same one until `added` ends its share.

        A topic that was deleted and made again with fewer partitions gets a new choice. Raises ValueError where there
        are no partitions.
        """
        if not 0 <= self._current < partitions:
            if partitions <= 0:
                raise ValueError(f"{partitions} partitions: there is no partition to choose")
            self._current = self._random.randrange(partitions)
            self._bytes = 0
        return self._current

    def added(self, size: int) -> None:
        """Record that `size` bytes went to the current partition; after `batch_size` bytes another one is chosen."""
        self._bytes += size
        if self._bytes >= self._batch_size:
            self._current = -1
