"""Clients that mean harm, against a server in a process of its own: what it costs them, and what others notice."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from conformance.wire.servers import PylogServer
from pylog.protocol.batch import encode
from pylog.protocol.compression import Codec
from support.raw_client import DisconnectedError, WireClient
from support.wire_requests import Requests, error_of, records

MIB = 1 << 20
SLACK_MIB = 12
"""What a server takes for other things than the bytes of a request: a buffer of a read, a window of a codec."""

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="there is no /proc to say how much memory is used"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PylogServer]:
    work = tmp_path_factory.mktemp("hostile")
    (work / "data").mkdir()
    made = PylogServer(work)
    made.start()
    with WireClient(made.bootstrap_servers) as wire:
        asked = {"topics": [{"name": "t", "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": 1000}
        wire.ask("CreateTopics", asked)
        Requests(wire).produce("t", records(b"warm"))
    yield made
    made.stop()


@pytest.fixture
def wire(server: PylogServer) -> Iterator[WireClient]:
    with WireClient(server.bootstrap_servers) as made:
        yield made


def connected(server: PylogServer) -> socket.socket:
    host, port = server.bootstrap_servers.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 10)


def works(server: PylogServer, wire: WireClient) -> bool:
    """Whether another client is answered: a server that is held up gives no answer, a busy machine a late one."""
    try:
        return error_of(Requests(wire).produce("t", records(b"x", timestamp=time.time_ns() // MIB))) == "NONE"
    except TimeoutError:
        pytest.fail(f"another client is not answered:\n{server.stacks()[-5000:]}")


def test_a_frame_takes_no_more_than_twice_its_size(server: PylogServer, wire: WireClient) -> None:
    before, size = server.forget_memory(), 48
    garbage = bytearray(records(b"x"))
    garbage[8:12] = struct.pack(">i", size * MIB - 12)

    part = Requests(wire).produce("t", bytes(garbage) + bytes(size * MIB - len(garbage)))

    assert error_of(part) in {"CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE"}
    assert server.memory_mib() - before <= 2 * size + SLACK_MIB


def test_frames_that_never_come_take_nothing(server: PylogServer, wire: WireClient) -> None:
    before = server.forget_memory()
    with ExitStack() as closing:
        for _ in range(100):
            one = closing.enter_context(connected(server))
            one.sendall(struct.pack(">i", 100 * MIB) + bytes(1000))
        for _ in range(20):
            assert works(server, wire)

        assert server.memory_mib() - before <= SLACK_MIB


def test_clients_that_send_byte_by_byte_hold_nobody_up(server: PylogServer, wire: WireClient) -> None:
    frame = wire.header(3, 1, False) + struct.pack(">i", 0)
    data = struct.pack(">i", len(frame)) + frame
    with ExitStack() as closing:
        slow = [closing.enter_context(connected(server)) for _ in range(50)]
        for at in range(len(data)):
            for one in slow:
                one.sendall(data[at : at + 1])
            assert works(server, wire)
        answers = [one.recv(4) for one in slow]
    assert all(len(answer) == 4 for answer in answers)


def test_a_client_that_asks_without_end_and_never_reads_is_held_back(server: PylogServer, wire: WireClient) -> None:
    for _ in range(20):
        Requests(wire).produce("t", records(bytes(500_000), timestamp=time.time_ns() // MIB))
    before = server.forget_memory()
    request = wire.header(1, 4, False) + struct.pack(">iiiib", -1, 0, 1, 50 * MIB, 0)
    request += struct.pack(">ih1siiqi", 1, 1, b"t", 1, 0, 0, 50 * MIB)
    with connected(server) as greedy:
        greedy.settimeout(0.5)
        # More than all buffers between the two.
        with pytest.raises(TimeoutError):
            for _ in range(1000):
                greedy.sendall((struct.pack(">i", len(request)) + request) * 1000)
        for _ in range(20):
            assert works(server, wire)
    assert server.memory_mib() - before <= 2 * SLACK_MIB


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_records_that_grow_far_are_refused_without_their_memory(
    server: PylogServer, wire: WireClient, codec: Codec
) -> None:
    before = server.forget_memory()
    bomb = bytes(encode([(bytes(48 * MIB), None, 5, ())], now_ms=5, codec=codec).data)
    assert len(bomb) < MIB

    part = Requests(wire).produce("t", bomb)

    assert error_of(part) == "INVALID_RECORD"
    assert server.memory_mib() - before <= 2 * SLACK_MIB


def test_a_frame_of_tiny_elements_ends_its_connection(server: PylogServer, wire: WireClient) -> None:
    before = server.forget_memory()
    count = 5 * MIB
    with WireClient(server.bootstrap_servers) as bad:
        frame = bad.header(2, 1, False) + struct.pack(">ii", -1, count) + bytes(count * 6)
        with pytest.raises((DisconnectedError, ConnectionError)):
            bad.send_frame(frame)
            bad.receive_frame()

    assert server.memory_mib() - before <= 2 * (len(frame) // MIB) + SLACK_MIB
    assert works(server, wire)
