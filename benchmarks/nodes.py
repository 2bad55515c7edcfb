"""Servers to measure, each a process of its own: where clients reach it, and what it costs.

`served` runs `pylog serve`; `kafka_node.broker` runs Kafka.
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness import MIB, Skipped

TICKS = os.sysconf("SC_CLK_TCK")


class Node(NamedTuple):
    """A server."""

    name: str
    servers: str
    """Its bootstrap servers: one address."""
    pid: int

    @property
    def address(self) -> tuple[str, int]:
        """For a socket."""
        host, _, port = self.servers.rpartition(":")
        return host, int(port)

    def processor_seconds(self) -> float:
        """The processor time that it has used so far, to a hundredth of a second."""
        # The name of the process, in parentheses, may have spaces.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mib(self) -> float:
        """The memory that it has resident now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB


@contextlib.contextmanager
def served(log: Path | str, *words: str) -> Iterator[Node]:
    """Run `pylog serve` on the directory `log`, or in memory."""
    if not Path("/proc/self/stat").is_file():
        raise Skipped("a server's processor time is read from /proc, as Linux has it")
    command = [sys.executable, "-m", "pylog", "serve", "--log", str(log), "--listen", "127.0.0.1:0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r" at (\S+:\d+)", said := process.stdout.readline())
            assert found, said
            yield Node("pylog", found[1], process.pid)
        finally:
            # Not by SIGINT: what runs in the background of a shell ignores it, and so do its children.
            process.terminate()
            process.communicate(timeout=30)
