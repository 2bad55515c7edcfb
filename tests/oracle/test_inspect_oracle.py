"""Dump and verify against what Kafka's own dump tool printed, and against damage that was done on purpose."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog.files import DiskFiles
from pylog.inspect import BatchEntry, Problem, RecordEntry, Totals, dump_segment, verify

pytestmark = pytest.mark.oracle

FILES = DiskFiles(read_only=True)

SOUND_STAGES = ("clean", "compact-before", "unclean-recovered", "unclean-torn-recovered", "unclean-flip-recovered")


@pytest.fixture
def copied(fixtures: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Gives a writable copy of a stage's log directory."""

    def copy(stage: str) -> Path:
        root, target = fixtures / stage / "logdir", tmp_path / stage
        for source in sorted(root.rglob("*")):
            to = target / source.relative_to(root)
            if source.is_dir():
                to.mkdir(parents=True, exist_ok=True)
            else:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, to)
        return target

    return copy


def kafka_dumps(fixtures: Path, kind: str) -> Iterator[tuple[Path, str]]:
    """Every file of `kind` that Kafka's tool was run on, with what it printed."""
    for dump in sorted(fixtures.glob(f"*/dump/*/*.{kind}.txt*")):
        data = dump.read_bytes()
        text = (gzip.decompress(data) if dump.suffix == ".gz" else data).decode(errors="replace")
        stage, partition = dump.parents[2], dump.parent.name
        source = stage / "logdir" / partition / dump.name.removesuffix(".gz").removesuffix(".txt")
        if source.exists():
            yield source, text


def without_payload(line: str) -> str:
    """A record's line up to the bytes of its key and value, which the two tools escape differently."""
    return line.split(" payload: ")[0].split(" key: ")[0]


def is_plain(line: str) -> bool:
    return line.isascii() and line.isprintable() and "\\" not in line


def test_batches_and_records_are_those_that_kafka_prints(fixtures: Path) -> None:
    seen = compared = 0
    for path, text in kafka_dumps(fixtures, "log"):
        theirs = [line for line in text.split("\n") if line.startswith(("baseOffset:", "| offset: "))]
        has_records = any(line.startswith("|") for line in theirs)
        lines = list(dump_segment(FILES, str(path), records=has_records))
        assert not [line for line in lines if isinstance(line, Problem)], path
        ours = [str(line) for line in lines if isinstance(line, BatchEntry | RecordEntry)]
        assert [without_payload(line) for line in ours] == [without_payload(line) for line in theirs], path
        for our, their in zip(ours, theirs, strict=True):
            if is_plain(our) and '{"type"' not in our and their != without_payload(their):
                assert our == their
                compared += 1
        seen += len(ours)
    assert seen and compared


def test_metadata_records_are_shown_as_kafka_shows_them(fixtures: Path) -> None:
    count = 0
    for path, text in kafka_dumps(fixtures, "log"):
        if not path.parent.name.startswith("__cluster_metadata"):
            continue
        theirs = [json.loads(line.split(" payload: ")[1]) for line in text.split("\n") if ' payload: {"type"' in line]
        lines = dump_segment(FILES, str(path), records=True)
        ours = [line.decoded for line in lines if isinstance(line, RecordEntry) and line.control is None]
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            assert our is not None
            assert (our["type"], our["version"]) == (their["type"], their["version"])
            data = our["data"]
            assert isinstance(data, dict)
            assert {name: data[name] for name in their["data"]} == their["data"]
            count += 1
    if not count:
        pytest.skip("there is no metadata log among the fixtures")


@pytest.mark.parametrize("kind", ["index", "timeindex", "txnindex", "snapshot"])
def test_index_and_snapshot_entries_are_those_that_kafka_prints(fixtures: Path, kind: str) -> None:
    names = ("offset: ", "timestamp: ", "version: ", "producerId: ")
    seen = 0
    for path, text in kafka_dumps(fixtures, kind):
        # Of a file that has nothing but reserved space Kafka's tool prints an entry of zeros.
        theirs = [line for line in text.splitlines() if line.startswith(names) and any(path.read_bytes())]
        assert [str(line) for line in dump_segment(FILES, str(path))] == theirs, path
        seen += len(theirs)
    assert seen


def test_every_text_file_dumps(fixtures: Path) -> None:
    for stage in SOUND_STAGES:
        root = fixtures / stage / "logdir"
        for pattern in ("*-checkpoint", "meta.properties", "*/leader-epoch-checkpoint", "*/partition.metadata"):
            for path in root.glob(pattern):
                lines = list(dump_segment(FILES, str(path)))
                assert not [line for line in lines if isinstance(line, Problem)], path


@pytest.mark.parametrize("stage", SOUND_STAGES)
def test_a_directory_that_kafka_closed_has_no_problem(fixtures: Path, stage: str) -> None:
    manifest = json.loads((fixtures / "manifest.json").read_text())["stages"][stage]
    events = list(verify(FILES, str(fixtures / stage / "logdir")))
    assert [str(event) for event in events if isinstance(event, Problem) and not event.harmless] == []
    totals = events[-1]
    assert isinstance(totals, Totals)
    segments = [segment for partition in manifest.values() for segment in partition["segments"]]
    assert (totals.partitions, totals.segments) == (len(manifest), len(segments))
    assert totals.batches == sum(segment["batches"] for segment in segments)
    assert totals.size == sum(segment["bytes"] for segment in segments)


def test_an_unclean_stop_is_no_damage(copied: Callable[[str], Path]) -> None:
    events = list(verify(FILES, str(copied("unclean"))))
    assert [str(event) for event in events if isinstance(event, Problem) and not event.harmless] == []
    assert any("reserved space" in event.what for event in events if isinstance(event, Problem))


@pytest.mark.parametrize("stage", ["unclean-torn", "unclean-flip"])
def test_damage_is_named_where_it_was_done(fixtures: Path, copied: Callable[[str], Path], stage: str) -> None:
    damage = json.loads((fixtures / stage / "damage.json").read_text())
    root = copied(stage)
    problems = [event for event in verify(FILES, str(root)) if isinstance(event, Problem) and not event.harmless]
    for partition, place in damage.items():
        in_log = [p for p in problems if p.path == str(root / partition / place["file"])]
        assert [(p.position, p.offset) for p in in_log] == [(place["batch_position"], place["batch_base_offset"])]
    folders = {Path(problem.path).parent.name for problem in problems if Path(problem.path).parent != root}
    assert folders == set(damage), "and nowhere else"
