"""Measures ways of doing the same work against each other, in one run, and keeps the result as one line of JSON.

A figure alone says little on a shared machine; a ratio of two ways measured in turn says much. So each round runs every
way once, in an order that rotates, and a ratio is the median of the rounds' ratios. A way prepares itself outside the
clock and returns the seconds that its work took.
"""

import gc
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

RESULTS = Path(__file__).parent / "results"
KEY_BYTES = 8
VALUE_BYTES = 100

Way = Callable[[], float]
"""Does the work once; gives the seconds it took, without its preparation."""


def measure(ways: Mapping[str, Way], rounds: int) -> dict[str, list[float]]:
    """The seconds of each way in each round, after one that does not count. Another way begins each time."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for way in ways.values():
        way()  # imports, caches, and what the JVM compiles
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            gc.collect()
            seconds[name].append(ways[name]())
            print(f"  round {turn + 1}/{rounds}  {name}: {seconds[name][-1]:.3f} s", file=sys.stderr)
    return seconds


def report(
    workload: str,
    seconds: Mapping[str, list[float]],
    *,
    records: int,
    ratios: Mapping[str, tuple[str, str]],
    notes: Mapping[str, object] | None = None,
) -> None:
    """Print one line of JSON and keep it in results/. A ratio `fast / slow` above 1 means: the first is faster."""
    line = {
        "workload": workload,
        "records": records,
        "ratios": {
            name: round(statistics.median(b / a for a, b in zip(seconds[one], seconds[other], strict=True)), 3)
            for name, (one, other) in ratios.items()
        },
        "records_per_second": {name: round(records / statistics.median(taken)) for name, taken in seconds.items()},
        "seconds": {name: [round(one, 4) for one in taken] for name, taken in seconds.items()},
        "notes": dict(notes or {}),
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    text = json.dumps(line, ensure_ascii=False)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{workload}.json").write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder on the disk of the project (a temporary folder is often memory), removed afterwards."""
    place = Path(__file__).parents[1] / "build" / "bench"
    place.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


def keys_and_values(count: int, seed: int = 1) -> list[tuple[bytes, bytes]]:
    """Distinct 8-byte keys and 100-byte values: one object repeated would flatter every way."""
    draw = random.Random(seed)
    text = draw.randbytes(count + VALUE_BYTES)
    return [(b"%08d" % (index % 100_000_000), text[index : index + VALUE_BYTES]) for index in range(count)]


def quick() -> bool:
    """Whether a short run was asked for (`--quick`): to see that a benchmark works, not to quote it."""
    return "--quick" in sys.argv[1:]


def stopwatch() -> Callable[[], float]:
    """Starts now; each call gives the seconds since."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start


def machine() -> dict[str, object]:
    facts: dict[str, object] = {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
    }
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        facts["cpu"] = names[0] if names else "unknown"
    return facts


def versions() -> dict[str, str]:
    import sqlite3

    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in ("pylog-commitlog", "lmdb", "pyarrow", "pyspark", "numpy", "crc32c", "lz4", "zstandard"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit that was measured; `+` after it says that the files differ from it."""
    root = Path(__file__).parents[1]
    try:
        name = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.strip() + ("+" if changed.stdout.strip() else "")
