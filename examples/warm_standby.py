"""A leader, a copy of it that counts, and a failover by hand, in one process: on two hosts it is the same calls.

    a leads, b follows and counts -> a is gone in the middle of writes -> b is promoted -> a comes back, and follows b

Everything that was acknowledged with acks="all" is there after the failover, once.

    python -m examples.warm_standby DIRECTORY
"""

import sys
import tempfile
import time
from pathlib import Path

import pylog

TOPIC = "flights"
SECONDS_MAX = 30.0


def write(servers: str, first: int, count: int) -> list[int]:
    """Send numbers, and give those that were acknowledged: every follower that counts has them."""
    with pylog.connect(servers) as log, log.producer(acks="all") as producer:
        futures = {number: producer.send(TOPIC, b"%d" % number) for number in range(first, first + count)}
        return [number for number, future in futures.items() if future.exception() is None]


def read(log: pylog.Log) -> list[int]:
    """The numbers in a log, in order."""
    return [int(record.value or b"") for record in log.topic(TOPIC)[0].records()]


def wait_for(log: pylog.Log, end: int) -> None:
    """Wait until a copy has come to an offset."""
    deadline = time.monotonic() + SECONDS_MAX
    while log.topic(TOPIC)[0].high_watermark < end:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the copy did not come to offset {end}")
        time.sleep(0.01)


def main(path: str | None = None) -> None:
    """Play the failover, in a directory that is given or made."""
    folder = Path(tempfile.mkdtemp(prefix="warm-standby-") if path is None else path)
    b = pylog.open(folder / "b", node_id=2)
    with pylog.open(folder / "a", node_id=1) as a, a.serve() as server:
        a.create_topic(TOPIC, exist_ok=True)
        a.lead(TOPIC, followers={2})
        b.follow(server.bootstrap_servers, [TOPIC])
        acknowledged = write(server.bootstrap_servers, 0, 1000)
        print(f"a leads, {len(acknowledged)} numbers are acknowledged")
    epochs = b.lead(TOPIC)
    with b, b.serve() as server:
        lost = set(acknowledged) - set(read(b))
        print(f"a is gone, b leads in epoch {epochs[0]}, {len(lost)} numbers are lost")
        acknowledged += write(server.bootstrap_servers, 1000, 500)
        with pylog.open(folder / "a") as a:
            a.follow(server.bootstrap_servers, [TOPIC])
            wait_for(a, b.topic(TOPIC)[0].next_offset)
            print(f"a follows b, both have the same {len(read(a))} numbers: {read(a) == read(b)}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
