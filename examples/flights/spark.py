"""Step 6: Spark reads the log's files and computes delays per airport and day in event-time windows; pandas checks it.

A flight counts by its scheduled departure, which is the record's timestamp. A window is a day long and begins at 05:00
UTC, which is midnight in New York (1 am in summer, when nothing is scheduled before). A cancelled flight has no
departure delay: it counts as a flight and not in the mean, on both sides.

Spark needs some seconds to start and to compile its first query, so it does both in the background while the steps
before it run (`SparkStart`). The query it warms up with has one made-up row.
"""

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from .data import PARTITIONS, TOPIC, Source
from .picture import draw_delays
from .report import Report, expect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START_SECONDS_MAX = 120.0
TOLERANCE = 1e-9
SHOWN = (("JFK", "2013-07-04"), ("EWR", "2013-12-24"))
WORST = 5
SETTINGS = {
    "spark.app.name": "pylog demo",
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A short job in a JVM of its own: the quick compiler and the plain collector start soonest.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Daily(NamedTuple):
    """One airport on one day."""

    day: str
    origin: str
    flights: int
    departed: int
    mean_delay: float | None
    """Minutes; None where no flight departed."""


class SparkStart:
    """A Spark session that starts on a thread of its own; what Spark itself says goes to a file."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.words_path = os.path.join(folder, "spark.txt")
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._session = self._start()
        except BaseException as error:  # noqa: BLE001 - it is told where the session is asked for
            self._error = error

    def _start(self) -> "SparkSession":
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = SparkConf().setAll([*SETTINGS.items(), ("spark.sql.warehouse.dir", os.path.join(self._folder, "spark"))])
        with open(self.words_path, "wb") as words:
            gateway = launch_gateway(conf, {"stdout": words, "stderr": words})  # type: ignore[no-untyped-call]
        spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
        per_day(spark.sql("SELECT current_timestamp() AS timestamp, CAST('{}' AS binary) AS value")).collect()
        return spark

    def session(self) -> "SparkSession":
        """The session, when it is there. Raises what went wrong with it."""
        self._thread.join(START_SECONDS_MAX)
        if self._session is None:
            reason = self._error or f"nothing within {START_SECONDS_MAX:.0f} s"
            raise RuntimeError(f"Spark did not start ({reason}); it needs Java 17, see {self.words_path}")
        return self._session

    def stop(self) -> None:
        """Stop Spark, if it was started."""
        self._thread.join(START_SECONDS_MAX)
        if self._session is not None:
            self._session.stop()


def aggregate_in_spark(report: Report, start: SparkStart, path: str, source: Source, picture_path: str) -> list[Daily]:
    """Compute, compare with pandas, show a table and draw a picture."""
    report.step("Aggregate in Spark")
    report.say(
        f'spark.read.format("pylog").option("subscribe", "{TOPIC}").load("{os.path.relpath(path)}") reads the files '
        "themselves, while this process has the log open. Spark counts flights and takes the mean departure delay per "
        "airport and day, in event-time windows."
    )
    with report.progress("waiting for Spark, which has been starting meanwhile"):
        spark = start.session()
    began = time.perf_counter()
    with report.progress(f"aggregating {PARTITIONS} partitions"):
        days = _aggregate(spark, path)
    seconds = time.perf_counter() - began
    total = sum(day.flights for day in days)
    report.figure(
        "Spark took", f"{seconds:.1f} s for its first read of the log: {total:,} records, {len(days):,} windows"
    )
    with report.progress("the same in pandas, from the CSV"):
        expected = _aggregate_in_pandas(source)
    _compare(report, days, expected)
    worst = sorted((day for day in days if day.mean_delay is not None), key=lambda day: -(day.mean_delay or 0))[:WORST]
    report.say(f"The {WORST} worst days:")
    report.table(
        ("day", "airport", "flights", "cancelled", "mean delay, minutes"), [_row(day) for day in worst], left=2
    )
    draw_delays(days, picture_path)
    report.figure("picture", os.path.relpath(picture_path))
    return days


def _row(day: Daily) -> tuple[str, ...]:
    delay = "none departed" if day.mean_delay is None else f"{day.mean_delay:.1f}"
    return day.day, day.origin, f"{day.flights:,}", f"{day.flights - day.departed:,}", delay


def _aggregate(spark: "SparkSession", path: str) -> list[Daily]:
    records = spark.read.format("pylog").option("subscribe", TOPIC).option("columns", "value,timestamp").load(path)
    return sorted(Daily(*row) for row in per_day(records).collect())


def per_day(records: "DataFrame") -> "DataFrame":
    """The query: flights, departures and mean delay per airport and day."""
    from pyspark.sql import functions as f

    flights = records.select(
        "timestamp", f.from_json(f.col("value").cast("string"), "origin string, dep_delay int").alias("flight")
    )
    return (
        flights.groupBy(f.window("timestamp", "1 day", startTime="5 hours"), "flight.origin")
        .agg(
            f.count("*").alias("flights"),
            f.count("flight.dep_delay").alias("departed"),
            f.avg("flight.dep_delay").alias("mean_delay"),
        )
        .select(f.date_format("window.start", "yyyy-MM-dd").alias("day"), "origin", "flights", "departed", "mean_delay")
    )


def _aggregate_in_pandas(source: Source) -> list[Daily]:
    """The same from the CSV's own calendar columns: neither the log nor its timestamps have a part in it."""
    import pandas

    table = pandas.read_csv(source.path, usecols=["year", "month", "day", "origin", "dep_delay"])
    days = table.groupby(["year", "month", "day", "origin"])["dep_delay"].agg(["size", "count", "mean"])
    return sorted(
        Daily(f"{year}-{month:02}-{day:02}", origin, int(row.size_), int(row.departed), _mean(row.mean_delay))
        for (year, month, day, origin), row in zip(
            days.index,
            days.set_axis(["size_", "departed", "mean_delay"], axis=1).itertuples(index=False),
            strict=True,
        )
    )


def _mean(delay: float) -> float | None:
    return None if delay != delay else float(delay)


def _compare(report: Report, days: list[Daily], expected: list[Daily]) -> None:
    computed = {(day.origin, day.day): day for day in days}
    expect(
        sorted(computed) == sorted((day.origin, day.day) for day in expected),
        f"Spark found {len(days):,} windows, pandas {len(expected):,}, or others",
    )
    for theirs in expected:
        ours = computed[theirs.origin, theirs.day]
        expect(agree(ours, theirs), f"{theirs.origin} on {theirs.day}: Spark says {ours}, pandas {theirs}")
    by_pandas = {(day.origin, day.day): day for day in expected}
    rows = [
        (who, *_row(table[where]))
        for where in SHOWN
        for who, table in (("Spark, from the log", computed), ("pandas, from the CSV", by_pandas))
    ]
    report.table(("computed by", "day", "airport", "flights", "cancelled", "mean delay, minutes"), rows, left=3)
    report.proved(f"Spark and pandas agree on these and on all other of the {len(days):,} windows")


def agree(ours: Daily, theirs: Daily) -> bool:
    """Whether two ways came to the same; the order of summing may show in the mean."""
    if ours.mean_delay is None or theirs.mean_delay is None:
        same = ours.mean_delay is theirs.mean_delay
    else:
        same = abs(ours.mean_delay - theirs.mean_delay) <= TOLERANCE * max(1.0, abs(theirs.mean_delay))
    return same and ours[:4] == theirs[:4]
