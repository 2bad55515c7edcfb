"""Runs the steps in order, in a fresh directory `demo-data` in the project's root. A mismatch makes the exit code 1."""

import logging
import os
import shutil
import sys
from pathlib import Path

import pylog

from .append import append_flights
from .data import TOPIC, read_source
from .follow import follow_leader
from .kill import kill_writers
from .replay import replay_flights
from .report import MismatchError, Report
from .serve import serve_flights
from .spark import SparkStart, aggregate_in_spark
from .stream import stream_flights

FOLDER = Path(__file__).resolve().parents[2] / "demo-data"
LOG = str(FOLDER / "log")
FOLLOWER = str(FOLDER / "follower")
PICTURE = str(FOLDER / "delays.png")
STREAM = str(FOLDER / "stream")


def run(report: Report) -> None:
    """All eight steps. Raises MismatchError, and what pylog and Spark raise."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    report.title("pylog: a year of flights through a log")
    source = read_source()
    report.say(f"{len(source.lines):,} flights that left New York in 2013, from {os.path.basename(source.path)}.")
    with pylog.open(LOG) as log:
        append_flights(report, log, source)
    start = SparkStart(str(FOLDER))
    try:
        kill_writers(report, LOG)
        transport = pylog.MemoryTransport()
        with pylog.open(LOG, transport=transport) as log:
            replay_flights(report, log, source)
            follow_leader(report, log, transport, FOLLOWER)
            serve_flights(report, log, source)
            days = aggregate_in_spark(report, start, LOG, source, PICTURE)
            start.stop()
            stream_flights(report, log, source, STREAM, days)
    finally:
        start.stop()
    say_what_next(report)


def say_what_next(report: Report) -> None:
    """Step 8: where things are, and what to type."""
    report.step("Look around")
    installed = shutil.which("pylog", path=os.path.dirname(sys.executable))
    pylog_command = _relative(installed) if installed else "pylog"
    log = _relative(LOG)
    segment = os.path.join(log, f"{TOPIC}-0", f"{0:020}.log")
    report.figure("the log", log)
    report.figure("the follower's copy", _relative(FOLLOWER))
    report.figure("the picture", _relative(PICTURE))
    report.say("Three commands to try next:")
    report.command(f"{pylog_command} topic describe {TOPIC} --log {log}")
    report.command(f"{pylog_command} consume {TOPIC} --log {log} --from-beginning --max-records 3 --format json")
    report.command(f"{pylog_command} segment dump {segment} | head -12")
    report.title(f"Done in {report.seconds:.0f} seconds: everything agrees.")


def _relative(path: str) -> str:
    """The path from here, where that is shorter."""
    return min(os.path.relpath(path), path, key=len)


def main() -> int:
    """Run the demo; gives the exit code."""
    # The torn tails that pylog warns of are what step 2 is about: it reports them itself.
    logging.getLogger("pylog").setLevel(logging.ERROR)
    report = Report()
    try:
        run(report)
    except (MismatchError, pylog.PylogError, OSError, RuntimeError) as error:
        report.failed(str(error) or type(error).__name__)
        return 1
    except KeyboardInterrupt:
        report.failed("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
