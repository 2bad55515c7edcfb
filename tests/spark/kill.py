"""A stream of Spark's from a log into a log, killed as often as one wants: what `make spark-kill` runs.

    python -m tests.spark.kill 30 --records 1000000 --seed 7        so many kills
    python -m tests.spark.kill 30 --kafka                           the same by Spark's own connector, for comparison

Between two kills an equal part of the numbers is sent. At a random moment the driver is killed (its JVM, or all its
processes at once), or one of its Python workers. In the end a reader of committed records finds each number once.

After each second kill the checkpoint is put back to an earlier state, or loses its last files. A driver goes on then,
or is refused by the sink. Then the checkpoint of before comes back, or a new one starts at the offsets of the error.

With `--kafka` the topics are a real Kafka's (`make kafka`, `make spark-kafka`), and source and sink `format("kafka")`.
That sink writes at least once: it is said how many numbers are there more often.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pylog
from conformance.kafka_broker import broker

PIECES = 15
"""About how many transactions send the numbers of one kill."""
PATIENCE = 600.0
TOLD = 20_000
"""How many bytes of the drivers' errors are told."""
DRIVER = Path(__file__).with_name("kill_driver.py")
SPARK = Path(__file__).parents[2] / "build" / "pyspark"
"""The Spark that fits the connector for Kafka."""


