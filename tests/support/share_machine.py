"""Steps of a share partition's machine, each of which holds its invariants."""

from pylog.coordinator.share.share_partition import (
    Acknowledgement,
    Acquired,
    Limits,
    SharePartition,
    StateWrite,
    Wanted,
)

LIMITS = Limits(delivery_count=5, record_locks=2000, lock_ms=100)
ALL = Wanted(500, 500)
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def taken(
    machine: SharePartition, *batches: range, wanted: Wanted = ALL, limits: Limits = LIMITS, member: str = "ann",
    now_ms: int = 0, aborted: tuple[range, ...] = (),
) -> list[Acquired]:  # fmt: skip
    found = machine.acquire(member, machine.next_fetch_offset, batches, wanted, limits, now_ms, aborted)
    machine.check()
    return found


def said(machine: SharePartition, first: int, last: int, *types: int, member: str = "ann", now_ms: int = 0) -> None:
    machine.acknowledge(member, [Acknowledgement(first, last, types)], LIMITS, now_ms)
    machine.check()


def written(machine: SharePartition) -> StateWrite | None:
    write = machine.take_write()
    if write is not None:
        machine.written()
        machine.check()
    return write
