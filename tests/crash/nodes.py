"""A node under a workload: topics come, get records and go; after a crash each is whole, or was never there."""

from collections.abc import Callable
from typing import NamedTuple

from pylog.broker.alarm import Alarm
from pylog.broker.housekeeping import Housekeeping
from pylog.broker.replica_manager import EndedRoles, ReplicaManager
from pylog.config import NodeConfig
from pylog.files import Files
from pylog.kernel import Record
from pylog.protocol.batch import encode, split
from pylog.protocol.messages import NewTopic, Replacement
from pylog.record import TopicPartition
from tests.support.crash import CrashFiles
from tests.support.stepping import Steps

from .engine import CLOCK, NOW, SeededFiles

Topics = dict[str, tuple[tuple[bytes, ...], ...]]
"""The values in each partition of each topic."""


class FoundTopics(NamedTuple):
    """What was there after a crash."""

    topics: Topics
    fault: str = ""


def make_node(files: Files, paths: tuple[str, ...], config: NodeConfig | None = None) -> ReplicaManager:
    return ReplicaManager(files, paths, config or NodeConfig(), CLOCK, node_id=1, visible_when_durable=True)


class NodeRun:
    """The topics of a node, version by version: as `partitions.Run`, but nothing is answered before it is durable."""

    def __init__(self, files: CrashFiles, paths: tuple[str, ...] = ("log",), config: NodeConfig | None = None) -> None:
        self.files = files
        self.paths = paths
        self.config = config
        self.node = make_node(files, paths, config)
        self.clock = Steps()
        self.versions: list[Topics] = [{}]
        self.number = 0
        files.note(("kept", 0))

    def change(self, version: Topics, how: Callable[[], object]) -> None:
        """Do something that turns the topics into `version`."""
        self.versions.append(version)
        self.files.note(("try", len(self.versions) - 1))
        how()
        self.files.note(("kept", len(self.versions) - 1))

    def create(self, name: str, partitions: int = 1) -> None:
        self.change(
            self.versions[-1] | {name: ((),) * partitions},
            lambda: self.node.changes.create_topic(NewTopic(name, partitions)),
        )

    def delete(self, name: str) -> None:
        version = {other: values for other, values in self.versions[-1].items() if other != name}
        self.change(version, lambda: self.node.changes.delete_topic(name, EndedRoles()))

    def append(self, topic: str, number: int) -> None:
        self.number += 1
        size = self.files.varied(100) if isinstance(self.files, SeededFiles) else 100
        value = b"%d:" % self.number + b"v" * size
        parts = list(self.versions[-1][topic])
        parts[number] = (*parts[number], value)
        self.change(self.versions[-1] | {topic: tuple(parts)}, lambda: append(self.node, topic, number, value))

    def delete_records(self, topic: str, number: int) -> None:
        """The oldest record that is left."""
        parts = list(self.versions[-1][topic])
        parts[number] = parts[number][1:]
        start = self.node.roles.partition(topic, number).start_offset + 1

        def deleted() -> None:
            (part,) = self.node.changes.delete_records({TopicPartition(topic, number): start}).values()
            if part.error is not None:
                raise part.error

        self.change(self.versions[-1] | {topic: tuple(parts)}, deleted)

    def roll(self, topic: str, number: int) -> None:
        self.node.roles.partition(topic, number).roll(NOW)

    def move(self, topic: str, number: int, path: str) -> None:
        """Nothing is another for it."""
        self.change(self.versions[-1], lambda: self.node.changes.move(Replacement(topic, number, path), EndedRoles()))

    def checkpoint(self) -> None:
        self.node.checkpoint()

    def reopen(self) -> None:
        """Close as a broker does that was open for a moment: the sweeps are due, and the close does them."""
        self.clock.now_ms += 3_600_000
        keeping = Housekeeping(self.node, self.clock, Alarm(), lambda topic, after: iter(()))
        keeping.note_deleted()
        keeping.finish()
        keeping.close()
        self.node.close()
        self.node = make_node(self.files, self.paths, self.config)

    def opened(self, files: Files) -> ReplicaManager:
        return make_node(files, self.paths, self.config)

    def recovered(self, files: Files) -> FoundTopics:
        """Open the node, read everything, make one more topic, close, open again."""
        node = self.opened(files)
        found = read_all(node)
        if node.roles.quarantined:
            return FoundTopics(found, f"a crash was taken for damage: {node.roles.quarantined}")
        node.changes.create_topic(NewTopic("after-the-crash"))
        append(node, "after-the-crash", 0, b"value")
        node.close()
        if read_all(self.opened(files)) != found | {"after-the-crash": ((b"value",),)}:
            return FoundTopics(found, "after one more topic and a clean close the topics are not what they were")
        return FoundTopics(found)

    def judged(self, found: FoundTopics, notes: tuple[object, ...], *, power: bool) -> str:
        marks = dict(notes)  # type: ignore[call-overload]
        safe = marks.get("kept", 0)
        last = max(marks.get("try", 0), safe)
        for number in range(safe, last + 1):
            if all(_is_between(found.topics, self.versions[at], self.versions[number]) for at in (safe, number)):
                return ""
        return f"found {_short(found.topics)}; allowed: {[_short(one) for one in self.versions[safe : last + 1]]}"


def _is_between(found: Topics, safe: Topics, tried: Topics) -> bool:
    """Whether these are the topics of `tried`, each with a part of its records, and with all that `safe` has of it."""
    if found.keys() != tried.keys():
        return False
    for name, parts in tried.items():
        kept = safe.get(name, ((),) * len(parts))
        for has, wanted, least in zip(found[name], parts, kept, strict=True):
            is_older = wanted[: len(least)] != least  # another topic of the same name
            if has != wanted[: len(has)] or (len(has) < len(least) and not is_older):
                return False
    return True


def append(node: ReplicaManager, topic: str, number: int, value: bytes) -> None:
    """What a broker does with flush="sync"."""
    leader = node.roles.writer(topic, number)
    leader.append(encode([Record(value, timestamp=NOW)], now_ms=NOW), NOW)
    leader.partition.sync()
    leader.advance()


def read_all(node: ReplicaManager) -> Topics:
    """Every value; the partitions are checked on the way."""
    found: Topics = {}
    for name, image in node.image.topics.items():
        parts = []
        for number in sorted(image.partitions):
            partition = node.roles.partition(name, number)
            partition.check()
            values: list[bytes] = []
            offset = partition.start_offset
            while (piece := partition.read(offset, 1 << 20, upto=partition.next_offset)) is not None:
                for batch in split(piece.data, check_crc=True):
                    values += [record.value or b"" for record in batch.records(name, number, offset)]
                    offset = batch.next_offset
            parts.append(tuple(values))
        found[name] = tuple(parts)
    return found


def _short(topics: Topics) -> dict[str, list[list[bytes]]]:
    return {name: [[value[:4] for value in part] for part in parts] for name, parts in topics.items()}
