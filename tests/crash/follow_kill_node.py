"""A node of `follow_kill`: a process that leads or follows until it is killed.

    python -m crash.follow_kill_node PATH NODE CLIENTS REPLICAS ADVERTISED lead|promote|follow OTHER [LEADER]

It listens for clients at CLIENTS, and for its follower at REPLICAS, which is told ADVERTISED. `promote` takes the lead
from the other node, `follow` follows the one at LEADER. It says "ready" when it leads, or follows.
"""

import logging
import sys
import time

import pylog
from pylog.errors import NetworkError, RequestTimedOut

TOPIC = "t"
CONFIG = {
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,REPLICAS:PLAINTEXT", "replica.fetch.backoff.ms": 20,
    "log.segment.bytes": 1 << 20, "replica.fetch.wait.max.ms": 100, "replica.lag.time.max.ms": 300,
}  # fmt: skip
TIMEOUT_MS = 500


def main() -> None:
    path, node, clients, replicas, advertised, role, other, *leader = sys.argv[1:]
    logging.basicConfig(level=logging.ERROR)
    with pylog.open(path, node_id=int(node), config=CONFIG) as log:
        if role == "lead" and TOPIC not in log.topics():
            log.create_topic(TOPIC, config={"min.insync.replicas": 2})
        if role == "promote" or (role == "lead" and log.topic(TOPIC)[0].leader_epoch < 0):
            log.lead(TOPIC, followers={int(other)})
        listen = [f"CLIENTS://{clients}", f"REPLICAS://{replicas}"]
        log.serve(listen, advertise=[f"CLIENTS://{clients}", f"REPLICAS://{advertised}"])
        while role == "follow":
            try:
                log.follow(leader[0], [TOPIC], request_timeout_ms=TIMEOUT_MS)
                break
            except (NetworkError, RequestTimedOut):
                time.sleep(0.02)
        print("ready", flush=True)
        time.sleep(1e6)


if __name__ == "__main__":
    main()
