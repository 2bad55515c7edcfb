"""Step 2: a child process appends with flush="sync" and is killed (SIGKILL) at a random moment; then we look.

What must hold, for each of the runs: every record that was acknowledged is there, at the offset it was acknowledged
with; nothing is there that was not sent; the order is the order of sending. Records behind the acknowledged ones may be
there or not: they were under way.

A kill rarely tears a write, because the kernel finishes what it has begun; a power cut does. Where no kill left a torn
tail, one is made by hand before the last opening, and the report says so.
"""

import os
import random
import signal
import struct
import subprocess
import sys
import threading
from typing import NamedTuple

import pylog

from .report import Advance, Report, expect
from .writer import TOPIC, value_of

RUNS = 3
SECONDS_MIN = 0.2
SECONDS_MAX = 0.8
START_SECONDS_MAX = 30.0
BATCH_HEADER_BYTES = 61
LENGTH_POSITION = 8
UNCOUNTED_BYTES = 12


class Run(NamedTuple):
    """What a killed process had reported: the offset of each acknowledged record, by its number."""

    acknowledged: list[int]
    seconds: float


def kill_writers(report: Report, path: str) -> None:
    """Let processes write and kill them; open the directory after each, and compare. Nobody may own it meanwhile."""
    report.step("Kill a process while it writes")
    report.say(
        f'{RUNS} times a child process opens the same directory and appends with flush="sync"; it reports each '
        "acknowledged record through a pipe. We kill it with SIGKILL at a random moment, open the directory again and "
        "compare."
    )
    with pylog.open(path) as log:
        log.create_topic(TOPIC)
    runs: list[Run] = []
    torn: list[pylog.Recovered] = []
    for number in range(RUNS):
        with report.progress(f"run {number + 1}: records acknowledged until the kill") as advance:
            runs.append(_write_and_kill(path, number, advance))
        by_hand = number == RUNS - 1 and not torn and _tear(path)
        with pylog.open(path) as log:
            cut = [found for found in log.recovered if found.topic == TOPIC]
            _compare(report, log, runs)
        _say_torn(report, path, cut, by_hand)
        torn += cut
    acknowledged = sum(len(run.acknowledged) for run in runs)
    report.proved(f"all {acknowledged:,} acknowledged records are there, in order, and nothing that was not sent")


def _write_and_kill(path: str, number: int, advance: Advance) -> Run:
    child = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.writer", path, str(number)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    seconds = random.uniform(SECONDS_MIN, SECONDS_MAX)
    patience = threading.Timer(START_SECONDS_MAX, child.kill)
    patience.start()
    killer: threading.Timer | None = None
    acknowledged: list[int] = []
    for line in child.stdout:
        if killer is None:
            patience.cancel()
            killer = threading.Timer(seconds, child.kill)
            killer.start()
        # The kill may have cut the last line short: what was not reported whole was not acknowledged.
        if line.endswith("\n"):
            sent, offset = line.split()
            expect(int(sent) == len(acknowledged), f"record {sent} was acknowledged out of order")
            acknowledged.append(int(offset))
            advance(1)
    patience.cancel()
    words = child.stderr.read().strip()
    code = child.wait()
    child.stdout.close()
    child.stderr.close()
    if killer is not None:
        killer.cancel()
    expect(
        code == -signal.SIGKILL and bool(acknowledged),
        f"the writing process ended with code {code} before it could be killed: {words or 'it said nothing'}",
    )
    return Run(acknowledged, seconds)


def _compare(report: Report, log: pylog.Log, runs: list[Run]) -> None:
    """Hold the whole topic against what all runs so far have sent and reported."""
    records = list(log.topic(TOPIC)[0].records())
    position = 0
    for run_number, run in enumerate(runs):
        found = 0
        while position + found < len(records) and records[position + found].value == value_of(run_number, found):
            found += 1
        expected = list(range(position, position + len(run.acknowledged)))
        expect(
            run.acknowledged == expected and found >= len(run.acknowledged),
            f"run {run_number + 1}: {len(run.acknowledged):,} records were acknowledged from offset {position} on, "
            f"and the first {found:,} of them are there",
        )
        position += found
    expect(position == len(records), f"offset {position} holds a record that was never sent there")
    last = runs[-1]
    extra = found - len(last.acknowledged)
    report.figure(
        f"run {len(runs)}",
        f"killed after {last.seconds:.2f} s: {len(last.acknowledged):,} records acknowledged and found, "
        f"{extra:,} more were on their way",
    )


def _say_torn(report: Report, path: str, cut: list[pylog.Recovered], by_hand: bool) -> None:
    expect(bool(cut) or not by_hand, "half a batch was written behind the log, and opening did not cut it off")
    if by_hand:
        report.say(
            "None of the kills has torn a write: the kernel finishes what it has begun. A power cut would not, so we "
            "wrote half a batch behind the log ourselves before we opened it this last time:"
        )
    for found in cut:
        report.figure(
            "torn tail",
            f"{found.bytes_cut:,} bytes cut at position {found.position:,} (offset {found.offset:,}) of "
            f"{os.path.relpath(found.path, os.path.dirname(path))}",
        )
    if not cut:
        report.figure("torn tail", "none")


def _tear(path: str) -> bool:
    """Write the first half of a batch behind the last segment, as a power cut would leave it."""
    folder = os.path.join(path, f"{TOPIC}-0")
    segment = os.path.join(folder, max(name for name in os.listdir(folder) if name.endswith(".log")))
    with open(segment, "r+b") as file:
        data = file.read()
        position = 0
        while len(data) - position >= BATCH_HEADER_BYTES:
            size = struct.unpack_from(">i", data, position + LENGTH_POSITION)[0] + UNCOUNTED_BYTES
            if position + size > len(data):
                return False  # the kill has torn it already
            last, position = data[position : position + size], position + size
        # The next batch would begin with the offset behind the last one; last_offset_delta is at 23.
        base = struct.unpack_from(">q", last)[0] + struct.unpack_from(">i", last, 23)[0] + 1
        file.seek(position)
        file.write(struct.pack(">q", base) + last[8 : len(last) // 2])
    return True
