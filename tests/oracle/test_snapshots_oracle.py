"""Producer snapshots and transaction indexes of a real Kafka: the same bytes, and the same from the log alone."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog.files import DiskFiles, MemoryFiles
from pylog.kernel import walk
from pylog.protocol.batch import marker_at
from pylog.storage.producer_state import ProducerEntry, Producers, snapshot_name
from pylog.storage.producer_state.snapshot import encode_snapshot
from pylog.storage.transaction_index import AbortedTxn, TransactionIndex

pytestmark = pytest.mark.oracle

DAY = 86_400_000
NEVER = 2**62


def decoded(data: bytes) -> Producers:
    """All producers of a snapshot, however old."""
    producers = Producers("t-0", expiration_ms=NEVER)
    producers.load(data, 1, 0)
    return producers


def written_by_scripts(facts: Path, suffix: str) -> Iterator[bytes]:
    """The small files that Kafka's log left after the scripts of operations, and whenever it was closed in between."""
    for name in ("storage.json.gz", "cleaner.json.gz"):
        for script in json.loads(gzip.decompress((facts / name).read_bytes()))["scripts"]:
            closed = [op["result"] for op in script["ops"] if op["op"] == "close" and op["result"] is not None]
            for listing in (script["files"], *closed):
                for file, content in listing.items():
                    if file.endswith(suffix) and content.get("hex") is not None:
                        yield bytes.fromhex(content["hex"])


def test_snapshots_decode_and_encode_to_the_same_bytes(fixtures: Path, facts: Path) -> None:
    snapshots = [path.read_bytes() for path in sorted(fixtures.glob("*/logdir/*/*.snapshot"))]
    snapshots += written_by_scripts(facts, ".snapshot")
    assert any(decoded(data).entries() for data in snapshots)
    for data in snapshots:
        assert decoded(data).encode() == data


def entered_again(source: TransactionIndex) -> bytes:
    assert source.sanity() is None
    files = MemoryFiles()
    files.replace_file("txnindex", b"")
    index = TransactionIndex(files, "txnindex", source.base_offset)
    for txn in source:
        index.append(txn)
    return files.read_file("txnindex")


def test_transaction_indexes_entered_again_give_the_same_bytes(reader: DiskFiles, fixtures: Path, facts: Path) -> None:
    entries = 0
    for path in sorted(fixtures.glob("*/logdir/*/*.txnindex")):
        index = TransactionIndex(reader, str(path), int(path.stem))
        assert entered_again(index) == path.read_bytes(), path
        entries += index.entries
    assert entries > 0
    for data in written_by_scripts(facts, ".txnindex"):
        files = MemoryFiles()
        files.replace_file("kafkas", data)
        assert entered_again(TransactionIndex(files, "kafkas", 0)) == data


class Replayed:
    """What the .log files of a partition say of its producers, walked from offset 0."""

    def __init__(self, directory: Path) -> None:
        self.producers = Producers(directory.name)
        self.snapshots: dict[str, tuple[bytes, dict[int, ProducerEntry]]] = {}
        """By name: where Kafka took one, the snapshot that the log gives, and the producers in it."""
        self.transactions: dict[str, list[AbortedTxn]] = {}
        """By the stem of the segment's files."""
        self.is_whole = True
        """Every offset from 0 on has its record: nothing was deleted, compacted or skipped."""
        self.latest_marker = 0
        """Markers carry the wall clock."""
        self._end = 0
        self._taken = {path.name for path in directory.glob("*.snapshot")}
        for log in sorted(directory.glob("*.log")):
            self._segment(log)

    def _segment(self, log: Path) -> None:
        data, found = log.read_bytes(), self.transactions.setdefault(log.stem, [])
        for span in walk(data)[0]:
            emptied = span.attributes & 0x40 or span.size == 61
            self.is_whole &= span.base_offset == self._end and not emptied
            marker = marker_at(data, span)
            if marker is not None:
                self.latest_marker = max(self.latest_marker, span.max_timestamp)
            found += self.producers.replay([(span, marker)])
            self._end = span.last_offset + 1
            name = snapshot_name(self._end)
            if name in self._taken:
                self.snapshots[name] = self.producers.encode(), dict(self.producers.entries())


def test_the_log_alone_gives_snapshots_and_transaction_indexes(reader: DiskFiles, fixtures: Path) -> None:
    """But for producers that had expired when Kafka loaded its log: their records are a day older than the clock."""
    exact = aborted = 0
    for directory in sorted(path for path in fixtures.glob("*/logdir/*") if path.is_dir()):
        replayed = Replayed(directory)
        if not replayed.is_whole:
            continue
        for path in sorted(directory.glob("*.txnindex")):
            index = TransactionIndex(reader, str(path), int(path.stem))
            assert list(index) == replayed.transactions[path.stem], path
            aborted += index.entries
        for path in sorted(directory.glob("*.snapshot")):
            if path.name not in replayed.snapshots:
                continue  # of an end that the log had before it was cut
            encoded, ours = replayed.snapshots[path.name]
            kafkas = decoded(path.read_bytes()).entries()
            if kafkas.keys() == ours.keys():
                assert encoded == path.read_bytes(), path
                exact += 1
                continue
            assert kafkas.keys() < ours.keys(), path
            for producer_id, entry in ours.items():
                if producer_id in kafkas:
                    assert encode_snapshot([(producer_id, entry)]) == encode_snapshot(
                        [(producer_id, kafkas[producer_id])]
                    )
                else:
                    assert entry.current_txn_first_offset is None, path
                    assert entry.last_timestamp + DAY <= replayed.latest_marker or not replayed.latest_marker, path
    assert exact > 0 and aborted > 0
