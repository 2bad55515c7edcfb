"""Kill a leader, its follower, or both, over a bad network, as often as one wants: what `make follow-kill` runs.

    python -m crash.follow_kill 200                so many kills
    python -m crash.follow_kill 20 --seed 7        with other moments

A producer writes all the while, with acks=all and a follower that leaves the ISR and joins it again. With
min.insync.replicas=2 nothing is acknowledged without it, so it may take over at any time. Some kills of the leader are
for good: the follower takes over by hand, in the middle of the writes, and the old leader comes back as its follower.
In the end both logs have the same bytes, and every record that was acknowledged lies where that was said, once.

A node that is killed twice before it could answer knows the last batch of a producer alone, as Kafka's snapshots have
no more. So a producer may be told OutOfOrderSequence, or hear nothing in time: it does not know whether a record is
there. Such records may be there once, or not at all.
"""

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pylog
from conformance.kafka_broker import free_port
from crash.follow_kill_node import TOPIC
from crash.kills import command
from pylog.errors import (
    NetworkError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    OutOfOrderSequence,
    RequestTimedOut,
)
from pylog.runtime.future import Future
from support.bad_network import BadNetwork
from support.clients.values import until
from support.copies import log_files

ALIVE_SECONDS = 0.8
PROMOTED = 0.2
"""How many of the kills of a leader are for good."""
BYTES_MAX = 200_000
PATIENCE_SECONDS = 90
DOUBTS = (OutOfOrderSequence, RequestTimedOut, NetworkError, NotEnoughReplicas, NotEnoughReplicasAfterAppend)
"""All but the first are the reason of a record's last attempt where its time was up by then."""
KEY = pylog.TopicPartition(TOPIC, 0)


