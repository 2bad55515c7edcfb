"""What was measured, kept: one line of JSON a figure, with where and on what it was measured, in results/.

workload, name      which work, and which of its figures
value, unit         what pylog takes, or what a figure that stands for itself is
against, other      the raw operation or the peer, and what it takes, in the same unit
sense, ratio        "speed": how many times as fast as the other; "time": how many times its time; median of `rounds`
target, holds       the bound on the ratio (on the value, where there is none), and whether it is kept
skipped, note       whether a way could not run here, and why
kernel, commit, python, machine, versions, at, notes
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PEERS = """pylog-commitlog lmdb persist-queue litequeue diskcache queuelib aiokafka confluent-kafka pyarrow pyspark
    numpy crc32c lz4 zstandard cramjam redis nats-py""".split()
KAFKA_JARS = Path(__file__).parents[1] / "build" / "kafka"


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure."""

    bound: float
    at_most: bool = False

    def holds(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number, and what it is held against. Without a value, pylog has no such thing yet, or a way was skipped."""

    name: str
    value: float | None = None
    unit: str = ""
    against: str = ""
    sense: str = ""
    other: float | None = None
    ratio: float | None = None
    rounds: list[float] = field(default_factory=list)
    target: Target | None = None
    skipped: bool = False
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the target is kept; None without one, and where nothing could be measured."""
        if self.target is None or self.skipped:
            return None
        told = self.value if self.ratio is None else self.ratio
        return told is not None and self.target.holds(told)


def keep(workload: str, figures: Sequence[Figure], notes: Mapping[str, object]) -> None:
    """Print the figures of a workload, a line of JSON each, and put them in the place of its last ones.

    Those of a quick run are printed only: they say nothing about speed.
    """
    where = facts()
    lines = [json.dumps(as_json(workload, one) | where | {"notes": dict(notes)}, ensure_ascii=False) for one in figures]
    if not where["quick"]:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{workload}.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    print("\n".join(lines), flush=True)


def as_json(workload: str, one: Figure) -> dict[str, Any]:
    return {
        "workload": workload,
        "name": one.name,
        "value": short(one.value),
        "unit": one.unit,
        "against": one.against,
        "other": short(one.other),
        "sense": one.sense,
        "ratio": short(one.ratio),
        "rounds": [short(ratio) for ratio in one.rounds],
        "target": str(one.target) if one.target is not None else None,
        "bound": one.target.bound if one.target is not None else None,
        "holds": one.holds,
        "skipped": one.skipped,
        "note": one.note,
    }


def short(value: float | None) -> float | None:
    """Four digits: there is no more truth in it."""
    return None if value is None else float(f"{value:.4g}")


def facts() -> dict[str, Any]:
    from pylog.kernel import NAME

    return {
        "kernel": NAME,
        "commit": commit(),
        "python": platform.python_version(),
        "machine": machine(),
        "versions": versions(),
        "quick": "--quick" in sys.argv[1:],
        "full": "--full" in sys.argv[1:],
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def machine() -> dict[str, object]:
    found: dict[str, object] = {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
    }
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        found["cpu"] = names[0] if names else "unknown"
    return found


@cache
def versions() -> dict[str, str]:
    import sqlite3

    found = {"sqlite": sqlite3.sqlite_version}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    jars = sorted(KAFKA_JARS.glob("kafka-clients-*.jar"))
    found["kafka"] = jars[0].stem.removeprefix("kafka-clients-") if jars else "absent"
    return found


@cache
def commit() -> str:
    """The commit that was measured; `+` after it says that the files differ from it."""
    root = Path(__file__).parents[1]
    try:
        name = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.strip() + ("+" if changed.stdout.strip() else "")


def load(workloads: Sequence[str]) -> list[dict[str, Any]]:
    """The last figures of these workloads, in their order; those that were never measured are left out."""
    found: list[dict[str, Any]] = []
    for name in workloads:
        path = RESULTS / f"{name}.jsonl"
        if path.is_file():
            found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found
