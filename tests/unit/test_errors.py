"""The tree of exceptions: what a message says, codes and names, and that all of them survive a pickle."""

import pickle
from collections.abc import Iterator

import pytest

from pylog import errors
from pylog.errors import (
    BufferExhausted,
    CorruptBatch,
    DirectoryLocked,
    DurabilityUnknown,
    NoOffsetForPartition,
    OffsetOutOfRange,
    PartitionFailed,
    ProtocolError,
    PylogError,
    RecordTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownServer,
    for_code,
)


def all_below(kind: type[PylogError]) -> Iterator[type[PylogError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from all_below(below)


EVERY = sorted({kind for kind in all_below(PylogError) if kind.__module__ == errors.__name__}, key=lambda k: k.__name__)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_survives_a_pickle_with_its_message(kind: type[PylogError]) -> None:
    assert kind.__doc__
    error = kind("what is wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))
    assert "what is wrong" in str(copy)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({}, "bad crc"),
        ({"path": "t-0/0.log"}, "t-0/0.log: bad crc"),
        ({"position": 0}, "position 0: bad crc"),
        ({"offset": 7}, "offset 7: bad crc"),
        ({"path": "t-0/0.log", "position": 61, "offset": 7}, "t-0/0.log, position 61, offset 7: bad crc"),
    ],
)
def test_corrupt_bytes_say_where(where: dict[str, object], message: str) -> None:
    error = CorruptBatch("bad crc", **where)  # type: ignore[arg-type]
    copy = pickle.loads(pickle.dumps(error))
    for each in (error, copy):
        assert str(each) == message
        assert each.reason == "bad crc"
        assert (each.path, each.position, each.offset) == tuple(map(where.get, ("path", "position", "offset")))


@pytest.mark.parametrize("pid", [None, 4711])
def test_a_locked_directory_names_its_owner(pid: int | None) -> None:
    error = DirectoryLocked("data is in use", pid)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.pid) == (str(error), error.pid) == ("data is in use", pid)


def test_codes_lead_to_classes_and_back() -> None:
    assert for_code(1) is OffsetOutOfRange
    assert (OffsetOutOfRange.code, OffsetOutOfRange.kafka_name) == (1, "OFFSET_OUT_OF_RANGE")
    assert (RecordTooLarge.code, RecordTooLarge.kafka_name) == (10, "MESSAGE_TOO_LARGE")
    assert for_code(-1) is UnknownServer
    for kind in all_below(ProtocolError):
        if "code" in vars(kind) and kind is not ProtocolError:
            assert issubclass(kind, ProtocolError)
            assert for_code(kind.code) is kind


def test_an_unknown_code_is_an_error_and_code_0_is_none() -> None:
    assert for_code(32_000) is UnknownServer
    with pytest.raises(ValueError, match="no error"):
        for_code(0)


def test_errors_of_clients_alone_take_no_code() -> None:
    assert for_code(RequestTimedOut.code) is RequestTimedOut
    assert (BufferExhausted.code, BufferExhausted.retriable) == (RequestTimedOut.code, True)
    assert for_code(NoOffsetForPartition.code) is UnknownServer


def test_retriable_errors_are_marked() -> None:
    assert RequestTimedOut.retriable
    assert errors.DiskFull.retriable
    assert not OffsetOutOfRange.retriable
    assert not PartitionFailed.retriable


def test_errors_are_in_the_documented_branches() -> None:
    assert issubclass(DurabilityUnknown, PartitionFailed)
    assert issubclass(PartitionFailed, StorageError)
    assert not issubclass(StorageError, ProtocolError)
