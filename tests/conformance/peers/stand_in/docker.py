"""What aiokafka's tests ask of the package `docker`: the container that they start is pylog's server.

Its listeners for TLS, SASL and Kerberos are not there.
"""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conformance.wire.servers import SETTINGS, PylogServer


class Container:
    """A server at the address that the tests advertise."""

    def __init__(self, host: str, port: int, partitions: int) -> None:
        self._work = tempfile.TemporaryDirectory()
        work = Path(self._work.name)
        (work / "data").mkdir()
        settings = {**SETTINGS, "num.partitions": str(partitions), "node.id": "0"}
        self._server = PylogServer(work, settings, f"{host}:{port}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop()
        self._work.cleanup()

    def exec_run(self, *words: Any, **more: Any) -> tuple[int, bytes]:
        return 1, b"there is no shell"


def _run(*, environment: dict[str, Any], **more: Any) -> Container:
    return Container(
        environment["ADVERTISED_HOST"], environment["ADVERTISED_PORT"], environment["NUM_PARTITIONS"]
    )  # fmt: skip


def from_env() -> Any:
    return SimpleNamespace(containers=SimpleNamespace(run=_run), close=lambda: None)


models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
