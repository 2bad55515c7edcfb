"""Programs that know nothing of the server but its address, each run on the servers of `PYLOG_SERVERS`.

A program that is absent here is skipped, with what would install it.
"""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.dump_log import JARS, JAVA, QUIET
from conformance.wire.conftest import server, topics, wire  # noqa: F401
from support.clients.java import CLASSES

collect_ignore_glob = [] if os.environ.get("PYLOG_SERVERS") else ["test_*.py"]
Begin = Callable[..., contextlib.AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Starts a class in a JVM, whose output goes to the file `out` of the test's folder; it is killed at the end."""

    @contextlib.contextmanager
    def begin(name: str, *words: object) -> Iterator[subprocess.Popen[str]]:
        if not (CLASSES / "pylog").exists() or not list(JARS.glob("kafka-streams*")):
            pytest.skip("the Java programs are absent: run `make programs`")
        *options, _, jars = JAVA
        command = [options[0], QUIET, *options[1:], "-cp", f"{CLASSES}:{jars}", name, *map(str, words)]
        with (tmp_path / "out").open("a") as out:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True)
        with process:
            try:
                yield process
            finally:
                process.kill()

    return begin