class Node:
    """A node that can be started in a role, and killed."""

    module = "crash.follow_kill_node"

    def __init__(self, number: int, folder: Path, seed: int) -> None:
        self.number = number
        self.path = folder / f"node-{number}"
        self.clients, self.replicas = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.network = BadNetwork(self.replicas, seed, BYTES_MAX)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, role: str, other: "Node") -> None:
        words = [str(self.path), str(self.number), self.clients, self.replicas, self.network.address]
        words += [role, str(other.number), other.network.address]
        command = [sys.executable, "-m", self.module, *words]
        tests = str(Path(__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)

    def wait(self) -> None:
        """Wait until it leads, or follows."""
        assert self._process is not None and self._process.stdout is not None, "it was started"
        assert self._process.stdout.readline() == b"ready\n", f"node {self.number} did not come up"

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class Writer:
    """A producer that numbers its records and notes where they were acknowledged."""

    def __init__(self, addresses: list[str]) -> None:
        self.sent = 0
        self.acknowledged: dict[int, int] = {}
        self.failed: list[BaseException] = []
        self._log = pylog.connect(addresses)
        # Batches are small: a client that has asked the follower comes by the bad network, too, and a proxy that waits
        # for the leader to read on would keep the follower from fetching what the leader waits for.
        self._producer = self._log.producer(
            acks="all", batch_size=16 << 10, linger_ms=5, request_timeout_ms=2000, delivery_timeout_ms=60_000
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        draw = random.Random(1)
        while not self._ended.is_set():
            for _ in range(draw.randrange(1, 20)):
                number = self.sent
                sent = self._producer.send(TOPIC, b"%d " % number + draw.randbytes(draw.randrange(2000)))
                sent.add_done_callback(lambda done, number=number: self._done(number, done))
                self.sent += 1
            self._ended.wait(0.02)
            # No more than this is under way: the buffer would block.
            while self.sent - len(self.acknowledged) - len(self.failed) > 1000 and not self._ended.is_set():
                self._ended.wait(0.02)

    def _done(self, number: int, done: Future[pylog.RecordMetadata]) -> None:
        error = done.exception()
        if error is None:
            self.acknowledged[number] = done.result().offset
        else:
            self.failed.append(error)

    def end(self) -> None:
        """Send no more, and wait for the answers."""
        self._ended.set()
        self._thread.join()
        until(lambda: len(self.acknowledged) + len(self.failed) >= self.sent, patience=PATIENCE_SECONDS)
        self._log.close()


def run(kills: int, seed: int = 0) -> str:
    """Kill so often. Gives what has happened. Raises AssertionError."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="pylog-follow-kill-") as folder:
        nodes = [Node(number, Path(folder), seed + number) for number in (1, 2)]
        try:
            return _killed(nodes, kills, chance)
        finally:
            for node in nodes:
                node.kill()
                node.network.close()


def _killed(nodes: list[Node], kills: int, chance: random.Random) -> str:
    leader, follower = nodes
    leader.start("lead", follower)
    leader.wait()
    follower.start("follow", leader)
    follower.wait()
    writer = Writer([node.clients for node in nodes])
    promotions = made = 0
    while made < kills:
        for node in nodes:
            node.network.is_cutting = True
        time.sleep(chance.uniform(0.05, ALIVE_SECONDS))
        victims = chance.choice([[leader], [follower], [leader, follower]])
        for victim in victims:
            victim.kill()
        made += len(victims)
        if leader in victims and chance.random() < PROMOTED:
            promotions += 1
            follower.kill()
            leader, follower = follower, leader
            leader.start("promote", follower)
            leader.wait()
            follower.start("follow", leader)
            follower.wait()
            continue
        for victim in victims:
            victim.start("lead" if victim is leader else "follow", follower if victim is leader else leader)
        for victim in victims:
            victim.wait()
    for node in nodes:
        node.network.is_cutting = False
    writer.end()
    told = f"{promotions} promotions, {sum(node.network.cuts for node in nodes)} cuts, "
    told += f"{sum(node.network.swallowed for node in nodes)} silences"
    return f"{told}, {_check(leader, follower, writer)}"


def _check(leader: Node, follower: Node, writer: Writer) -> str:
    """The logs are the same, and have all that was acknowledged."""
    until(lambda: len({*_ends(leader), *_ends(follower)}) == 1, patience=PATIENCE_SECONDS)
    for node in (leader, follower):
        node.kill()
    found = []
    for node in (leader, follower):
        with pylog.open(node.path, node_id=node.number) as log:
            assert not log.recovered and not log.quarantined, f"node {node.number}: {log.recovered} {log.quarantined}"
            found.append(log_files(log, TOPIC))
            view = log.topic(TOPIC)[0]
            numbers = [int((record.value or b"").split()[0]) for record in view.records(0, view.next_offset)]
            there, told = set(numbers), {number: at for number, at in writer.acknowledged.items() if at >= 0}
            wrong = {number: at for number, at in told.items() if numbers[at : at + 1] != [number]}
            assert not wrong, f"node {node.number}: acknowledged elsewhere than they are: {list(wrong.items())[:5]}"
            # Of a batch that a node has forgotten, and has, the producer is not told the offset.
            lost = sorted(writer.acknowledged.keys() - there)
            assert not lost, f"node {node.number}: {len(lost)} acknowledged records are not there: {lost[:5]}"
            assert len(there) == len(numbers), f"node {node.number} has records twice"
    # A leader begins a segment for a batch before it sees that it has it already, as Kafka's does; its copy does not.
    whole = [b"".join(files.values()) for files in found]
    assert whole[0] == whole[1], f"the logs differ: {[sorted(files) for files in found]}"
    strange = [error for error in writer.failed if not isinstance(error, DOUBTS)]
    assert not strange, f"{len(strange)} records failed: {strange[:3]}"
    told = f"{len(writer.acknowledged)} records acknowledged in {len(found[0])} segments"
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(type(one).__name__ for one in writer.failed).items())
    return f"{told}, {len(writer.failed)} whose fate the producer does not know ({kinds or 'none'})"


def _ends(node: Node) -> tuple[int, int]:
    """The end of the log of a node, and its high watermark, as another process sees it."""
    with pylog.open(node.path, mode="read") as log:
        view = log.topic(TOPIC)[0]
        return view.next_offset, view.high_watermark


if __name__ == "__main__":
    sys.exit(command("Kill a leader and its follower over a bad network.", run))
