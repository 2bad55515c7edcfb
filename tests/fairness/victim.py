"""A client that only wants to work: it asks ApiVersions every 50 ms and appends a record every 100 ms.

    python -m fairness.victim HOST:PORT TOPIC

`begin` on standard input forgets the waits so far; `end` prints the longest waits since then as a line of JSON, those
that have not ended among them. It runs in a process of its own, so that no attacker holds it up.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from conformance.wire.servers import SOURCE
from support.raw_client import WireClient
from support.wire_requests import Requests, error_of, records

ASK_SECONDS, APPEND_SECONDS = 0.05, 0.1
END_SECONDS = 10.0
TESTS = str(SOURCE.parent / "tests")


class Waits(NamedTuple):
    """The longest waits of a victim in seconds, and what went wrong."""

    ask: float
    append: float
    error: str | None

    @property
    def longest(self) -> float:
        return max(self.ask, self.append)


class Victim:
    """A victim in a process of its own."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fairness.victim", bootstrap_servers, topic],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": f"{SOURCE}:{TESTS}"},
        )  # fmt: skip
        self.begin()
        self.end()

    def begin(self) -> None:
        """Forget the waits so far."""
        self._say("begin")

    def end(self) -> Waits:
        """The longest waits since `begin`."""
        assert self._process.stdout is not None
        self._say("end")
        return Waits(**json.loads(self._process.stdout.readline()))

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        with self._process:
            pass


class Watch:
    """The waits of the threads of a victim."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._longest: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self._error: str | None = None

    def repeat(self, name: str, seconds: float, call: Callable[[], object]) -> None:
        """Call again and again, and note how long that takes."""
        while True:
            with self._lock:
                self._began[name] = time.monotonic()
            try:
                call()
            except Exception as error:  # noqa: BLE001 - it is what is told
                self._error = f"{name}: {error!r}"
                return
            with self._lock:
                wait = time.monotonic() - self._began.pop(name)
                self._longest[name] = max(self._longest.get(name, 0.0), wait)
            time.sleep(seconds)

    def forget(self) -> None:
        with self._lock:
            self._longest.clear()
            now = time.monotonic()
            self._began = dict.fromkeys(self._began, now)

    def told(self) -> Waits:
        """The longest waits of both, where each has waited once at least."""
        until = time.monotonic() + END_SECONDS
        while self._error is None and len(self._longest) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        with self._lock:
            now = time.monotonic()
            found = {
                name: max(self._longest.get(name, 0.0), now - self._began.get(name, now)) for name in ("ask", "append")
            }
        return Waits(**found, error=self._error)


def main(bootstrap_servers: str, topic: str) -> None:
    watch = Watch()
    asking, appending = WireClient(bootstrap_servers), Requests(WireClient(bootstrap_servers))
    version = appending.wire.highest("Produce")
    batch = records(b"x", timestamp=time.time_ns() // 1_000_000)
    # Topics are named by their names up to this version.
    version = min(version, 12)

    def append() -> None:
        part = appending.produce(topic, batch, version=version)
        assert error_of(part) == "NONE", part

    works = {
        "ask": (ASK_SECONDS, lambda: asking.ask("ApiVersions", {}, version=0)),
        "append": (APPEND_SECONDS, append),
    }
    for name, (seconds, call) in works.items():
        threading.Thread(target=watch.repeat, args=(name, seconds, call), daemon=True).start()
    for line in sys.stdin:
        if line == "begin\n":
            watch.forget()
        else:
            print(json.dumps(watch.told()._asdict()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