class Campaign:
    """One log, one checkpoint, many drivers."""

    def __init__(self, folder: Path, seed: int, piece: int, kafka: str | None) -> None:
        """`piece`: how many numbers a transaction sends. `kafka`: the servers of a real one, in place of a log."""
        self.folder = folder
        self.kafka = kafka
        self.random = random.Random(seed)
        self.piece = piece
        self.fed = 0
        self.backup: Path | None = None
        self.started: str | None = None
        """The startingOffsets of the checkpoint there is, where it does not begin at earliest."""
        self.kinds: Counter[str] = Counter()
        with self.open() as log:
            log.create_topic("in", partitions=2)
            log.create_topic("out", partitions=3)

    def open(self) -> "pylog.Log | pylog.ConnectedLog":
        return pylog.open(self.folder / "data", wait=60) if self.kafka is None else pylog.connect(self.kafka)

    def feed(self) -> None:
        """Send some more numbers, in one transaction: as owner of the log, or through a worker of Spark's that is."""
        first, self.fed = self.fed, self.fed + self.piece
        try:
            with self.open() as log, log.producer(transactional_id="feed") as producer, producer.transaction():
                for number in range(first, self.fed):
                    producer.send("in", b"%d" % number, key=b"%d" % number)
        except (pylog.PylogError, TimeoutError) as error:
            # The owner was killed: all of them are there, or none.
            self.kinds[f"feed: {type(error).__name__}"] += 1

    def start(self, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(pylog.__file__).parents[1]), "SPARK_LOCAL_IP": "127.0.0.1"}
        if self.started is not None:
            words = *words, "--start", self.started
        if self.kafka is not None:
            environment |= {"PYTHONPATH": str(SPARK), "SPARK_HOME": str(SPARK / "pyspark")}
            words = *words, "--kafka", self.kafka
        return subprocess.Popen(
            [sys.executable, str(DRIVER), str(self.folder), *words], start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=(self.folder / "errors").open("a"), env=environment,
        )  # fmt: skip

    def kill_once(self, goal: int) -> None:
        """Run a driver, feed it until `goal` numbers are sent or the time is over, and kill something of it."""
        driver = self.start()
        assert driver.stdout is not None
        try:
            assert driver.stdout.readline() == "running\n", f"the driver did not start: {self.errors()}"
            until = time.monotonic() + self.random.uniform(0.5, 12)
            while time.monotonic() < until:
                if self.fed < goal:
                    self.feed()
                time.sleep(self.random.uniform(0.05, 0.8))
            kind = self.random.choice(["everything", "jvm", "worker", "worker"])
            self.kinds[kind] += 1
            victims = [] if kind == "everything" else processes(driver.pid, "java" if kind == "jvm" else "pyspark")
            if victims:
                os.kill(self.random.choice(victims), signal.SIGKILL)
                self.feed()
                time.sleep(self.random.uniform(0.5, 4))
        finally:
            end(driver)
        while self.fed < goal:
            self.feed()

    def damage_checkpoint(self) -> None:
        """Put the checkpoint back to an earlier state, or take its last files, and let a driver run with that.

        Where the sink has refused it, go on in one of the ways that its error names.
        """
        checkpoint, newest = self.folder / "checkpoint", self.folder / "newest"
        # The checkpoint knows what is written, and there is more: the batches that Spark plans anew have other records.
        self.feed()
        code = self.run_to_the_end()
        assert code == 0, f"a driver ended with code {code}: {self.errors()}"
        self.feed()
        shutil.copytree(checkpoint, newest)
        if self.backup is not None and self.random.random() < 0.6:
            kind = "restored"
            shutil.rmtree(checkpoint)
            self.backup.rename(checkpoint)
        else:
            kind = "lost its last " + self.random.choice(["offsets", "offsets and commit"])
            number = max((int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")), default=None)
            for place in ("offsets", "commits")[: 1 + kind.endswith("commit")]:
                for path in (checkpoint / place / str(number), checkpoint / place / f".{number}.crc"):
                    path.unlink(missing_ok=True)
        errors = self.folder / "errors"
        before = errors.stat().st_size
        code = self.run_to_the_end()
        said = errors.read_bytes()[before:].decode(errors="replace")
        if code == 0:
            way = "went on"
        elif "is no replay of that" not in said:
            raise AssertionError(f"a driver with a checkpoint that was {kind} ended with code {code}: {self.errors()}")
        else:
            shutil.rmtree(checkpoint)
            found = re.search(r"startingOffsets=(\{.*?\}\})", said)
            if found is not None and self.random.random() < 0.5:
                way, self.started = "refused, a new one", found[1]
            else:
                way = "refused, put back"
                newest.rename(checkpoint)
        shutil.rmtree(newest, ignore_errors=True)
        if self.backup is not None:
            # What belongs to a query that is over would write again what the next one has written.
            shutil.rmtree(self.backup, ignore_errors=True)
            self.backup = None
        self.kinds[f"{kind}: {way}"] += 1

    def errors(self) -> str:
        """The end of what drivers have said: the folder goes with the campaign."""
        return (self.folder / "errors").read_bytes()[-TOLD:].decode(errors="replace")

    def keep_backup(self) -> None:
        """Copy the checkpoint aside, as it is while nobody writes to it."""
        self.backup = self.folder / "backup"
        shutil.rmtree(self.backup, ignore_errors=True)
        shutil.copytree(self.folder / "checkpoint", self.backup)

    def run_to_the_end(self) -> int:
        """Let a driver write all that is there; gives the code it ended with."""
        driver = self.start("--last")
        try:
            return driver.wait(PATIENCE)
        finally:
            end(driver)

    def finish(self) -> list[str]:
        """Let a last driver write what is left; gives what is wrong then."""
        code = self.run_to_the_end()
        if code:
            return [f"the last driver ended with code {code}: {self.errors()}"]
        return self.check(are_all=True)

    def check(self, *, are_all: bool) -> list[str]:
        """What is wrong with the records that are committed."""
        with self.open() as log:
            given, written = committed(log, "in"), committed(log, "out")
        twice = sorted(number for number, count in written.items() if count > 1)
        lacking = sorted(given - written) if are_all else []
        other = sorted(set(written) - set(given))
        found = {"more than once": twice, "lost": lacking, "never sent": other}
        if self.kafka is not None:
            self.kinds["more than once"] = len(found.pop("more than once"))
        return [f"{words}: {len(numbers)} numbers, {numbers[:5]}..." for words, numbers in found.items() if numbers]


def committed(log: "pylog.Log | pylog.ConnectedLog", topic: str) -> Counter[int]:
    """How often each number is there for a reader of committed records."""
    return Counter(
        int(record.value or b"-1")
        for partition in log.topic(topic)
        for record in partition.records(isolation_level="read_committed")
    )


def processes(session: int, word: str) -> list[int]:
    """The processes of a session whose command line has a word; the session's own is not among them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != session:
            try:
                command = (entry / "cmdline").read_bytes()
                # Behind the name, which may have blanks: state, parent, group, session.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and word.encode() in command:
                found.append(int(entry.name))
    return found


def end(driver: subprocess.Popen[str]) -> None:
    """Kill all that is left of a driver. Spark's daemons have groups of their own, and all are of one session."""
    for pid in [*processes(driver.pid, ""), driver.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    driver.wait()
    if driver.stdout is not None:
        driver.stdout.close()


def main() -> int:
    """Run the campaign; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int)
    parser.add_argument("--records", type=int, default=1_000_000, help="how many numbers are sent at least")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kafka", action="store_true", help="by Spark's own connector, in a real Kafka")
    asked = parser.parse_args()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    with ExitStack() as stack:
        name = tempfile.TemporaryDirectory(prefix="pylog-spark-kill-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(name))
        kafka = stack.enter_context(broker(folder / "kafka", folder)) if asked.kafka else None
        campaign = Campaign(folder, seed, max(1, asked.records // asked.kills // PIECES), kafka)
        problems: list[str] = []
        for kill in range(asked.kills):
            campaign.kill_once(asked.records * (kill + 1) // asked.kills)
            if not asked.kafka and kill % 2:
                campaign.damage_checkpoint()
            elif not asked.kafka and (campaign.folder / "checkpoint" / "offsets" / "0").exists():
                campaign.keep_backup()
            problems = campaign.check(are_all=False)
            print(f"{kill + 1} kills ({dict(campaign.kinds)}), {campaign.fed} numbers", flush=True)
            if problems:
                break
        problems = problems or campaign.finish()
    for problem in problems:
        again = f"{asked.kills} --records {asked.records} --seed {seed}{' --kafka' * asked.kafka}"
        print(f"FOUND {problem}; replay: python -m tests.spark.kill {again}")
    if not problems:
        often = "at least once" if asked.kafka else "once"
        print(f"{campaign.fed} numbers, each that was sent there {often}; {asked.kills} kills: {dict(campaign.kinds)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
