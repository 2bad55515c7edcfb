"""Wrong requests: the error in the answer or the end of the connection, while other connections go on."""

import struct
from collections.abc import Iterator

import pytest
from crc32c import crc32c

from conformance.wire.conftest import Topics
from support.raw_client import DisconnectedError, WireClient
from support.wire_requests import LATEST, Requests, error_of, records

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18


@pytest.fixture
def other(wire: WireClient) -> Iterator[WireClient]:
    """A second connection, which has to go on whatever happens to the first."""
    with WireClient(wire.bootstrap_servers) as connection:
        yield connection
        assert connection.ask("Metadata", {"topics": []})["brokers"]


def is_closed_after(wire: WireClient, data: bytes, *, framed: bool = True) -> bool:
    (wire.send_frame if framed else wire.send_bytes)(data)
    try:
        wire.receive_frame()
    except DisconnectedError:
        return True
    return False


def test_version_of_the_future_of_api_versions_gets_the_oldest_answer(wire: WireClient) -> None:
    wire.send_frame(wire.header(API_VERSIONS, 99, True) + b"\x01\x01\x00")

    frame = wire.receive_frame()

    error, count = struct.unpack_from(">hi", frame, 4)
    keys = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", frame[10 : 10 + count * 6])}
    assert error == 35  # UNSUPPORTED_VERSION
    assert keys[API_VERSIONS] == wire.versions[API_VERSIONS]


@pytest.mark.parametrize("version", range(5))
def test_api_versions_of_each_version_are_the_same(wire: WireClient, version: int) -> None:
    body = {"clientSoftwareName": "wire", "clientSoftwareVersion": "1"} if version >= 3 else {}

    answer = wire.ask("ApiVersions", body, version=version)

    assert answer["errorCode"] == 0
    assert {PRODUCE, FETCH, METADATA, API_VERSIONS} < {key["apiKey"] for key in answer["apiKeys"]}


def test_name_of_the_software_has_to_be_one(wire: WireClient) -> None:
    answer = wire.ask("ApiVersions", {"clientSoftwareName": "a b!", "clientSoftwareVersion": "1"}, version=3)
    assert error_of(answer) == "INVALID_REQUEST"


@pytest.mark.parametrize(
    "header",
    [
        pytest.param((PRODUCE, 99), id="a version that is too high"),
        pytest.param((PRODUCE, 0), id="a version that is too old"),
        pytest.param((FETCH, -1), id="a negative version"),
        pytest.param((9999, 0), id="an unknown key"),
        pytest.param((-5, 0), id="a negative key"),
    ],
)
def test_connection_is_closed_for(wire: WireClient, other: WireClient, header: tuple[int, int]) -> None:
    key, version = header
    assert is_closed_after(wire, struct.pack(">hhih", key, version, 1, -1) + b"\x00" * 20)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="an empty frame"),
        pytest.param(b"\x00", id="a frame without a header"),
        pytest.param(struct.pack(">hhih", METADATA, 1, 1, 30_000), id="a client id that is cut off"),
        pytest.param(struct.pack(">hhihi", METADATA, 1, 1, -1, 10**9), id="an array longer than the frame"),
        pytest.param(struct.pack(">hhihi", METADATA, 1, 1, -1, 1) + b"\x7f\xffa", id="a string longer than the frame"),
    ],
)
def test_connection_is_closed_after(wire: WireClient, other: WireClient, frame: bytes) -> None:
    assert is_closed_after(wire, frame)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_connection_is_closed_for_a_frame_of_size(wire: WireClient, other: WireClient, size: int) -> None:
    assert is_closed_after(wire, struct.pack(">i", size), framed=False)


