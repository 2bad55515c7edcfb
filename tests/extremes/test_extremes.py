"""A few configs at their ends, on both kernels; `make extremes` takes all of them."""

from pathlib import Path

import pytest

import pylog
from extremes.campaign import LONG, Case, cases, faults, run
from pylog.errors import InvalidConfig


def test_a_config_that_once_bricked_a_topic_is_harmless() -> None:
    assert run([Case("topic", "segment.ms", LONG)]) == []


def test_every_kind_of_config_is_among_the_cases() -> None:
    found = list(cases())
    assert {case.kind for case in found} == {"topic", "node", "producer", "consumer"}
    assert len(found) == len(set(found)) > 400


def test_the_campaign_reports_each_outcome() -> None:
    case, good = Case("topic", "segment.ms", 1), [["append", 1], ["read", 2]]
    assert faults(case, good, good) == []
    for said in ("untyped", "stuck", "bricked"):
        assert f"pure: append {said} why" in faults(case, good, [["append", said, "why"]])[0]
    for other in ([["append", 1], ["read", 3]], good[:1]):
        assert "compiled says ['read', 2], pure" in faults(case, good, other)[0]


def test_a_buffer_without_room_for_a_key_is_refused_at_the_open(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"log\.cleaner\.dedupe\.buffer\.size=47"):
        pylog.open(tmp_path / "log", config={"log.cleaner.dedupe.buffer.size": 47})


@pytest.mark.parametrize("name", ["transaction.state.log.segment.bytes", "offsets.topic.segment.bytes"])
def test_a_segment_size_that_no_topic_can_have_is_refused_at_the_open(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name}=3000"):
        pylog.open(tmp_path / "log", config={name: 3000})
    with pylog.open(tmp_path / "log", config={name: 1 << 20}) as log, log.producer(transactional_id="x") as producer:
        log.create_topic("t")
        with producer.transaction():
            producer.send("t", b"v")
