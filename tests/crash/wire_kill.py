"""Kill a server under three clients as often as one wants: what `make wire-kill` runs.

    python -m crash.wire_kill 200                  so many kills
    python -m crash.wire_kill 20 --seed 7          with other moments

After each start, what was acknowledged before is there: the offsets of producers, and the commits of a consumer. In the
end every record of an idempotent producer lies in its topic once, in order, at the offset that was acknowledged, and a
reader has seen nothing else.
"""

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.wire.servers import PylogServer
from crash.kills import command
from crash.wire_kill_clients import AioProducer, CommittingConsumer, ConfluentProducer, Load
from support.clients.values import until
from support.raw_client import WireClient
from support.wire_requests import LATEST, Requests

ALIVE_SECONDS = 0.6
TOPICS = ("confluent", "aio")


def run(kills: int, seed: int = 0) -> str:
    """Kill a server so often. Gives what the clients did. Raises AssertionError."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="pylog-wire-kill-") as work:
        (Path(work) / "data").mkdir()
        server = PylogServer(Path(work))
        server.start()
        try:
            return _killed(server, kills, chance)
        finally:
            server.stop()


def _killed(server: PylogServer, kills: int, chance: random.Random) -> str:
    with WireClient(server.bootstrap_servers) as wire:
        made = [{"name": name, "numPartitions": 1, "replicationFactor": 1} for name in TOPICS]
        wire.ask("CreateTopics", {"topics": made, "timeoutMs": 30_000})
    producers = [
        ConfluentProducer(server.bootstrap_servers, TOPICS[0]),
        AioProducer(server.bootstrap_servers, TOPICS[1]),
    ]
    consumer = CommittingConsumer(server.bootstrap_servers, TOPICS[0], "readers")
    loads: list[Load] = [*producers, consumer]
    for load in loads:
        load.start()
    for load in producers:
        until(lambda load=load: load.acknowledged or load.failed)  # type: ignore[misc]
    for life in range(kills):
        time.sleep(chance.uniform(0.0, ALIVE_SECONDS))
        server.kill()
        owed = [load.highest for load in producers], consumer.committed
        server.start()
        with WireClient(server.bootstrap_servers) as wire:
            _check_ends(Requests(wire), *owed, f"life {life}")
        assert not any(load.failed for load in loads), [load.failed[:3] for load in loads]
    for load in producers:
        load.end()
    until(lambda: len(consumer.seen) >= producers[0].sent or consumer.failed)
    consumer.end()
    with WireClient(server.bootstrap_servers) as wire:
        logs = [_check_log(Requests(wire), load) for load in producers]
    wrong = {offset for offset, number in consumer.seen.items() if logs[0][offset] != number}
    assert not wrong, f"the consumer has seen what is not there at {sorted(wrong)[:5]}"
    return f"{[len(log) for log in logs]} records sent once, {len(consumer.seen)} seen, {consumer.committed} committed"


def _check_ends(requests: Requests, offsets: Sequence[int], committed: int, when: str) -> None:
    """The topics reach to what was acknowledged, and so does the group's offset."""
    for name, offset in zip(TOPICS, offsets, strict=True):
        end = requests.offset(name, LATEST)
        assert end > offset, f"{when}: {name} ends at {end}, and {offset} was acknowledged"
    asked = {"groups": [{"groupId": "readers", "topics": [{"name": TOPICS[0], "partitionIndexes": [0]}]}]}
    (found,) = requests.wire.ask("OffsetFetch", asked, version=9)["groups"]
    offset = found["topics"][0]["partitions"][0]["committedOffset"]
    assert offset >= committed or not committed, f"{when}: {offset} is committed, and {committed} was acknowledged"


def _check_log(requests: Requests, load: Load) -> list[int]:
    """The numbers of a topic: all that were sent, once and in order, where they were acknowledged."""
    numbers = [int(record.value or b"") for record in requests.read(load.topic)]
    assert numbers == list(range(load.sent)), f"{load.name}: {_difference(numbers, load.sent)}"
    wrong = {number: offset for number, offset in load.acknowledged.items() if numbers[offset] != number}
    assert not wrong, f"{load.name}: acknowledged elsewhere than they are: {dict(list(wrong.items())[:5])}"
    assert len(load.acknowledged) == load.sent, f"{load.name}: {load.sent - len(load.acknowledged)} without an answer"
    return numbers


def _difference(numbers: list[int], sent: int) -> str:
    at = next((at for at, number in enumerate(numbers) if number != at), len(numbers))
    return f"{len(numbers)} records of {sent}, and from offset {at} on {numbers[at : at + 10]}"


if __name__ == "__main__":
    sys.exit(command("Kill a server under three clients.", run))
