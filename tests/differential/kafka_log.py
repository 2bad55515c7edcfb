"""The log of one partition by Kafka's own classes: operations go in, its answers come out.

The program is tests/conformance/java/pylog/PartitionLog.java; operations and answers are those of
`oracle.scripts.Replay`.
"""

import json
import subprocess
import tempfile
from types import TracebackType
from typing import Any, Self

from conformance.dump_log import JAVA, QUIET
from support.clients.java import CLASSES

Op = dict[str, Any]


class KafkaLog:
    """A JVM with one log at a time, which `begin` replaces. To be used in a `with` statement."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        *options, _, jars = JAVA[1:]
        quiet = QUIET.replace("warn", "off")
        self._process = subprocess.Popen(
            ["java", quiet, *options, "-cp", f"{CLASSES}:{jars}", "pylog.PartitionLog", self._folder.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def begin(self, script: dict[str, Any]) -> None:
        """Begin a script: its folder, config, and whether transactions are verified."""
        self._send({name: script[name] for name in ("dir", "config", "topic_id", "transaction_verification")})

    def answer(self, op: Op) -> Op:
        """The operation with its result or error, the state and the folder after it."""
        self._send(op)
        assert self._process.stdout is not None
        answered: Op = json.loads(self._process.stdout.readline())
        return answered

    def answers(self, script: dict[str, Any], ops: list[Op]) -> list[Op]:
        """The same for all operations of a script, up to one that breaks Kafka's log."""
        self.begin(script)
        answered: list[Op] = []
        for op in ops:
            answered.append(self.answer(op))
            if answered[-1].get("broken"):
                break
        return answered

    def _send(self, words: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
