"""A node of `follow_history`: a process that leads or follows until it is killed.

    python -m crash.follow_history_node PATH NODE CLIENTS REPLICAS ADVERTISED ROLE OTHER [LEADER]

It listens for clients at CLIENTS, and for its follower at REPLICAS, which is told ADVERTISED. ROLE is `lead`, `follow`
(the one at LEADER), or `promote`, which takes the lead of the named topics one by one: `promote:t`. It says "ready".
"""

import logging
import sys
import time

import pylog
from crash.follow_kill_node import CONFIG as KILL_CONFIG
from crash.follow_kill_node import TIMEOUT_MS
from pylog.errors import NetworkError, RequestTimedOut

TOPIC = "t"
CONFIG = {
    **KILL_CONFIG, "transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}  # fmt: skip


def main() -> None:
    path, node, clients, replicas, advertised, role, other, *leader = sys.argv[1:]
    logging.basicConfig(level=logging.ERROR)
    role, _, names = role.partition(":")
    with pylog.open(path, node_id=int(node), config=CONFIG) as log:
        if role == "lead" and TOPIC not in log.topics():
            log.create_topic(TOPIC)
            log.lead(TOPIC, followers={int(other)})
        for name in names.split(",") if role == "promote" else []:
            if name in log.topics(internal=True):
                log.lead(name, followers={int(other)})
        # It follows before it serves: until then an old leader that is back would answer as the leader that it was.
        while role == "follow":
            try:
                log.follow(leader[0], [TOPIC], request_timeout_ms=TIMEOUT_MS)
                break
            except (NetworkError, RequestTimedOut):
                time.sleep(0.02)
        listen = [f"CLIENTS://{clients}", f"REPLICAS://{replicas}"]
        log.serve(listen, advertise=[f"CLIENTS://{clients}", f"REPLICAS://{advertised}"])
        print("ready", flush=True)
        time.sleep(1e6)


if __name__ == "__main__":
    main()
