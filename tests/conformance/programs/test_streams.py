"""Kafka Streams: a word count with a state store, exactly once, that is killed in the middle."""

import time
from collections import Counter
from pathlib import Path

from conformance.programs.conftest import Begin
from conformance.wire.conftest import Topics
from conformance.wire.servers import Server
from support.clients.values import until
from support.raw_client import WireClient
from support.wire_requests import Requests, records

SECONDS = 90.0
LINES = ["the quick brown fox", "the lazy dog", "a fox and a dog"]


def counts(requests: Requests, topic: str) -> dict[str, list[int]]:
    """All counts of each word that were committed, in order."""
    found: dict[str, list[int]] = {}
    for record in requests.read(topic, isolation=1):
        assert record.key is not None and record.value is not None
        found.setdefault(record.key.decode(), []).append(int.from_bytes(record.value, "big"))
    return found


def write(requests: Requests, topic: str, times: int) -> None:
    now = time.time_ns() // 1_000_000
    for _ in range(times):
        requests.produce(topic, records(*[line.encode() for line in LINES], timestamp=now))


def test_word_count_that_is_killed_counts_every_word_once(
    begin: Begin, server: Server, topics: Topics, wire: WireClient, tmp_path: Path
) -> None:
    requests, lines, counted = Requests(wire), topics.create(), topics.create()
    words = Counter(" ".join(LINES).split())
    names = (server.bootstrap_servers, topics.name(), lines, counted)

    write(requests, lines, 10)
    with begin("pylog.WordCount", *names, tmp_path / "first"):
        until(lambda: sum(map(len, counts(requests, counted).values())) > 20, patience=SECONDS)
        write(requests, lines, 40)
        # It is killed while it counts.
    killed_at = sum(map(len, counts(requests, counted).values()))
    # The other one has no state of its own: it reads the counts from their changelog.
    with begin("pylog.WordCount", *names, tmp_path / "second") as process:
        write(requests, lines, 10)
        wanted = {word: list(range(1, 60 * count + 1)) for word, count in words.items()}
        until(lambda: sum(map(len, counts(requests, counted).values())) >= 60 * words.total(), patience=SECONDS)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(SECONDS)

    assert counts(requests, counted) == wanted, f"killed after {killed_at}"
    assert process.returncode == 0
