"""The content of a batch in flight: the records of a producer's batch, sealed, or a part of them.

A node may refuse a batch as too large for its topic. Then it is sent in two parts, and these in parts again, and the
futures of its records are answered when there is an answer for each part.
"""

from pylog.client.in_flight_batch import InFlightBatch
from pylog.client.record_append import Part, ProducerBatch
from pylog.config import ProducerConfig
from pylog.protocol.batch import Batch, encode, seal
from pylog.protocol.compression import Codec


class Load:
    """The content of a batch in flight: a producer's batch, or the records of it from number `first` on."""

    first = 0
    parts: "Parts | None" = None

    def __init__(self, batch: ProducerBatch) -> None:
        self.batch = batch
        self.sealed: Batch | None = batch.sealed


class Parts:
    """The answers to the parts of a batch that was too large, until all are there."""

    __slots__ = ("answers", "records_left")

    def __init__(self, records: int) -> None:
        self.records_left = records
        self.answers: list[Part] = []

    def add(self, records: int, answers: list[Part]) -> bool:
        """Add the answers for so many records; gives whether there is one for all of them now."""
        self.answers += answers
        self.records_left -= records
        return not self.records_left


class Sealer:
    """Makes the bytes of batches in flight, as `config` says."""

    def __init__(self, config: ProducerConfig) -> None:
        self._codec = Codec.parse(config.compression_type)
        self._level = config.compression_level
        self._is_transactional = config.transactional_id is not None

    def seal(self, batch: InFlightBatch) -> Batch:
        """The bytes of a batch, under its number."""
        load: Load = batch.load
        (producer_id, epoch), sequence, sealed = batch.producer, batch.sequence, load.sealed
        if sealed is None:
            sealed = load.sealed = seal(
                load.batch.close(), codec=self._codec, level=self._level, producer_id=producer_id,
                producer_epoch=epoch, base_sequence=sequence, transactional=self._is_transactional,
            )  # fmt: skip
        elif (sealed.producer_id, sealed.producer_epoch, sealed.base_sequence) != (producer_id, epoch, sequence):
            sealed.stamp_producer(producer_id, epoch, sequence)
        return sealed

    def halves(self, batch: InFlightBatch) -> tuple[int, tuple[Load, Load]]:
        """The number of records in the first half of a batch that was sent, and the content of both halves."""
        load: Load = batch.load
        assert load.sealed is not None, "a node has seen it"
        records = load.sealed.records(*batch.key)
        half = len(records) // 2
        halves = Load(load.batch), Load(load.batch)
        parts = load.parts or Parts(len(records))
        for one, first, some in zip(halves, (0, half), (records[:half], records[half:]), strict=True):
            one.first, one.parts = load.first + first, parts
            one.sealed = encode(
                some, now_ms=-1, codec=self._codec, level=self._level, transactional=self._is_transactional
            )
        return half, halves
