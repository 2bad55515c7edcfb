"""Index files, checkpoints and properties that a real Kafka wrote."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pylog.files import DiskFiles, MemoryFiles
from pylog.index import OffsetIndex, TimeIndex
from pylog.storage.checkpoint import (
    read_epochs,
    read_offsets,
    read_properties,
    read_topic_id,
    write_epochs,
    write_offsets,
    write_properties,
    write_topic_id,
)
from tests.support.epochs import epochs_at

pytestmark = pytest.mark.oracle


def log_dirs(fixtures: Path) -> list[Path]:
    found = sorted(path for path in fixtures.glob("*/logdir") if path.is_dir())
    assert found, f"{fixtures} has no */logdir"
    return found


def clean_files(fixtures: Path, pattern: str) -> list[Path]:
    """Such files of every log directory that was closed cleanly or recovered: their indexes have no tail."""
    found = [
        path for log_dir in log_dirs(fixtures) if (log_dir / ".kafka_cleanshutdown").is_file()
        for path in sorted(log_dir.glob(pattern))
    ]  # fmt: skip
    assert found, f"no {pattern} in a clean log directory of {fixtures}"
    return found


def samples(keys: list[int]) -> Iterator[int]:
    yield from (-1, 0, 2**62)
    for key in keys:
        yield from (key - 1, key, key + 1)


def test_offset_indexes_are_kafkas_bytes(reader: DiskFiles, fixtures: Path) -> None:
    entries = 0
    for path in clean_files(fixtures, "*/*.index"):
        base = int(path.stem)
        for active in (False, True):
            index = OffsetIndex(reader, str(path), base, 10 << 20, active=active)
            assert index.sanity() is None, path
            assert index.entries * 8 == path.stat().st_size
            rows = list(index)
            assert all(a < c and b < d for (a, b), (c, d) in pairwise(rows)), path
            log_size = path.with_suffix(".log").stat().st_size
            assert not rows or rows[-1][1] < log_size, path
            keys = [offset for offset, _ in rows]
            for target in samples(keys):
                at = bisect_right(keys, target)
                assert index.lookup(target, log_size=log_size) == (rows[at - 1] if at else (base, 0)), path
        entries += len(rows)
    assert entries > 0


def test_time_indexes_are_kafkas_bytes(reader: DiskFiles, fixtures: Path) -> None:
    entries = 0
    for path in clean_files(fixtures, "*/*.timeindex"):
        base = int(path.stem)
        for active in (False, True):
            index = TimeIndex(reader, str(path), base, 10 << 20, active=active)
            assert index.sanity() is None, path
            assert index.entries * 12 == path.stat().st_size
            rows = list(index)
            assert all(a < c and b <= d for (a, b), (c, d) in pairwise(rows)), path
            keys = [timestamp for timestamp, _ in rows]
            for target in samples(keys):
                at = bisect_right(keys, target)
                assert index.lookup(target) == (rows[at - 1] if at else (-1, base)), path
        entries += len(rows)
    assert entries > 0


def test_entries_added_again_give_the_same_file(reader: DiskFiles, fixtures: Path) -> None:
    for path in clean_files(fixtures, "*/*index"):
        if path.suffix not in (".index", ".timeindex"):
            continue
        files, base = MemoryFiles(), int(path.stem)
        if path.suffix == ".index":
            offsets = OffsetIndex(files, path.name, base, 10 << 20, active=True)
            for entry in OffsetIndex(reader, str(path), base, 10 << 20, active=False):
                assert offsets.add(*entry)
            offsets.close()
        else:
            times = TimeIndex(files, path.name, base, 10 << 20, active=True)
            for entry in TimeIndex(reader, str(path), base, 10 << 20, active=False):
                assert times.maybe_add(*entry)
            times.close()
        assert files.read_file(path.name) == path.read_bytes(), path


def test_unclean_indexes_keep_their_entries_and_lose_their_zeros(fixtures: Path) -> None:
    """Preallocated space behind the entries of an active segment's index (kafka-format 2.9)."""
    seen = 0
    for log_dir in log_dirs(fixtures):
        for path in sorted(log_dir.glob("*/*index")):
            data = path.read_bytes()
            if path.suffix not in (".index", ".timeindex") or not data or any(data[-16:]):
                continue
            seen += 1
            kind, size = (OffsetIndex, 8) if path.suffix == ".index" else (TimeIndex, 12)
            files = MemoryFiles()
            files.replace_file(path.name, data)
            index = kind(files, path.name, int(path.stem), len(data), active=True)
            written = len(data.rstrip(b"\0"))
            assert (index.entries - 1) * size < written <= index.entries * size or index.entries == written == 0, path
            assert files.read_file(path.name) == data[: index.entries * size]
    if not seen:
        pytest.skip(f"{fixtures} has no index with preallocated space")


def test_offset_checkpoints_are_kafkas_bytes(reader: DiskFiles, fixtures: Path) -> None:
    entries = 0
    for log_dir in log_dirs(fixtures):
        paths = sorted(log_dir.glob("*-offset-checkpoint"))
        assert paths, log_dir
        for path in paths:
            offsets = read_offsets(reader, str(path))
            entries += len(offsets)
            files = MemoryFiles()
            write_offsets(files, "again", offsets)
            # A file that Kafka has only just made is empty: the same as no entries.
            assert files.read_file("again") == (path.read_bytes() or b"0\n0\n"), path
    assert entries > 0


def test_leader_epoch_checkpoints_are_kafkas_bytes(reader: DiskFiles, fixtures: Path) -> None:
    entries = 0
    for log_dir in log_dirs(fixtures):
        for path in sorted(log_dir.glob("*/leader-epoch-checkpoint")):
            epochs = read_epochs(reader, str(path))
            assert epochs_at(reader, str(path)).entries == epochs
            entries += len(epochs)
            files = MemoryFiles()
            write_epochs(files, "again", epochs)
            assert files.read_file("again") == (path.read_bytes() or b"0\n0\n"), path
    assert entries > 0


def test_partition_metadata_is_kafkas_bytes(reader: DiskFiles, fixtures: Path) -> None:
    ids = 0
    for log_dir in log_dirs(fixtures):
        for path in sorted(log_dir.glob("*/partition.metadata")):
            topic_id = read_topic_id(reader, str(path.parent))
            assert topic_id is not None
            files = MemoryFiles()
            write_topic_id(files, "", topic_id)
            assert files.read_file(path.name) == path.read_bytes(), path
            ids += 1
    assert ids > 0


def test_meta_properties_are_kafkas_bytes(reader: DiskFiles, fixtures: Path) -> None:
    for log_dir in log_dirs(fixtures):
        path = log_dir / "meta.properties"
        properties = read_properties(reader, str(path))
        assert {"version", "node.id", "cluster.id", "directory.id"} <= properties.keys()
        files = MemoryFiles()
        write_properties(files, "again", properties)
        entries = [line for line in path.read_bytes().splitlines() if not line.startswith(b"#")]
        assert sorted(files.read_file("again").splitlines()) == sorted(entries), path