def damaged(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


def stamped(timestamp: int) -> bytes:
    """A batch whose only record has this timestamp, with its CRC."""
    checked = GOOD[21:27] + struct.pack(">qq", timestamp, timestamp) + GOOD[43:]
    return GOOD[:CRC] + struct.pack(">I", crc32c(checked)) + checked


GOOD = records(b"value")
CRC, MAGIC, ATTRIBUTES = 17, 16, 22


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(damaged(GOOD, CRC, GOOD[CRC] ^ 1), "CORRUPT_MESSAGE", id="a wrong CRC"),
        pytest.param(damaged(GOOD, len(GOOD) - 1, 7), "CORRUPT_MESSAGE", id="a damaged record"),
        pytest.param(damaged(GOOD, MAGIC, 9), "CORRUPT_MESSAGE", id="an unknown magic"),
        pytest.param(GOOD[:40], "INVALID_RECORD", id="a batch that is cut off"),
        pytest.param(GOOD + GOOD, "INVALID_RECORD", id="two batches"),
        pytest.param(b"", "INVALID_RECORD", id="no batch"),
    ],
)
def test_batch_is_refused_for(wire: WireClient, topics: Topics, data: bytes, error: str) -> None:
    requests, topic = Requests(wire), topics.create()

    part = requests.produce(topic, data)

    assert (error_of(part), part["baseOffset"]) == (error, -1)
    assert requests.offset(topic, LATEST) == 0


def test_timestamp_before_1970_is_stored(wire: WireClient, topics: Topics) -> None:
    requests, topic = Requests(wire), topics.create()

    assert error_of(requests.produce(topic, stamped(-5))) == "NONE"

    stored = requests.fetch(topic, 0)["records"]
    assert stored[27:35] + stored[43:] == stamped(-5)[27:35] + stamped(-5)[43:]
    assert struct.unpack(">q", stored[35:43]) == (-1,), "no largest time is below that"


def test_record_without_a_key_is_refused_by_a_compacted_topic(wire: WireClient, topics: Topics) -> None:
    requests, topic = Requests(wire), topics.create(cleanup_policy="compact")

    part = requests.produce(topic, GOOD)

    assert error_of(part) == "INVALID_RECORD"
    assert part["recordErrors"][0]["batchIndex"] == 0


def test_records_for_what_does_not_exist_are_refused(wire: WireClient, topics: Topics) -> None:
    requests, topic = Requests(wire), topics.create()

    assert error_of(requests.produce(topics.name(), GOOD, version=12)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_of(requests.produce(topic, GOOD, partition=3)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_of(requests.fetch(topic, 0, partition=3)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_of(requests.list_offsets(topic, LATEST, partition=3)) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_acks_that_do_not_exist_are_refused(wire: WireClient, topics: Topics) -> None:
    assert error_of(Requests(wire).produce(topics.create(), GOOD, acks=7)) == "INVALID_REQUIRED_ACKS"


def test_control_batch_of_a_client_is_refused(wire: WireClient, topics: Topics) -> None:
    requests, topic = Requests(wire), topics.create()
    assert error_of(requests.produce(topic, records(b"x", control=True))) == "INVALID_RECORD"


def test_transactional_batch_without_a_transactional_id_is_refused(wire: WireClient, topics: Topics) -> None:
    requests, topic = Requests(wire), topics.create()
    data = records(b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)

    assert error_of(requests.produce(topic, data)) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("name", ["", "a b", "x" * 250])
def test_metadata_of_a_name_that_is_none_says_so(wire: WireClient, name: str) -> None:
    (found,) = Requests(wire).metadata(name)["topics"]
    assert error_of(found) == "INVALID_TOPIC_EXCEPTION"


def test_requests_of_a_connection_are_answered_in_order(wire: WireClient, topics: Topics) -> None:
    topic = topics.create()
    body = {"acks": -1, "timeoutMs": 1000, "topicData": [
        {"name": topic, "partitionData": [{"index": 0, "records": GOOD}]}]}  # fmt: skip
    for _ in range(20):
        wire.send("Produce", body, version=9)
        wire.send("Metadata", {"topics": []}, version=9)

    for number in range(20):
        answer = wire.receive("Produce", 9)
        assert answer["responses"][0]["partitionResponses"][0]["baseOffset"] == number
        wire.receive("Metadata", 9)


def test_request_that_comes_byte_by_byte_is_answered(wire: WireClient) -> None:
    frame = wire.header(METADATA, 1, False) + struct.pack(">i", 0)
    for byte in struct.pack(">i", len(frame)) + frame:
        wire.send_bytes(bytes([byte]))

    assert wire.receive("Metadata", 1)["topics"] == []
