"""Makes the golden set anew (`make golden`): directories that a real Kafka wrote, and what its clients saw in them.

    manifest.json                                       segments and batches of each partition; what was damaged
    STAGE/logdir/                                       a broker's log directory after it stopped
    STAGE/expected/NAME.expected.jsonl.gz               a line a record, read_uncommitted
    STAGE/expected/NAME.read_committed.expected.jsonl.gz  the same, read_committed (topics with transactions)
    STAGE/expected/NAME.meta.json                       configs, watermarks, last stable offset, look-ups by time
    STAGE/dump/NAME/FILE.txt.gz                         what Kafka's dump tool prints of a file

    clean            a clean stop: all codecs, transactions committed, aborted and open, trimmed, rolled, LogAppendTime,
                     recompressed, written to under three leader epochs, compacted once and three times
    compact-before   the compacted ones before the first cleaning
    unclean          after SIGKILL: nothing was flushed, room is reserved behind the entries of active indexes
    unclean-torn     the same, the last batch of each partition cut in half by hand
    unclean-flip     the same, one bit flipped by hand in the last segment but one
    ...-recovered    the three after Kafka's own recovery and a clean stop

The layout is that of every set that tests/oracle can be run on (PYLOG_FIXTURES). Small, so that every clone has it.
Records and their timestamps are the same each time; ids, epochs of time and the clocks of markers are not.
"""

import gzip
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance import dump_log
from conformance.kafka_broker import UP_SECONDS, admin, broker, create_topics
from golden.clients import CODECS, fill_keys, look, send, transactions

HERE = Path(__file__).parent
STAGES = ["clean", "compact-before", *(f"unclean{kind}{end}" for kind in ("", "-torn", "-flip")
          for end in ("", "-recovered"))]  # fmt: skip
METADATA = "__cluster_metadata-0"
INDEX = {"segment.index.bytes": "1024", "file.delete.delay.ms": "0"}
SMALL = {"internal.segment.bytes": "3000", "index.interval.bytes": "200", **INDEX}
COMPACTED = {
    **SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "3600000000000",
    "min.compaction.lag.ms": "9223372036854775807",
}  # fmt: skip
TOPICS = {
    **{f"codec-{codec}": INDEX for codec in CODECS},
    "append-time": {"message.timestamp.type": "LogAppendTime", **INDEX},
    "recompressed-lz4": {"compression.type": "lz4", **INDEX},
    "recompressed-none": {"compression.type": "uncompressed", **INDEX},
    "rolled": SMALL,
    "trimmed": SMALL,
    "epochs": INDEX,
    "empty": INDEX,
    "txn": SMALL,
    "compacted-keep": {**COMPACTED, "delete.retention.ms": "86400000"},
    "compacted-drop": {**COMPACTED, "delete.retention.ms": "100"},
}
UNCLEAN = {"unclean": SMALL, "unclean-txn": SMALL}
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
}


def until(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + UP_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.1)


def keep(data: Path, stage: Path, names: list[str]) -> None:
    """Copy partition folders, and the files of the log directory itself."""
    target = stage / "logdir"
    target.mkdir(parents=True)
    for path in data.iterdir():
        if path.is_file() and path.name not in (".lock", "bootstrap.checkpoint"):
            shutil.copy2(path, target)
    for name in names:
        shutil.copytree(data / name, target / name)


# --- closed ---------------------------------------------------------------------------------------------------------


def make_clean(work: Path, target: Path) -> None:
    data = work / "data"
    data.mkdir(parents=True)
    compacted = [name for name in TOPICS if name.startswith("compacted")]
    with broker(data, work, settings=SETTINGS) as servers:
        create_topics(servers, TOPICS)
        for codec in CODECS:
            send(servers, f"codec-{codec}", 40, **{"compression.type": codec})
        send(servers, "append-time", 15, **{"compression.type": "lz4"})
        send(servers, "recompressed-lz4", 30, **{"compression.type": "zstd"})
        send(servers, "recompressed-none", 30, **{"compression.type": "gzip"})
        send(servers, "rolled", 150)
        send(servers, "trimmed", 120)
        trim(servers, data, "trimmed", 61)
        send(servers, "epochs", 5)
        for topic in compacted:
            fill_keys(servers, topic, 0, 10)
            look(servers, topic, target / "compact-before" / "expected", TOPICS[topic])
    keep(data, target / "compact-before", [f"{topic}-0" for topic in compacted])
    with broker(data, work, settings=SETTINGS) as servers:
        send(servers, "epochs", 5, **{"compression.type": "gzip"})
        send(servers, "rolled", 20, **{"enable.idempotence": True})
        compact(servers, data)
    stay: list[Any] = []
    with broker(data, work, settings=SETTINGS) as servers:
        send(servers, "epochs", 5, **{"enable.idempotence": True})
        transactions(servers, "txn", stay)
        for topic, config in TOPICS.items():
            changed = {"min.compaction.lag.ms": "0"} if topic in compacted else {}
            look(servers, topic, target / "clean" / "expected", {**config, **changed})
    keep(data, target / "clean", sorted(path.name for path in data.glob("*-0")))


def trim(servers: str, data: Path, topic: str, offset: int) -> None:
    """Delete records, and wait until the segments below are gone: until then a look-up by time stops at them."""
    from confluent_kafka import TopicPartition

    client = admin(servers)
    for answer in client.delete_records([TopicPartition(topic, 0, offset)]).values():
        answer.result(UP_SECONDS)
    until(lambda: not list((data / f"{topic}-0").glob(f"{0:020d}.*")), f"{topic} loses its first segment")


