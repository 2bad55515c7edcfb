"""The server under attack: a log on a disk, at a plain listener, one of TLS and one of SASL.

    python -m fairness.server DIRECTORY CONFIGS_AS_JSON SERVE_OPTIONS_AS_JSON

Prints the addresses as a line of JSON, and serves until its standard input ends.
"""

import contextlib
import faulthandler
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pylog
from conformance.wire.pylog_server import KAFKA_ONLY
from conformance.wire.servers import SETTINGS, SOURCE, KafkaServer
from support.certificates import Authority
from support.raw_client import WireClient

TESTS = str(SOURCE.parent / "tests")
USERS = {"alice": "secret"}
TOPICS = ("attacked", "victim")


class Server:
    """A process under attack, and its addresses."""

    def __init__(self, process: "subprocess.Popen[str] | subprocess.Popen[bytes]", places: dict[str, str]) -> None:
        self.process = process
        self.addresses = {
            name: (place.rpartition(":")[0], int(place.rpartition(":")[2])) for name, place in places.items()
        }
        self.bootstrap_servers = places["PLAINTEXT"]
        with WireClient(self.bootstrap_servers) as wire:
            asked = [{"name": name, "numPartitions": 1, "replicationFactor": 1} for name in TOPICS]
            wire.ask("CreateTopics", {"topics": asked, "timeoutMs": 30_000})

    def memory_kib(self, name: str) -> int:
        """VmRSS, or VmHWM: the most since it was forgotten."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1])

    def forget_memory(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


@contextlib.contextmanager
def running(work: Path) -> Iterator[Server]:
    """pylog's server."""
    work.mkdir(parents=True)
    options: dict[str, object] = {"users": USERS}
    if shutil.which("openssl"):
        options |= Authority(work).server
    command = [sys.executable, "-m", "fairness.server", str(work / "data"), json.dumps(SETTINGS), json.dumps(options)]
    with (work / "server.log").open("a") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={"PYTHONPATH": f"{SOURCE}:{TESTS}"},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        yield Server(process, json.loads(process.stdout.readline()))
    finally:
        process.kill()
        with process:
            pass


@contextlib.contextmanager
def kafka(work: Path) -> Iterator[Server]:
    """A real Kafka, by a plain listener alone."""
    work.mkdir(parents=True)
    made = KafkaServer(work, {**SETTINGS, "num.partitions": "1"})
    made.start()
    try:
        assert made._process is not None
        yield Server(made._process, {"PLAINTEXT": made.bootstrap_servers})
    finally:
        made.kill()


def main(data: str, configs: str, options: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    known = {name: text for name, text in json.loads(configs).items() if name not in KAFKA_ONLY}
    serving = json.loads(options)
    listeners = ["PLAINTEXT://127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0"]
    listeners += ["SSL://127.0.0.1:0"] if "ssl_certificate_location" in serving else []
    with pylog.open(data, flush="none", config=known) as log, log.serve(listeners, **serving) as server:
        print(json.dumps({name: str(place) for name, place in server.addresses.items()}), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while sys.stdin.read(1):
                time.sleep(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
