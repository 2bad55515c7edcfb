"""The integration tests of other clients, run against pylog's server: what `make peers` does.

    python -m conformance.peers.run kafka-python FOLDER     a checkout of dpkp/kafka-python
    python -m conformance.peers.run aiokafka FOLDER         a checkout of aio-libs/aiokafka

More words go to pytest. Tests that start brokers of their own (TLS, SASL, Kerberos, ACLs) are left out, and so are
those in `EXPECTED`, with the reason. Ends with 1 where another one fails.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.wire.servers import SETTINGS, PylogServer

TESTS = Path(__file__).parents[2]
SECURITY = "not sasl and not ssl and not acl and not kerberos and not oauth and not gssapi"
EXPECTED = {
    "kafka-python": {
        "test_create_describe_delete_acls": "there is no authorizer",
        "test_describe_configs_broker_resource": "the configs of a node do not name its listeners",
    },
    "aiokafka": {},
}
"""Tests that fail, and why."""
VERSION = "4.3.0"


@contextmanager
def kafka_python(folder: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The words for pytest and the environment: the broker that the tests use is one that is there."""
    (folder / "servers" / VERSION / "kafka-bin").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "data").mkdir()
        server = PylogServer(work, {**SETTINGS, "node.id": "0", "num.partitions": "4"})
        server.start()
        try:
            yield ["test/integration"], {"KAFKA_URI": f"kafka://{server.bootstrap_servers}", "KAFKA_VERSION": VERSION}
        finally:
            server.stop()


@contextmanager
def aiokafka(folder: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The same: the container that the tests start is a server (`stand_in/docker.py`)."""
    (folder / "tests" / "ssl_cert").mkdir(exist_ok=True)
    stand_in = str(Path(__file__).with_name("stand_in"))
    words = ["tests", "--docker-image", f"pylog/pylog:2.13_{VERSION}", "--no-pull"]
    path = f"{stand_in}:{os.environ['PATH']}"
    yield words, {"PYTHONPATH": f"{stand_in}:{TESTS}", "PATH": path, "AIOKAFKA_NO_EXTENSIONS": "1"}


PEERS = {"kafka-python": kafka_python, "aiokafka": aiokafka}


def main(peer: str, folder: str, *more: str) -> int:
    left_out = "".join(f" and not {name}" for name in EXPECTED[peer])
    with PEERS[peer](Path(folder).resolve()) as (words, environment):
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=native", "-ra",
            "--timeout", "120", "-W", "ignore::pytest.PytestRemovedIn10Warning", "-k", SECURITY + left_out, *words,
            *more,
        ]  # fmt: skip
        paths = [environment.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = ":".join(filter(None, paths))
        return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
