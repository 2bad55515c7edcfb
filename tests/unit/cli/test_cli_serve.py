"""`pylog serve`."""

import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from itertools import takewhile
from pathlib import Path

import pytest

import pylog
from pylog import kernel, serde
from pylog.cli import main
from pylog.cli.interrupts import interrupted_later
from pylog.cli.serve import read_users
from support.certificates import Authority, authority
from support.sasl_client import authenticate
from support.wire_client import WireClient

__all__ = ["authority"]

READY = "pylog: serving "


def served(*words: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name != "PYLOG_LOG"}
    return subprocess.Popen(
        [sys.executable, "-m", "pylog", "serve", "--listen", "127.0.0.1:0", *words], stderr=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip


def address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith(READY), line
    return line.partition(" at ")[2].partition(";")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_and_closes_the_log(tmp_path: Path, number: int) -> None:
    with served("--log", str(tmp_path / "log"), "--config", "num.partitions=3") as process:
        with WireClient(address(process)) as client:
            topics = client.ask("Metadata", 12, {"topics": [{"name": "t"}]})["topics"]
            process.send_signal(number)
            assert client.is_closed()
        _, rest = process.communicate()

    assert process.returncode == 0
    assert "stopped after 1 connection and 1 request" in rest
    assert len(topics[0]["partitions"]) == 3
    with pylog.open(tmp_path / "log") as log:
        assert (log.topics(), log.recovered) == (["t"], ())


STRUCK_IN_ANOTHER_THREAD = """
import signal, sys, threading, time
from pylog.cli import main

begins, sleep = threading.Event(), time.sleep

def nap(seconds):
    begins.set()
    sleep(seconds)

def strike():
    begins.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

time.sleep = nap
threading.Thread(target=strike, daemon=True).start()
sys.exit(main(["serve", "--listen", "127.0.0.1:0", "--log", ":memory:"]))
"""


def test_a_signal_that_ends_no_nap_stops_the_server() -> None:
    # It comes to another thread, or to the main one between its last look and its nap.
    done = subprocess.run([sys.executable, "-c", STRUCK_IN_ANOTHER_THREAD], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("stopped after")) == (0, 1)


def test_a_log_in_memory_is_served() -> None:
    with served("--log", ":memory:") as process:
        with WireClient(address(process)) as client:
            assert client.ask("Metadata", 12, {"topics": None})["topics"] == []
        process.terminate()
        process.communicate()

    assert process.returncode == 0


def test_what_no_first_request_needs_is_loaded_once_clients_can_connect() -> None:
    # Python says on stderr what it imports, in order.
    words = ["-X", "importtime", "-m", "pylog", "serve", "--log", ":memory:", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = (line.rpartition("|")[2].strip() for line in process.stderr)
        before = set(takewhile(lambda line: not line.startswith(READY), lines))
        last = next((line for line in lines if line == "pylog.client.consumer.client"), None)
        process.terminate()
        process.communicate()

    assert "pylog.server.server" in before
    # The pure kernel is what decodes where there is no other.
    of_kernel = {"pylog.kernel.pure.decode"} if kernel.NAME == "compiled" else set()
    assert not before & {"pylog.client.consumer.client", "pylog.coordinator.group.members", *of_kernel}
    assert last is not None


def test_a_signal_waits_for_the_end_of_what_it_must_not_interrupt() -> None:
    done = []
    # A job in the background begins with a SIGINT that is ignored.
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        with pytest.raises(KeyboardInterrupt), interrupted_later():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            done.append("whole")
        with interrupted_later():
            pass
        assert done == ["whole"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupted_later():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_metrics_are_served_beside_the_log() -> None:
    with served("--log", ":memory:", "--metrics", "127.0.0.1:0") as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        place, _, metrics = line.partition(" at ")[2].partition(";")[0].partition(", metrics at ")
        with WireClient(place) as client:
            client.ask("Metadata", 12, {"topics": None})
            with urllib.request.urlopen(metrics, timeout=240) as answer:
                assert b'kafka_network_requestmetrics_requests_total{request="Metadata"} 1.0' in answer.read()
        process.terminate()
        process.communicate()

    assert process.returncode == 0


def test_schemas_are_served_beside_the_log(tmp_path: Path) -> None:
    with served("--log", str(tmp_path / "log"), "--schema-registry", "127.0.0.1:0") as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        url = line.partition(", schemas at ")[2].partition(";")[0]
        assert serde.HttpRegistry(url, timeout=240).register("s", serde.Schema('"int"')) == 1
        process.terminate()
        process.communicate()

    assert process.returncode == 0
    with pylog.open(tmp_path / "log") as log:
        assert serde.LogRegistry(log).version("s").id == 1


def test_schemas_for_other_hosts_have_to_be_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["serve", "--log", ":memory:", "--listen", "127.0.0.1:0", "--schema-registry", "0.0.0.0:0"]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "other hosts reach 0.0.0.0:0" in capsys.readouterr().err


def test_metrics_on_a_unix_socket_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["serve", "--log", ":memory:", "--listen", "127.0.0.1:0", "--metrics", "unix:/tmp/x"]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "Prometheus reads from HOST:PORT" in capsys.readouterr().err


def test_listening_everywhere_without_an_address_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["serve", "--log", str(tmp_path / "log"), "--listen", "0.0.0.0:0"]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)

    assert "--advertise" in capsys.readouterr().err


def test_the_users_in_a_file_are_let_in_by_tls_and_sasl(tmp_path: Path, authority: Authority) -> None:
    users = tmp_path / "users"
    users.write_text("# mine\n\nalice:se:cret\n")
    certificate = authority.server
    words = ("--users", str(users), "--ssl-certificate-location", certificate["ssl_certificate_location"])
    listen = ("--listen", "SASL_SSL://127.0.0.1:0", "--ssl-key-location", certificate["ssl_key_location"])
    with served("--log", ":memory:", *words, *listen) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        _, secured = line.partition(" at ")[2].partition(";")[0].split(", ")
        tls = ssl.create_default_context(cafile=authority.cafile)
        with WireClient(secured.removeprefix("SASL_SSL://"), tls=tls) as client:
            assert authenticate(client, "SCRAM-SHA-256", "alice", "se:cret")["errorCode"] == 0
            assert client.ask("Metadata", 12, {"topics": None})["topics"] == []
        process.terminate()
        process.communicate()

    assert process.returncode == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [("alice", "line 1 is not NAME:PASSWORD"), ("a:b\n:x", "line 2 is not"), ("a:b\na:c", "names a a second time")],
)
def test_a_file_of_users_that_is_wrong_says_where(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "users").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_users(str(tmp_path / "users"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--listen", "0.0.0.0:0", "--advertise", "kafka:1"), "--allow-plaintext"),
        (("--listen", "SSL://127.0.0.1:0"), "--ssl-certificate-location"),
        (("--listen", "SASL://127.0.0.1:0"), "SASL has no security protocol"),
        (("--users", "/nowhere/users"), "/nowhere/users: No such file"),
    ],
)
def test_a_listener_that_is_not_safe_or_not_whole_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["serve", "--log", str(tmp_path / "log"), *words]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)

    assert told in capsys.readouterr().err
