"""Files of a log directory as somebody who means harm would write them: well-formed, with their checksums right.

Each forger takes a tree of files and gives one of them with another content: every number may be at its end, every text
hostile, every list empty, long, or with the same thing twice. `forge` has a case for each number from 0 on.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from pylog.files import MemoryFiles
from pylog.kernel import crc32c, walk
from pylog.kernel.format import COUNTER_MAX, CRC_AT, CRC_FROM, HEADER, HEADER_BYTES
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec, compress
from pylog.protocol.metadata_image import decode_record
from pylog.protocol.schema import message, names, uvarint
from pylog.protocol.schema.table import BYTES, FIXED, Field, load
from pylog.record import TopicPartition
from pylog.storage.published import Published, PublishedState
from pylog.storage.segment_checksum import Identity, Mark, Seal, encoded

Tree = dict[str, bytes]

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
TEXTS = (
    "", "t", "c", "g", "x", "alice", "__consumer_offsets", "t-0", ".", "..", "../../etc/passwd", "\0", "a\nt 0 5",
    "\x1b]0;x\x07\x1b[31m", "\u202e\u2066", "\x9b2J", "retention.ms", "cleanup.policy", "(a|aa)+b", "é" * 100,
    "a" * 249, "b" * 32_000, "-1", "9" * 30,
)  # fmt: skip
MADE = {
    "metadata": [name for name in names() if name.endswith("Record") and load(name).kind == "metadata"],
    "coordinator": [name[:-3] for name in names() if name.endswith("Key")],
}
USED = (
    "TopicRecord", "PartitionRecord", "PartitionRecord", "PartitionChangeRecord", "ConfigRecord", "ProducerIdsRecord",
    "RegisterBrokerRecord", "BrokerRegistrationChangeRecord", "UnregisterBrokerRecord", "FeatureLevelRecord",
    "UserScramCredentialRecord", "RemoveUserScramCredentialRecord", "RemoveTopicRecord", "BeginTransactionRecord",
    "EndTransactionRecord", "AbortTransactionRecord", "ClearElrRecord",
)  # fmt: skip
"""The metadata records that mean something here."""
GROUPS = (
    "OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata", "ConsumerGroupMemberMetadata",
    "ConsumerGroupTargetAssignmentMetadata", "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupCurrentMemberAssignment", "ConsumerGroupRegularExpression", "ConsumerGroupPartitionMetadata",
)  # fmt: skip
"""The records of groups that mean something here."""
KINDS = {message(f"{name}Key").api_key: name for name in GROUPS}
IDS = (UUID(int=0), UUID(int=1), UUID(int=2**128 - 1))
CHECKPOINTS = (
    "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)  # fmt: skip


class Forged(NamedTuple):
    """A file, what it has now, and how it came to that."""

    name: str
    data: bytes
    how: str


class Forger:
    """The choices of one case."""

    def __init__(self, tree: Tree, seed: int) -> None:
        self.tree = tree
        self.chance = Random(seed)
        self.wild = self.chance.choice((0.0, 0.0, 0.01, 0.1))
        """How likely each number of a batch, beside those in its records, is at an end."""
        ids = [UUID(bytes=data) for data in map(topic_id_of, tree.items()) if data is not None]
        self.ids = (*IDS, *ids)

    # --- values ----------------------------------------------------------------------------------------------------

    def number(self, bits: int, *, unsigned: bool = False) -> int:
        """A number of so many bits: at an end, near one, or small."""
        low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        ends = (low, low + 1, high, high - 1, high // 2, high // 2 + 1)
        small = [one for one in (-2, -1, 0, 1, 2, 3, 5, 8, 30) if low <= one <= high]
        return self.chance.choice(ends if self.chance.random() < 0.4 else small)

    def text(self) -> str:
        return self.chance.choice(TEXTS)

    def size(self) -> int:
        """How long a list is."""
        return self.chance.choice((0, 1, 1, 1, 2, 3, 40))

    def value(self, field: Field, version: int) -> Any:
        """A value of a field of Kafka's schemas, which its version can say."""
        if version in field.nullable and self.chance.random() < 0.2:
            return None
        if field.is_array:
            made = [self.value(field.element, version) for _ in range(self.size())]
            return made + made[:1] if self.chance.random() < 0.1 else made
        if field.kind in BITS:
            return self.number(BITS[field.kind], unsigned=field.kind.startswith("u"))
        if field.kind in BYTES:
            return self.chance.choice(
                (b"", b"\xff" * 40, bytes(16), self.text().encode(), self.message("ConsumerProtocolAssignment"))
            )
        simple: dict[str, Callable[[], Any]] = {
            "bool": lambda: self.chance.random() < 0.5, "string": self.text,
            "uuid": lambda: self.chance.choice(self.ids if self.chance.random() < 0.2 else self.ids[len(IDS) :]),
            "float64": lambda: self.chance.choice((0.0, -1.0, 1e308, float("inf"), float("nan"))),
        }  # fmt: skip
        if field.kind in FIXED or field.kind in simple:
            return simple[field.kind]()
        return {one.name: self.value(one, version) for one in field.fields if version in one.versions}

    def body(self, name: str) -> tuple[int, bytes]:
        """A message of some version, and that version."""
        schema = message(name)
        version = self.chance.choice(
            (schema.versions.high, self.chance.randint(schema.versions.low, schema.versions.high))
        )
        fields = {one.name: self.value(one, version) for one in load(name).fields if version in one.versions}
        return version, schema.encode(version, fields)

    def changed(self, name: str, version: int, data: bytes) -> bytes:
        """A message that was really written, with one or two other values."""
        schema = message(name)
        found, _ = schema.decode(version, data)
        for _ in range(self.chance.choice((1, 1, 2))):
            self._change(found, load(name).fields, version)
        return schema.encode(version, found)

    def _change(self, values: dict[str, Any], fields: Sequence[Field], version: int) -> None:
        field = self.chance.choice([one for one in fields if version in one.versions])
        inside = values[field.name]
        if field.fields and field.is_array and inside and self.chance.random() < 0.7:
            self._change(self.chance.choice(inside), field.fields, version)
        else:
            values[field.name] = self.value(field, version)

    def written(self, name: str) -> list[tuple[bytes | None, bytes | None]]:
        """The keys and values of the records in a log."""
        data = self.tree[name]
        batches = [Batch.parse(data, span.position) for span in walk(data)[0]]
        return [(one.key, one.value) for batch in batches if not batch.is_control for one in batch.records("", 0)]

    def message(self, name: str) -> bytes:
        """A message behind its version."""
        version, body = self.body(name)
        return version.to_bytes(2, "big") + body

    # --- batches ---------------------------------------------------------------------------------------------------

    def varint(self, number: int) -> bytes:
        return uvarint((number << 1 ^ number >> 63) & ((1 << 64) - 1))

    def sized(self, data: bytes | None) -> bytes:
        return self.varint(-1) if data is None else self.varint(len(data)) + data

    def record(self, delta: int, key: bytes | None, value: bytes | None) -> bytes:
        """A record whose lengths are right."""
        headers = [
            self.sized(self.text().encode()) + self.sized(self.chance.choice((None, b"", b"\x1b[2J")))
            for _ in range(self.chance.choice((0, 0, 0, 1, 40)))
        ]
        if self.chance.random() < self.wild:
            delta = self.number(32)
        timestamp = self.number(64) if self.chance.random() < self.wild else self.chance.randint(-5, 5)
        body = (
            bytes([self.chance.choice((0, 0, 0, 255))]) + self.varint(timestamp) + self.varint(delta)
            + self.sized(key) + self.sized(value) + self.varint(len(headers)) + b"".join(headers)
        )  # fmt: skip
        return self.varint(len(body)) + body

    def batch(
        self, before: bytes, rows: Sequence[tuple[bytes | None, bytes | None]], *, control: bool = False
    ) -> bytes:
        """A batch that follows those in `before`; some of the numbers of its header are at their ends."""
        spans = walk(before)[0]
        base, epoch = (spans[-1].last_offset + 1, spans[-1].leader_epoch) if spans else (0, 0)
        stream = b"".join(self.record(delta, *row) for delta, row in enumerate(rows))
        codec = self.chance.choice((Codec.NONE,) * 5 + (Codec.GZIP, Codec.ZSTD, Codec.LZ4))
        attributes = codec | (0x20 if control else 0) | self.chance.choice((0, 0, 0, 0x08, 0x10, 0x18, 0x40, 0x50))
        stream = bytes(compress(codec, memoryview(stream))) if codec else stream
        now, count = 1_700_000_000_000, len(rows)
        of_producer = [-1, -1, -1] if self.chance.random() < 0.5 else [7, 0, self.chance.choice((0, 1, 5))]
        fields: list[int] = [attributes, count - 1, now, now, *of_producer, count]
        for at, bits in enumerate((16, 32, 64, 64, 64, 16, 32, 32)):
            if self.chance.random() < self.wild:
                fields[at] = self.number(bits)
        if self.chance.random() < self.wild:
            base = self.chance.choice((0, base, base + 5, (1 << 63) - 1 - count, (1 << 63) - 2, base + (1 << 31)))
        if self.chance.random() < self.wild:
            epoch = self.number(32)
        # The batch before may end at the last offset that there is.
        base = min(base, (1 << 63) - 1)
        made = bytearray(HEADER.pack(base, HEADER_BYTES - 12 + len(stream), epoch, 2, 0, *fields)) + stream
        made[CRC_AT:CRC_FROM] = crc32c(bytes(made[CRC_FROM:])).to_bytes(4, "big")
        return bytes(made)

    def batches(
        self, name: str, row: Callable[[], tuple[bytes | None, bytes | None]], *, control: bool = False,
        behind: bytes | None = None,
    ) -> Forged:  # fmt: skip
        """A log with one to three further batches, behind what it has, or these."""
        data, how = self.tree[name] if behind is None else behind, list[str]()
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            rows = [row() for _ in range(self.chance.choice((1, 1, 1, 1, 2, 3, 20)))]
            how.append(f"{len(rows)} records")
            data += self.batch(data, rows, control=control)
        return Forged(name, data, ", ".join(how))

    def names(self, folder: str, suffix: str) -> list[str]:
        """The files of folders whose names begin so, with this suffix."""
        return sorted(name for name in self.tree if name.startswith(folder) and name.endswith(suffix))

    def chosen(self, *, folder: str = "", suffix: str = "") -> str:
        """One of the files of a folder whose name begins so, with this suffix; of logs the last one, mostly."""
        found = self.names(folder, suffix)
        last = {name.rpartition("/")[0]: name for name in found}
        return self.chance.choice(list(last.values()) if self.chance.random() < 0.9 else found)

    # --- one for each kind of file -----------------------------------------------------------------------------------

    def records(self) -> Forged:
        texts = (None, b"", b"k", b"\x1b[2J\n", b"v" * 3000)
        return self.batches(
            self.chosen(folder=self.chance.choice(("t-", "c-")), suffix=".log"),
            lambda: (self.chance.choice(texts), self.chance.choice(texts)),
        )

    def markers(self) -> Forged:
        def row() -> tuple[bytes, bytes]:
            kind = self.chance.choice((0, 0, 1, 1, 2, 3, 4, 5, 6, 32767))
            schema = {0: "EndTxnMarker", 1: "EndTxnMarker", 2: "LeaderChangeMessage", 3: "SnapshotHeaderRecord"}
            version = self.number(16) if self.chance.random() < 0.1 else 0
            return struct.pack(">hh", version, kind), self.message(schema.get(kind, "KRaftVersionRecord"))

        return self.batches(self.chosen(suffix=".log"), row, control=True)

    def metadata(self) -> Forged:
        real = [value for one in self.names("__cluster_metadata", ".log") for _, value in self.written(one) if value]

        def row() -> tuple[None, bytes]:
            if self.chance.random() < 0.6:
                record = decode_record(self.chance.choice(real))
                head = uvarint(1) + uvarint(message(record.name).api_key) + uvarint(record.version)
                return None, head + self.changed(record.name, record.version, record.data[len(head) :])
            name = self.chance.choice(USED if self.chance.random() < 0.8 else MADE["metadata"])
            version, body = self.body(name)
            return None, uvarint(1) + uvarint(message(name).api_key) + uvarint(version) + body

        if self.chance.random() < 0.6:
            return self.batches(self.chosen(folder="__cluster_metadata", suffix=".log"), row)
        # The last batch of a snapshot is its footer, which follows the others. Its offset is outside of its CRC.
        name = self.chosen(folder="__cluster_metadata", suffix=".checkpoint")
        data = self.tree[name]
        footer = data[walk(data)[0][-1].position :]
        made = self.batches(name, row, behind=data[: -len(footer)])
        end = walk(made.data)[0][-1].last_offset + 1
        return made._replace(data=made.data + end.to_bytes(8, "big") + footer[8:])

    def coordinated(self) -> Forged:
        def row() -> tuple[bytes, bytes | None]:
            if real and self.chance.random() < 0.6:
                return self._changed_pair(*self.chance.choice(real))
            made = MADE["coordinator"] if self.chance.random() < 0.2 else GROUPS
            kind = self.chance.choice(made if "offsets" in name else ["TransactionLog"])
            key = message(f"{kind}Key").api_key.to_bytes(2, "big") + self.body(f"{kind}Key")[1]
            return key, None if self.chance.random() < 0.1 else self.message(f"{kind}Value")

        folder = self.chance.choice(("__consumer_offsets", "__transaction_state"))
        name = self.chosen(folder=folder, suffix=".log")
        real = [row for one in self.names(name.partition("/")[0], ".log") for row in self.written(one) if row[0]]
        return self.batches(name, row)

    def _changed_pair(self, key: bytes, value: bytes | None) -> tuple[bytes, bytes | None]:
        """A coordinator's record with another key, or value."""
        name = KINDS.get(int.from_bytes(key[:2], "big"), "TransactionLog")
        if value is None or self.chance.random() < 0.1:
            return key[:2] + self.changed(f"{name}Key", 0, key[2:]), value
        version = int.from_bytes(value[:2], "big")
        return key, value[:2] + self.changed(f"{name}Value", version, value[2:])

    def index(self) -> Forged:
        suffix, sizes = self.chance.choice(((".index", "ii"), (".timeindex", "qi"), (".txnindex", "hqqqq")))
        name = self.chosen(suffix=suffix)
        rows = [[self.number(8 * struct.calcsize(f">{size}")) for size in sizes] for _ in range(self.size())]
        if self.chance.random() < 0.5:
            rows.sort()
        kept = self.tree[name] if self.chance.random() < 0.5 else b""
        return Forged(name, kept + b"".join(struct.pack(f">{sizes}", *row) for row in rows), f"{len(rows)} entries")

    def producers(self) -> Forged:
        rows = [[self.number(8 * struct.calcsize(f">{size}")) for size in "qhiqiqiq"] for _ in range(self.size())]
        body = len(rows).to_bytes(4, "big") + b"".join(struct.pack(">qhiqiqiq", *row) for row in rows)
        name = self.chosen(suffix=".snapshot")
        return Forged(name, struct.pack(">hI", 1, crc32c(body)) + body, f"{len(rows)} producers")

    def checkpoint(self) -> Forged:
        name = self.chance.choice([one for one in CHECKPOINTS if one in self.tree])
        topics = ("t", "c", "t", "__cluster_metadata", self.text())
        rows = [f"{self.chance.choice(topics)} {self.number(32)} {self.number(64)}" for _ in range(self.size())]
        return Forged(name, "\n".join(["0", str(len(rows)), *rows, ""]).encode(), f"{len(rows)} lines")

    def epochs(self) -> Forged:
        name = self.chosen(suffix="leader-epoch-checkpoint")
        rows = [f"{self.number(32)} {self.number(64)}" for _ in range(self.size())]
        return Forged(name, "\n".join(["0", str(len(rows)), *sorted(rows), ""]).encode(), f"{len(rows)} epochs")

    def texts(self) -> Forged:
        known = {
            "meta.properties": ("version", "node.id", "cluster.id", "directory.id", "pylog.first.directory.id"),
            "t-0/partition.metadata": ("version", "topic_id"),
        }  # fmt: skip
        name = self.chance.choice([one for one in known if one in self.tree])
        sign = "=" if name == "meta.properties" else ": "
        lines = self.tree[name].decode().splitlines()
        for key in self.chance.sample(known[name], 1):
            value = self.chance.choice(
                (str(self.number(64)), self.text().replace("\n", "\\n"), "AAAAAAAAAAAAAAAAAAAAAA")
            )
            lines = [line for line in lines if not line.startswith(key)] + [f"{key}{sign}{value}"]
        return Forged(name, "\n".join([*lines, ""]).encode(), lines[-1][:60])

    def quorum(self) -> Forged:
        name = self.chosen(suffix="quorum-state")
        parts = (str(self.number(64)), '"\\u001b[2J"', "null", "[" * 200 + "]" * 200, "1e999", "{}", "[{}]")
        fields = ("leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "data_version")
        text = ",".join(f'"{one}":{self.chance.choice(parts)}' for one in fields)
        return Forged(name, f"{{{text}}}".encode(), text[:60])

    def damages(self) -> Forged:
        rows = [" ".join(str(self.number(64)) for _ in range(5)) for _ in range(self.size())]
        name = f"{self.chance.choice(('t-0', 't-1', 'c-0'))}/pylog-damages"
        return Forged(name, "\n".join(["0", str(len(rows)), *rows, ""]).encode(), f"{len(rows)} damages")

    def published(self) -> Forged:
        files = MemoryFiles(tree={"log": None, "log/.pylog-published": self.tree[".pylog-published"]})
        opened = Published(files, "log/.pylog-published", writable=True)
        state = PublishedState(*(self.number(63, unsigned=True) for _ in range(8)), False, 0, 0)
        entry = opened.entry(self.chance.choice(self.ids), self.chance.choice((0, 0, 1)))
        before = entry.read() or PublishedState()
        # A slot whose count is larger is taken for damage.
        state = state._replace(generation=min(state.generation, COUNTER_MAX))
        kept = {name: getattr(before, name) for name in before._fields if self.chance.random() < 0.7}
        entry.publish(state._replace(**kept))
        opened.close()
        return Forged(".pylog-published", files.read_file("log/.pylog-published"), str(state._replace(**kept)))

    def seal(self) -> Forged:
        name = self.chosen(suffix=".pylog-seal")
        made = [Mark(self.number(64), self.number(32, unsigned=True)) for _ in range(4)]
        whose = Identity(self.chance.choice(self.ids), self.number(32))
        seal = Seal(whose, self.number(64), self.number(64), made[0], self.number(64), *made[1:])
        return Forged(name, encoded(seal), str(seal)[:80])

    def listing(self) -> Forged:
        name = self.chosen(suffix="pylog-listing")
        data = bytearray(self.tree[name][:-4])
        for at in range(12, len(data) - 7, 8):
            if self.chance.random() < 0.3:
                struct.pack_into("=q", data, at, self.number(64))
        return Forged(name, bytes(data) + struct.pack("=I", crc32c(bytes(data))), "a listing")


def topic_id_of(named: tuple[str, bytes]) -> bytes | None:
    """The id in a `partition.metadata`."""
    name, data = named
    if not name.endswith("partition.metadata"):
        return None
    return base64.urlsafe_b64decode(data.decode().split("topic_id: ")[1].strip() + "==")


FORGERS: dict[str, Callable[[Forger], Forged]] = {
    "records": Forger.records, "markers": Forger.markers, "metadata": Forger.metadata,
    "coordinated": Forger.coordinated, "index": Forger.index, "producers": Forger.producers,
    "checkpoint": Forger.checkpoint, "epochs": Forger.epochs, "texts": Forger.texts, "quorum": Forger.quorum,
    "damages": Forger.damages, "published": Forger.published, "seal": Forger.seal, "listing": Forger.listing,
}  # fmt: skip
WEIGHTS = {"records": 4, "metadata": 6, "coordinated": 6, "markers": 3}


@lru_cache
def order() -> tuple[str, ...]:
    """The kinds in the order in which cases have them."""
    return tuple(kind for kind in FORGERS for _ in range(WEIGHTS.get(kind, 1)))


def forge(tree: Tree, number: int) -> tuple[str, Forged]:
    """The case of this number: its kind, and the file. A kind of which the tree has no file is the one of records."""
    kind = order()[number % len(order())]
    try:
        return kind, FORGERS[kind](Forger(tree, number))
    except LookupError:
        return "records", FORGERS["records"](Forger(tree, number))


def partitions_of(tree: Tree) -> Iterator[TopicPartition]:
    """The partitions of users' topics."""
    for name in sorted({name.partition("/")[0] for name in tree if "/" in name}):
        if not name.startswith("__"):
            yield TopicPartition(name[:-2], int(name[-1]))
