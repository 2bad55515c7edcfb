"""The reading half of `pylog consume --share`: records that a share group lets this member have (KIP-932).

A record is accepted when its line is written: with the next poll, or at the end. What an error or Ctrl-C leaves
unwritten comes free, and is given again.
"""

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, cast

from pylog.cli.output import check_reader, say
from pylog.client.share_consumer.share_consumer import ShareConsumer
from pylog.errors import CorruptBatch, CorruptRecord, GroupIdNotFound
from pylog.handles.any_log import AnyLog
from pylog.record import ConsumerRecord

__all__ = ["shared_records"]

POLL_MS = 1000
"""The time of a poll, longer than a node waits for records: an empty poll means that no record is free."""


@contextmanager
def shared_records(
    log: AnyLog, group: str, topics: Sequence[str], *, limit: int | None, follow: bool, skips: bool,
    configs: dict[str, Any],
) -> Iterator[Iterator[list[ConsumerRecord]]]:  # fmt: skip
    """The records, as they come, up to `limit`; without `follow` as long as records are free.

    `skips`: damaged records, which are rejected, are said. Raises CorruptBatch or CorruptRecord for them without it.
    """
    client_id = configs.setdefault("client_id", f"pylog-consume-{uuid.uuid4().hex[:8]}")
    if limit is not None:
        # What is locked and not written would wait for nothing.
        configs |= {"max_poll_records": limit, "share_acquire_mode": "record_limit"}

    def is_assigned() -> bool:
        try:
            members = log.admin.describe_group(group).members
        except GroupIdNotFound:
            return False
        return any(one.assignment for one in members if one.client_id == client_id)

    with (
        log.share_consumer(*topics, group_id=group, **configs) as consumer,
        closing(_read(consumer, limit, None if follow else is_assigned, skips=skips)) as records,
    ):
        yield records


def _read(
    consumer: ShareConsumer, limit: int | None, is_assigned: Callable[[], bool] | None, *, skips: bool
) -> Generator[list[ConsumerRecord]]:
    found, was_assigned = 0, False
    while limit is None or found < limit:
        try:
            records = consumer.poll(POLL_MS)
        except (CorruptBatch, CorruptRecord) as error:
            if not skips:
                raise
            say(f"skipped: {error}")
            continue
        if not records:
            check_reader()
            if was_assigned:
                break
            # A new member gets its partitions after a while, and then a whole poll.
            was_assigned = is_assigned is not None and is_assigned()
            continue
        left = len(records) if limit is None else limit - found
        for record in records[left:]:
            consumer.acknowledge(record, "release")
        found += len(records[:left])
        # It has all the fields that are written.
        yield cast("list[ConsumerRecord]", records[:left])
    if not found:
        say("no record was free for this group; a new one begins at the end: see `pylog share reset`")
