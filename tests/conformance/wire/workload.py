"""Random operations on a server, drawn from a seed.

`Choices` knows which names there are, not what a server holds: many operations are refused, and have to be refused in
the same way by each server. `observer.Observer` carries them out.
"""

import random
import reprlib
from dataclasses import dataclass, field
from typing import Any

from support.wire_requests import T0

TOPICS = [f"w{number}" for number in range(5)]
GROUPS = [f"g{number}" for number in range(4)]
TRANSACTIONAL_IDS = [f"t{number}" for number in range(3)]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
CONFIGS = {
    "max.message.bytes": ["200", "1000000", "-1", "much"],
    "compression.type": ["producer", "zstd", "gzip", "lzma"],
    "cleanup.policy": ["delete", "compact", "delete,compact", "keep"],
    "message.timestamp.type": ["CreateTime", "sometimes"],
    "retention.ms": ["-1", "-2"],
    "segment.bytes": ["2000000", "1"],
    "min.insync.replicas": ["1", "0"],
    "no.such.config": ["1"],
}
SET, DELETE, APPEND, SUBTRACT = range(4)


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    words: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={reprlib.repr(value)}' for name, value in self.words.items())})"


class Choices:
    """Draws operations; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._producers = 0
        kinds = {
            self._create: 4, self._delete: 1, self._grow: 1, self._produce: 14, self._number: 4, self._numbered: 14,
            self._own: 4, self._add: 8, self._transact: 12, self._end: 8, self._fetch: 14, self._list_offsets: 6,
            self._delete_records: 2, self._commit: 6, self._committed: 6, self._group: 6, self._member: 6,
            self._alter: 5, self._describe: 5, self._look: 6,
        }  # fmt: skip
        self._kinds, self._weights = list(kinds), list(kinds.values())

    def draw(self) -> Operation:
        (kind,) = self._random.choices(self._kinds, self._weights)
        operation: Operation = kind()
        return operation

    def _where(self) -> dict[str, Any]:
        return {"topic": self._random.choice(TOPICS), "partition": self._random.choice([0, 0, 0, 1, 2])}

    def _create(self) -> Operation:
        configs = {}
        if self._random.random() < 0.4:
            name = self._random.choice(list(CONFIGS))
            configs[name] = self._random.choice(CONFIGS[name])
        count = self._random.choice([1, 1, 2, 3, -1, 0])
        return Operation("create", {"topic": self._random.choice(TOPICS), "partitions": count, "configs": configs})

    def _delete(self) -> Operation:
        return Operation("delete", {"topic": self._random.choice(TOPICS)})

    def _grow(self) -> Operation:
        return Operation("grow", {"topic": self._random.choice(TOPICS), "count": self._random.choice([1, 2, 3])})

    def _values(self) -> list[bytes]:
        count, size = self._random.choice([1, 2, 5]), self._random.choice([0, 1, 10, 100])
        return [self._random.randbytes(size) for _ in range(count)]

    def _produce(self) -> Operation:
        words = {"codec": self._random.choice(CODECS), "version": self._random.randint(3, 13)}
        words |= {"values": self._values(), "timestamp": T0 + self._random.randint(0, 10_000)}
        words |= {"acks": self._random.choice([-1, -1, 1, 1, 2])}
        return Operation("produce", self._where() | words)

    def _number(self) -> Operation:
        self._producers += 1
        return Operation("number", {"name": f"p{self._producers % 4}"})

    def _numbered(self) -> Operation:
        words = {"name": f"p{self._random.randrange(4)}", "values": self._values()}
        words |= {
            "ahead": self._random.choice([0, 0, 0, 0, 1, -1, -2]),
            "newer": self._random.choice([0] * 9 + [-1, 1]),
        }
        return Operation("numbered", self._where() | words)

    def _own(self) -> Operation:
        return Operation("own", {"name": self._random.choice(TRANSACTIONAL_IDS)})

    def _add(self) -> Operation:
        return Operation("add", {"name": self._random.choice(TRANSACTIONAL_IDS), **self._where()})

    def _transact(self) -> Operation:
        words = {"name": self._random.choice(TRANSACTIONAL_IDS), "values": self._values()}
        return Operation("transact", self._where() | words | {"version": self._random.choice([9, 11, 12])})

    def _end(self) -> Operation:
        name, commit = self._random.choice(TRANSACTIONAL_IDS), self._random.random() < 0.6
        return Operation("end", {"name": name, "commit": commit, "version": self._random.choice([3, 4, 5])})

    def _fetch(self) -> Operation:
        words = {
            "at": self._random.choice([0.0, 0.0, 0.3, 0.7, 1.0, 1.5, -0.1]),
            "isolation": self._random.randint(0, 1),
        }
        words |= {"version": self._random.randint(4, 18), "max_bytes": self._random.choice([1, 300, 1 << 20])}
        return Operation("fetch", self._where() | words)

    def _list_offsets(self) -> Operation:
        when = self._random.choice([-2, -1, -3, T0, T0 + 3000, T0 + 20_000])
        words = {"timestamp": when, "isolation": self._random.randint(0, 1), "version": self._random.randint(7, 11)}
        return Operation("list_offsets", self._where() | words)

    def _delete_records(self) -> Operation:
        return Operation("delete_records", self._where() | {"at": self._random.choice([0.1, 0.3, 1.0, 1.5])})

    def _commit(self) -> Operation:
        words = {"group": self._random.choice(GROUPS), "offset": self._random.randrange(100)}
        words |= {"metadata": "x" * self._random.choice([0, 0, 3, 5000]), "version": self._random.randint(2, 9)}
        return Operation("commit", self._where() | words)

    def _committed(self) -> Operation:
        return Operation("committed", {"group": self._random.choice(GROUPS), **self._where()})

    def _group(self) -> Operation:
        name = self._random.choice(["describe_group", "describe_group", "delete_group", "delete_offset"])
        more = self._where() if name == "delete_offset" else {}
        return Operation(name, {"group": self._random.choice(GROUPS), **more})

    def _member(self) -> Operation:
        name = self._random.choice(["join", "join", "beat", "beat", "leave"])
        return Operation(name, {"group": self._random.choice(GROUPS)})

    def _alter(self) -> Operation:
        name = self._random.choice(list(CONFIGS))
        words = {"topic": self._random.choice(TOPICS), "name": name, "value": self._random.choice(CONFIGS[name])}
        kinds = [SET, SET, SET, DELETE, APPEND, SUBTRACT]
        return Operation("alter", words | {"operation": self._random.choice(kinds)})

    def _describe(self) -> Operation:
        return Operation("describe_configs", {"topic": self._random.choice(TOPICS)})

    def _look(self) -> Operation:
        name = self._random.choice(["metadata", "producers", "transactions", "groups", "epochs"])
        return Operation(name, {"topic": self._random.choice(TOPICS)})
