"""The golden set is small and has everything that the tests of directories need; those are in tests/oracle, and run on
it in every clone (tests/oracle/conftest.py).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylog.kernel import BatchSpan, walk

GOLDEN = Path(__file__).parent
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())
STAGES = {path.parent.name: path for path in sorted(GOLDEN.glob("*/logdir"))}
UNCLEAN = ("unclean", "unclean-torn", "unclean-flip")


def spans(stage: str, pattern: str = "*") -> Iterator[BatchSpan]:
    for path in sorted(STAGES[stage].glob(f"{pattern}/*.log")):
        yield from walk(path.read_bytes())[0]


def metas(stage: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (GOLDEN / stage / "expected").glob("*.meta.json")]


def test_golden_directories_fit_into_every_clone() -> None:
    sizes = [path.stat().st_size for stage in STAGES for path in (GOLDEN / stage).rglob("*") if path.is_file()]
    assert sum(sizes) < 450_000


def test_the_manifest_lists_every_segment() -> None:
    assert MANIFEST["stages"].keys() == STAGES.keys() == {"clean", "compact-before", *UNCLEAN, *recovered()}
    for stage, partitions in MANIFEST["stages"].items():
        found = {folder.name: sorted(folder.glob("*.log")) for folder in STAGES[stage].iterdir() if folder.is_dir()}
        assert {
            name: [(segment["base"], segment["bytes"]) for segment in partition["segments"]]
            for name, partition in partitions.items()
        } == {name: [(int(path.stem), path.stat().st_size) for path in paths] for name, paths in found.items()}


def recovered() -> list[str]:
    return [f"{stage}-recovered" for stage in UNCLEAN]


def test_golden_directories_have_batches_of_every_kind() -> None:
    attributes = [span.attributes for span in spans("clean", "[!_]*")]
    assert {bits & 7 for bits in attributes} == {0, 1, 2, 3, 4}, "codecs"
    for bit in (0x08, 0x10, 0x20, 0x40):  # LogAppendTime, transactional, control, delete horizon
        assert any(bits & bit for bits in attributes), hex(bit)
    assert any(span.size == 61 for span in spans("clean")), "emptied by compaction"
    assert {span.leader_epoch for span in spans("clean", "epochs-0")} == {0, 2, 4}


def test_golden_directories_have_partitions_of_every_kind() -> None:
    found = metas("clean")
    assert any(0 < meta["low"] < meta["high"] for meta in found), "trimmed"
    assert any(meta["low"] == meta["high"] == 0 for meta in found), "empty"
    assert any(meta["last_stable_offset"] < meta["high"] for meta in found), "an open transaction"
    assert any(meta["records_committed"] < meta["records"] for meta in found), "aborted transactions"
    assert sum(len(partition["segments"]) > 2 for partition in MANIFEST["stages"]["clean"].values()) >= 4, "rolled"
    assert sum(path.stat().st_size > 0 for path in STAGES["clean"].glob("*/*.txnindex")) > 1
    assert any(meta["offsets_for_times"] for meta in found)
    assert (STAGES["clean"] / "__cluster_metadata-0").is_dir()


def test_compacted_directories_are_smaller_than_before() -> None:
    for meta in metas("compact-before"):
        name = f"{meta['topic']}-0"
        left = sum(span.count for span in spans("clean", name) if span.base_offset < meta["high"])
        assert 0 < left < sum(span.count for span in spans("compact-before", name)), name


@pytest.mark.parametrize("stage", UNCLEAN)
def test_killed_directories_are_unclean_and_recovered_ones_clean(stage: str) -> None:
    assert not (STAGES[stage] / ".kafka_cleanshutdown").exists()
    assert (STAGES[f"{stage}-recovered"] / ".kafka_cleanshutdown").is_file()
    assert any(path.read_bytes().endswith(bytes(100)) for path in STAGES[stage].glob("*/*.index")), "reserved"
    highs = {meta["topic"]: meta["high"] for meta in metas("unclean")}
    kept = {meta["topic"]: meta["high"] for meta in metas(f"{stage}-recovered")}
    assert kept.keys() == highs.keys()
    damage = MANIFEST["damage"].get(stage, {})
    assert all((kept[topic] < highs[topic]) == (f"{topic}-0" in damage) for topic in highs)
    assert bool(damage) == (stage != "unclean")
