"""Another process that has a log open, told what to do line by line."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = """
import json, sys
import pylog
from pylog import Record, TopicPartition

log = pylog.open(sys.argv[1], **json.loads(sys.argv[2]))
names = {"log": log, "pylog": pylog, "Record": Record, "TopicPartition": TopicPartition}
print(json.dumps(log.mode), flush=True)
for line in sys.stdin:
    statement, expression = json.loads(line)
    exec(statement, names)
    print(json.dumps(eval(expression, names)), flush=True)
log.close()
"""


class OtherProcess:
    """A process with `log`, a log at a path, among its names."""

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        command = [sys.executable, "-c", PROGRAM, os.fspath(path), json.dumps(dict(options))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.mode = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the other process has ended"
        return json.loads(line)

    def does(self, statement: str, expression: str = "None") -> Any:
        """The value of the expression there, after the statement."""
        self.begins(statement, expression)
        return self._answer()

    def says(self, expression: str) -> Any:
        """The value of the expression there."""
        return self.does("pass", expression)

    def begins(self, statement: str, expression: str = "None") -> None:
        """Let it do something, and do not wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([statement, expression]) + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it, in the middle of whatever it does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Let it stand still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> int:
        """Let it close its log and end. Gives how it ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()


@contextmanager
def other_process(path: Path, **options: Any) -> Iterator[OtherProcess]:
    """A process that has opened the log at `path` with these options of `open`."""
    process = OtherProcess(path, options)
    try:
        yield process
    finally:
        process.kill()
        process.end()
