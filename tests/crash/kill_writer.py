"""The process that is killed: it appends, rolls, deletes and cleans in one log directory until it dies.

    t    3 partitions, retention by size      value "life:number:..." in rising order, numbered within the partition
    c    compacted                            the same, with 7 keys
    x    transactions                         value "life:transaction:index:records:commit or abort:..."

Every value tells what it is and nothing but its numbers decides its bytes, so whoever reads one can say whether it was
ever written like this. Where segments, retention and cleaning are due is drawn with the life's number for a seed.
"""

import random
import struct
from multiprocessing.connection import Connection
from pathlib import Path

import pylog
from pylog.log import Flush
from pylog.protocol.batch import Batch, Origin, encode
from pylog.protocol.messages import ProduceRequest, ProduceResponse, Session
from pylog.replica import Leader
from tests.support.canaries import Canaries

PARTITIONS = 3
KEYS = 7
SMALL = {"index.interval.bytes": 200, "file.delete.delay.ms": 0}
TOPICS = {
    "t": (PARTITIONS, SMALL | {"retention.bytes": 60_000}),
    "c": (1, SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}),
    "x": (1, SMALL),
}
LARGEST = 600
_SESSION = Session(client_id="kill")


def value_of(*numbers: int | str) -> bytes:
    """The one value that these numbers have."""
    text = ":".join(map(str, numbers)).encode()
    return text + b":" + b"x" * (sum(text) * 7919 % LARGEST)


def numbers_of(value: bytes) -> list[str]:
    """What `value_of` was made from; raises AssertionError where it was not made like this."""
    numbers = value.decode().rpartition(":")[0].split(":")
    assert value == value_of(*numbers), f"a record was never written like this: {value!r}"
    return numbers


def key_of(number: int) -> bytes:
    return b"k%d" % (number % KEYS)


class Writer:
    """One life: `run` says what was acknowledged and never returns."""

    def __init__(self, path: str, flush: Flush, life: int, acknowledge: Connection) -> None:
        # Transactions are written without a coordinator here.
        config: dict[str, object] = {"transaction.partition.verification.enable": False}
        config |= {"flush.interval.ms": 10} if flush == "interval" else {}
        self.log = pylog.open(path, flush=flush, config=config)
        self.flush = flush
        self.life = life
        self.acknowledge = acknowledge
        self.chance = random.Random(life)
        self.numbers: dict[tuple[str, int], int] = {}
        self.transactions = 0
        for name, (partitions, overrides) in TOPICS.items():
            if name not in self.log.topics():
                self.log.create_topic(name, partitions, overrides)

    def run(self) -> None:
        self.end_transactions_of(self.life - 1)
        while True:
            for _ in range(self.chance.randrange(1, 20)):
                self.append("t", self.chance.randrange(PARTITIONS))
            for _ in range(self.chance.randrange(1, 5)):
                self.append("c", 0)
            self.transact()
            self.chance.choice([self.roll, self.roll, self.retain, self.clean])()

    def append(self, topic: str, partition: int) -> None:
        number = self.numbers.get((topic, partition), 0)
        count = self.chance.randrange(1, 4)
        numbers = range(number, number + count)
        records = [pylog.Record(value_of(self.life, n), key=key_of(n) if topic == "c" else None) for n in numbers]
        appended = self.log.topic(topic)[partition].append(records)
        self.numbers[topic, partition] = number + count
        self.acknowledge.send((topic, partition, appended.base_offset, number, count))

    def roll(self) -> None:
        """Segments are small: Kafka's least `segment.bytes` would see few rolls in a life."""
        for topic, (partitions, _) in TOPICS.items():
            for partition in range(partitions):
                self.log.broker.partition(topic, partition).roll(0)

    def retain(self) -> None:
        self.log.apply_retention()

    def clean(self) -> None:
        self.log.clean("c")

    # --- transactions ----------------------------------------------------------------------------------------------

    def transact(self) -> None:
        transaction, self.transactions = self.transactions, self.transactions + 1
        records, commit = self.chance.randrange(1, 6), self.chance.random() < 0.6
        sequence = self.numbers.get(("x", 0), 0)
        for index in range(records):
            value = value_of(self.life, transaction, index, records, "commit" if commit else "abort")
            batch = encode(
                [pylog.Record(value)], now_ms=0, producer_id=1000 + self.life, producer_epoch=0,
                base_sequence=sequence + index, transactional=True,
            )  # fmt: skip
            answer: ProduceResponse = self.log.broker.handle(ProduceRequest.of("x", 0, batch), _SESSION).result()
            assert answer.parts[0].error is None, answer.parts[0].error
            if self.chance.random() < 0.3:
                self.log.broker.partition("x", 0).roll(0)
        self.numbers["x", 0] = sequence + records
        self.end(self.life, commit=commit)
        if commit:
            self.acknowledge.send(("x", 0, -1, transaction, records))

    def end(self, life: int, *, commit: bool) -> None:
        """Write the marker as a coordinator will: appended, durable, visible."""
        leader: Leader = self.log.broker.node.roles.writer("x", 0)
        assert leader.epoch is not None
        marker: Batch = encode(
            [pylog.Record(struct.pack(">hi", 0, 0), key=struct.pack(">hh", 0, int(commit)))], now_ms=0,
            producer_id=1000 + life, producer_epoch=0, transactional=True, control=True,
        )  # fmt: skip
        leader.partition.append(marker, epoch=leader.epoch, now_ms=0, origin=Origin.COORDINATOR)
        if self.flush == "sync":
            self.log.broker.sync()
        leader.advance()

    def end_transactions_of(self, life: int) -> None:
        if life >= 0:
            self.end(life, commit=False)


def canaries_of(path: str) -> Path:
    """Where the canaries are of the processes that use the log at `path`."""
    return Path(path).parent / "canaries"


def write(path: str, flush: Flush, life: int, acknowledge: Connection) -> None:
    """The whole life of a writing process."""
    Canaries(canaries_of(path)).begin()
    Writer(path, flush, life, acknowledge).run()
