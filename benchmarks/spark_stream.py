"""Spark reads streams: pylog's source against a bare Python source, which reads nothing; the sink throws all away.

"trigger" is the time of a micro-batch of few records, "stream" that of a record in batches of 200,000. A trigger is
mostly Spark's own work: a plan, a checkpoint, a task of Python. "stream, servers" is the same from a pylog server in a
process of its own, over TCP. "memory of a worker" is the most that one Python process of Spark held in all of it.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from harness import VALUE_BYTES, Skipped, Way, at_least, at_most, figure, measure, report, scaled, scratch
from spark_scan import COUNT, PARTITIONS, session, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIGGERS = scaled(usual=15, quick=2)
FEW = 200
"""Records of a small batch."""
MANY = scaled(usual=200_000, quick=5_000)
ROUNDS = scaled(usual=5, quick=1)
MIB_MOST = 300
SERVE = """
import sys, pylog
with pylog.serve(sys.argv[1]) as server:
    print(server.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


def run(frame: "DataFrame", folder: Path) -> list[float]:
    """Seconds of each micro-batch of all that there is."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / uuid4().hex))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [one.durationMs["triggerExecution"] / 1000 for one in query.recentProgress if one.numInputRows]


def pylog_stream(spark: "SparkSession", most: int, **options: str) -> "DataFrame":
    reader = spark.readStream.format("pylog").option("subscribe", "bench").options(**options)
    return reader.option("maxOffsetsPerTrigger", most).load()


def bare_stream(spark: "SparkSession", rows: int, partitions: int, most: int) -> "DataFrame":
    options = {"rows": rows, "partitions": partitions, "valueBytes": VALUE_BYTES, "rowsPerTrigger": most}
    return spark.readStream.format("bare").options(**options).load()


def trigger(frame: "DataFrame", folder: Path) -> float:
    """The middle one of some batches: what Spark does at the begin and the end of a query is in none of them."""
    seconds = sorted(run(frame, folder))
    assert len(seconds) == TRIGGERS
    return seconds[len(seconds) // 2]


def stream(frame: "DataFrame", folder: Path) -> float:
    """A record of the batches behind the first, which has the start of Spark's Python processes in it."""
    return sum(run(frame, folder)[1:]) / (COUNT - MANY)


def peak_mib() -> float:
    """The most that a Python process below this one has held. The JVM is between both."""
    status = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        status[fields["Pid"]] = fields
    if not status:
        raise Skipped("memory is read from /proc, as Linux has it")
    parents = {pid: fields["PPid"] for pid, fields in status.items()}

    def is_below(pid: str) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == str(os.getpid()):
                return True
        return False

    peaks = [
        int(fields["VmHWM"].split()[0]) / 1024
        for pid, fields in status.items()
        if fields["Name"].startswith("python") and "VmHWM" in fields and is_below(pid)
    ]
    return max(peaks)


def main() -> None:
    with scratch() as folder:
        print("  writing the records", file=sys.stderr)
        write_log(folder)
        (folder / "few").mkdir()
        write_log(folder / "few", TRIGGERS * FEW)
        spark = session(folder)
        log, few = str(folder / "log"), str(folder / "few" / "log")
        command = [sys.executable, "-c", SERVE, log]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            servers = {"kafka.bootstrap.servers": server.stdout.readline().strip()}
            few_each: dict[str, Way] = {
                "trigger, pylog": lambda: trigger(pylog_stream(spark, FEW, path=few), folder),
                # As many tasks as pylog makes of few records.
                "trigger, bare source": lambda: trigger(bare_stream(spark, TRIGGERS * FEW, 1, FEW), folder),
            }
            ways: dict[str, Way] = {
                "stream, pylog": lambda: stream(pylog_stream(spark, MANY, path=log), folder),
                "stream, servers": lambda: stream(pylog_stream(spark, MANY, **servers), folder),
                "stream, bare source": lambda: stream(bare_stream(spark, COUNT, PARTITIONS, MANY), folder),
            }
            triggers = measure(few_each, ROUNDS, "batch")
            measured = measure(ways, ROUNDS)
            memory = peak_mib()
            server.communicate()
        spark.stop()
    report(
        "spark_stream",
        [
            triggers.time("trigger", "trigger, pylog", "trigger, bare source", at_most(1.1)),
            measured.speed("stream", "stream, pylog", "stream, bare source", at_least(0.9)),
            measured.speed("stream from servers", "stream, servers", "stream, bare source"),
            figure("memory of a worker", memory, "MiB", at_most(MIB_MOST)),
        ],
        records=COUNT,
        partitions=PARTITIONS,
        spark=f"local[{PARTITIONS}]",
    )


if __name__ == "__main__":
    main()
