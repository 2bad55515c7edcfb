"""Fan-out: every group gets every record, and the members of a group share them.

    clicks ──┬──> "billing"    one member: all partitions
             └──> "search"     three members share the partitions, also when members change

Each group has positions of its own, which it commits, so it goes on where it stopped, however long it was away.

    python -m examples.fan_out [DIRECTORY]
"""

import sys
import threading
from collections import Counter

import pylog


def member(log: pylog.Log, group: str, name: str, seen: Counter[str], *, idle_ms: int = 1000) -> None:
    """A member of a group: reads until nothing comes any more. `seen` counts what each member got."""
    with log.consumer(
        "clicks", group_id=group, client_id=name, auto_offset_reset="earliest", consumer_timeout_ms=idle_ms
    ) as consumer:
        for _ in consumer:
            seen[f"{group}/{name}"] += 1


def main(path: str = ":memory:") -> None:
    """1,200 clicks, two groups, four members in threads."""
    with pylog.open(path) as log:
        log.create_topic("clicks", partitions=6, exist_ok=True)
        with log.producer() as producer:
            for number in range(1200):
                producer.send("clicks", b"page %d" % number, key=b"user-%d" % (number % 97))
        seen: Counter[str] = Counter()
        names = [("billing", "a"), ("search", "a"), ("search", "b"), ("search", "c")]
        threads = [threading.Thread(target=member, args=(log, *name, seen)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, count in sorted(seen.items()):
            print(name, count)
        for group in log.admin.list_groups():
            behind = sum(lag.lag or 0 for lag in log.admin.lag(group.group_id).values())
            print(f"group {group.group_id}: {group.state}, {behind} behind")


if __name__ == "__main__":
    main(*sys.argv[1:2])
