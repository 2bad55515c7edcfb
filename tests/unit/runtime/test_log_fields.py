"""Log records have what their messages name as fields, for formatters that write JSON."""

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pylog
from pylog.runtime.log_fields import partition_fields

SOURCE = Path(pylog.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "log"}
NAMES_A_PLACE = re.compile(r"%s-%d|offset %[ds]|node %d")


def test_the_name_of_a_partition_is_taken_apart_at_its_last_dash() -> None:
    assert partition_fields("a-b-12", offset=3) == {"topic": "a-b", "partition": 12, "offset": 3}


def calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls of loggers, and where they are."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"), attr=attr)) if attr in LEVELS:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_every_message_that_names_a_place_has_it_as_fields() -> None:
    found = list(calls())
    assert len(found) > 50
    lacking = [
        where
        for where, call in found
        if NAMES_A_PLACE.search("".join(text.value for text in call.args if isinstance(text, ast.Constant)))
        and not any(keyword.arg == "extra" for keyword in call.keywords)
    ]
    assert lacking == []


def test_a_torn_tail_says_where_it_was_in_fields(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        log.topic("t")[0].append([pylog.Record(b"x")])
    file = tmp_path / "t-0" / f"{0:020}.log"
    whole = file.stat().st_size
    with file.open("ab") as end:
        end.write(b"torn")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with caplog.at_level(logging.WARNING, "pylog.commitlog"), pylog.open(tmp_path) as log:
        assert len(log.topic("t")[0].segments) == 1
    (told,) = [vars(one) for one in caplog.records if "torn tail" in one.getMessage()]
    assert {name: told[name] for name in ("topic", "partition", "offset", "path", "position")} == {
        "topic": "t", "partition": 0, "offset": 1, "path": str(file), "position": whole
    }  # fmt: skip
