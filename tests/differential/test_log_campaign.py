"""The campaign's own parts: a wrong answer is found, and no script is tried that could not be."""

from typing import Any

import pytest

from differential.log_campaign import asked, differences, is_possible
from pylog.protocol.batch import encode

HEADER: dict[str, Any] = {
    "seed": "0/0", "kind": "drawn", "dir": "t-0", "config": {"segment.bytes": 1500}, "transaction_verification": False,
}  # fmt: skip
BATCH = bytes(
    encode([(b"v", b"k", 1_700_000_000_000, ())], now_ms=0, producer_id=7, producer_epoch=0, base_sequence=0).data
)


def appended(**changed: Any) -> list[dict[str, Any]]:
    """A script that opens a log and appends a batch, as Kafka answers it but for what is `changed`."""
    opening = {"log_start_offset": 0, "recovery_point": 0, "clean_shutdown": True, "result": None}
    state, folder = [0, 0, 0, 0, 0, None, [0]], {f"{0:020d}.log": None}
    append = {"records": BATCH.hex(), "leader_epoch": 0, "origin": "CLIENT", "transaction_version": -1}
    result = {
        "first_offset": 0, "last_offset": 0, "max_timestamp": 1_700_000_000_000, "log_append_time": -1,
        "log_start_offset": 0, "valid_bytes": len(BATCH), "num_messages": 1, "last_leader_epoch": None,
    }  # fmt: skip
    after = [0, 0, 0, 1, len(BATCH), 0, [0]]
    return [
        {"op": "open", **opening, "state": state, "folder": folder},
        {"op": "append_as_leader", **append, "result": result, "state": after, "folder": folder} | changed,
    ]


def test_kafkas_answers_are_no_difference() -> None:
    assert differences(HEADER, appended()) == []


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"result": {"first_offset": 1, "last_offset": 1, "valid_bytes": 1}}, "Kafka gave"),
        ({"error": "OutOfOrderSequenceException"}, "Kafka raised OutOfOrderSequenceException"),
        ({"state": [0, 0, 0, 2, 70, 0, [0]]}, "Kafka's state is"),
        ({"folder": {f"{0:020d}.log": None, f"{1:020d}.snapshot": "00"}}, "1.snapshot should be there"),
        ({"folder": {}}, "0.log should not be there"),
    ],
)
def test_a_wrong_answer_is_found(changed: dict[str, Any], word: str) -> None:
    found = differences(HEADER, appended(**changed))
    assert found and word in found[0] and "op 1 append_as_leader" in found[0]


def test_what_breaks_kafkas_log_is_not_compared() -> None:
    assert differences(HEADER, appended(error="NullPointerException", broken=True)) == []


def test_a_question_has_no_answer_in_it() -> None:
    assert asked(appended()[1]).keys() == {"op", "records", "leader_epoch", "origin", "transaction_version"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["open", "roll", "close"], True),
        (["open", "close", "tamper", "open"], True),
        (["open", "open"], False),
        (["open", "close", "roll"], False),
        (["open", "abandon", "tamper", "open"], False),
        (["roll"], False),
    ],
)
def test_a_log_is_used_where_it_is_open(names: list[str], expected: bool) -> None:
    assert is_possible([{"op": name, "clean_shutdown": True} for name in names]) is expected