def compact(servers: str, data: Path) -> None:
    """Clean compacted-keep once, and compacted-drop three times with more written in between."""
    for topic in ("compacted-keep", "compacted-drop"):
        alter(servers, topic, "min.compaction.lag.ms", "0")
        until_cleaned(data, topic)
    for turn in (10, 15):
        fill_keys(servers, "compacted-drop", turn, 5)
        until_cleaned(data, "compacted-drop")


def alter(servers: str, topic: str, name: str, value: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(servers)
    for answer in client.incremental_alter_configs([resource]).values():
        answer.result(UP_SECONDS)


def until_cleaned(data: Path, topic: str) -> None:
    """Until the cleaner has come to the active segment."""

    def done() -> bool:
        path = data / "cleaner-offset-checkpoint"
        active = int(max((data / f"{topic}-0").glob("*.log")).stem)
        return path.exists() and f"{topic} 0 {active}" in path.read_text().splitlines()

    until(done, f"{topic} is cleaned")


def dump(stage: Path) -> None:
    logdir = stage / "logdir"
    kinds = ("log", "index", "timeindex", "txnindex", "snapshot")
    paths = sorted(path.relative_to(logdir) for kind in kinds for path in logdir.glob(f"*/*.{kind}"))
    for of_metadata, option in ((False, "--print-data-log"), (True, "--cluster-metadata-decoder")):
        wanted = [path for path in paths if (path.parent.name == METADATA) == of_metadata]
        if not wanted:
            continue
        ran = dump_log.run(wanted, option, cwd=logdir)
        assert ran.returncode == 0, ran.stderr.decode()
        _, *parts = re.split(rb"^Dumping (\S+)\n", ran.stdout, flags=re.MULTILINE)
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            path = stage / "dump" / f"{name.decode()}.txt.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(b"Dumping %s\n" % name + text, mtime=0))


# --- killed ---------------------------------------------------------------------------------------------------------


def make_unclean(work: Path, target: Path) -> dict[str, Any]:
    data = work / "data"
    data.mkdir(parents=True)
    stay: list[Any] = []
    with broker(data, work, kill=True, settings=SETTINGS) as servers:
        create_topics(servers, UNCLEAN)
        send(servers, "unclean", 100)
        transactions(servers, "unclean-txn", stay)
        for topic, config in UNCLEAN.items():
            look(servers, topic, target / "unclean" / "expected", config)
    names = [f"{topic}-0" for topic in UNCLEAN]
    damage: dict[str, Any] = {}
    for stage, harm in (("unclean", None), ("unclean-torn", torn), ("unclean-flip", flipped)):
        copy = work / stage
        shutil.copytree(data, copy)
        if harm is not None:
            damage[stage] = {name: harm(copy / name) for name in names}
        keep(copy, target / stage, names)
        if harm is not None:
            (target / stage / "damage.json").write_text(json.dumps(damage[stage], indent=1) + "\n")
        with broker(copy, work, settings=SETTINGS) as servers:
            for topic, config in UNCLEAN.items():
                look(servers, topic, target / f"{stage}-recovered" / "expected", config)
        keep(copy, target / f"{stage}-recovered", names)
    return damage


def batches(path: Path) -> list[tuple[int, int, int, int]]:
    """Position, size, first and last offset of each batch, by its header alone."""
    data, found, position = path.read_bytes(), [], 0
    while position < len(data):
        base = int.from_bytes(data[position : position + 8], "big")
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        last = base + int.from_bytes(data[position + 23 : position + 27], "big")
        found.append((position, size, base, last))
        position += size
    return found


def torn(folder: Path) -> dict[str, Any]:
    """Cut the last batch in half."""
    path = max(path for path in folder.glob("*.log") if path.stat().st_size)
    position, size, base, last = batches(path)[-1]
    with path.open("r+b") as file:
        file.truncate(position + size // 2)
    return {"file": path.name, "cut_to": position + size // 2, **_batch(position, size, base, last)}


def flipped(folder: Path) -> dict[str, Any]:
    """Flip a bit in the middle batch of the last segment but one."""
    path = sorted(folder.glob("*.log"))[-2]
    found = batches(path)
    position, size, base, last = found[len(found) // 2]
    data, at = bytearray(path.read_bytes()), position + (61 + size) // 2
    data[at] ^= 16
    path.write_bytes(data)
    return {"file": path.name, "byte": at, "xor": 16, **_batch(position, size, base, last)}


def _batch(position: int, size: int, base: int, last: int) -> dict[str, int]:
    return {"batch_position": position, "batch_size": size, "batch_base_offset": base, "batch_last_offset": last}


# --- all of it ------------------------------------------------------------------------------------------------------


def manifest(target: Path, damage: dict[str, Any]) -> dict[str, Any]:
    def segment(path: Path) -> dict[str, int]:
        whole = not path.parents[2].name.endswith("-torn")
        count = {"batches": len(batches(path))} if whole else {}
        return {"base": int(path.stem), "bytes": path.stat().st_size, **count}

    stages = {
        stage: {
            folder.name: {"segments": [segment(path) for path in sorted(folder.glob("*.log"))]}
            for folder in sorted((target / stage / "logdir").glob("*-0"))
        }
        for stage in STAGES
    }
    return {"made_by": "Apache Kafka 4.3.1", "damage": damage, "stages": stages}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "golden"
        make_clean(Path(folder) / "clean", target)
        damage = make_unclean(Path(folder) / "unclean", target)
        for stage in ("clean", "compact-before", "unclean"):
            dump(target / stage)
        (target / "manifest.json").write_text(json.dumps(manifest(target, damage), indent=1) + "\n")
        for stage in STAGES:
            shutil.rmtree(HERE / stage, ignore_errors=True)
        shutil.copytree(target, HERE, dirs_exist_ok=True)
    size = sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file())
    print(f"{size} bytes in {HERE}", file=sys.stderr)


if __name__ == "__main__":
    main()
