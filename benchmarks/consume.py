"""Reading everything back as records, oldest first: a consumer's lists and its iteration, against other readers.

All files are in the page cache. pylog gives offset, time, key, value and headers of each record and checks each batch's
CRC, as aiokafka's compiled decoder does, which reads the same files without a broker; sqlite3 selects offset, time, key
and value; lmdb iterates offset and value. "lists" hands over up to 1,000 records at once, "for" one at a time. Every
value is looked at, but where it says "handed over": there the records are made and dropped, by all.
"""

import itertools
import os
from pathlib import Path

import peers
import pylog
from harness import MIB, VALUE_BYTES, at_least, keys_and_values, measure, report, scaled, scratch, stopwatch
from pylog.kernel import walk

AT_ONCE = 1_000
COUNT = scaled(usual=300_000, quick=10_000)
ROUNDS = scaled(usual=9, quick=2)


def fill(folder: Path) -> None:
    rows = keys_and_values(COUNT)
    with pylog.open(folder / "log", flush="none") as log:
        partition = log.create_topic("bench")[0]
        for some in peers.chunks([pylog.Record(value, key) for key, value in rows]):
            partition.append(some)
    peers.sqlite_fill(folder, rows)
    try:
        peers.lmdb_fill(folder, rows)
    except ModuleNotFoundError:
        return  # `measure` says so


def handed_over(log: pylog.Log) -> float:
    with log.consumer("bench", auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
        taken, left = stopwatch(), COUNT
        while left:
            left -= len(consumer.poll(timeout_ms=10_000))
        return taken() / COUNT


def lists(log: pylog.Log) -> float:
    with log.consumer("bench", auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
        taken, size, left = stopwatch(), 0, COUNT
        while left:
            records = consumer.poll(timeout_ms=10_000)
            left -= len(records)
            for record in records:
                size += len(record.value)
        return checked(taken(), size)


def one_at_a_time(log: pylog.Log) -> float:
    with log.consumer("bench", auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
        taken, size = stopwatch(), 0
        for record in itertools.islice(consumer, COUNT):
            size += len(record.value)
        return checked(taken(), size)


def aiokafka_rows(path: Path, cuts: list[int], *, look: bool = True) -> float:
    """Decode the file in pieces of about a MiB, which end where a batch does."""
    from aiokafka.record.memory_records import MemoryRecords

    descriptor = os.open(path, os.O_RDONLY)
    taken, size = stopwatch(), 0
    for start, end in itertools.pairwise(cuts):
        records = MemoryRecords(os.pread(descriptor, end - start, start))
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            if look:
                for record in batch:
                    size += len(record.value)
            else:
                for _ in batch:
                    pass
    seconds = taken()
    os.close(descriptor)
    return checked(seconds, size) if look else seconds / COUNT


def pieces(path: Path) -> list[int]:
    """Where to cut a log so that no piece is over a MiB by more than a batch."""
    cuts = [0]
    spans, end, _ = walk(path.read_bytes())
    for span in spans:
        if span.position - cuts[-1] >= MIB:
            cuts.append(span.position)
    return [*cuts, end]


def checked(seconds: float, size: int) -> float:
    assert size == COUNT * VALUE_BYTES, f"{size} bytes of values were read, {COUNT * VALUE_BYTES} were written"
    return seconds / COUNT


def main() -> None:
    with scratch() as folder:
        fill(folder)
        (path,) = (folder / "log" / "bench-0").glob("*.log")
        cuts = pieces(path)
        with pylog.open(folder / "log", flush="none") as log:
            measured = measure(
                {
                    "handed over": lambda: handed_over(log),
                    "lists": lambda: lists(log),
                    "for": lambda: one_at_a_time(log),
                    "lmdb iteration": lambda: peers.lmdb_rows(folder),
                    "lmdb, handed over": lambda: peers.lmdb_rows(folder, look=False),
                    "aiokafka's decoder": lambda: aiokafka_rows(path, cuts),
                    "aiokafka's decoder, handed over": lambda: aiokafka_rows(path, cuts, look=False),
                    "sqlite3, lists": lambda: peers.sqlite_rows(folder, AT_ONCE),
                    "sqlite3, for": lambda: peers.sqlite_rows(folder, None),
                    **peers.queue_ways(reading=True),
                },
                ROUNDS,
            )
    report(
        "consume",
        [
            measured.speed("poll, lists", "lists", "lmdb iteration", at_least(1.9)),
            measured.speed("poll, lists", "lists", "aiokafka's decoder", at_least(2.4)),
            measured.speed("poll, lists", "lists", "sqlite3, lists"),
            measured.speed("poll, lists handed over", "handed over", "lmdb, handed over"),
            measured.speed("poll, lists handed over", "handed over", "aiokafka's decoder, handed over"),
            measured.speed("a for loop", "for", "lmdb iteration", at_least(1.35)),
            measured.speed("a for loop", "for", "aiokafka's decoder", at_least(1.8)),
            measured.speed("a for loop", "for", "sqlite3, for"),
            *(measured.speed("a for loop", "for", name) for name in peers.QUEUES),
        ],
        records=COUNT,
        records_in_a_list=AT_ONCE,
        records_of_queues=peers.FEW,
    )


if __name__ == "__main__":
    main()
