"""Counts the instructions that a record, or a job of a share group, takes: a figure that no noise reaches.

    encode, decode    the kernel, a batch of 1,000 records
    a job             a record of a share group in memory, taken and acknowledged: by a worker in the log's process, and
                      by a client of a server in the same process, with the instructions of both

valgrind's callgrind counts them (Debian: apt-get install valgrind). A process of its own does the work a few times; the
difference between two such runs leaves out what starting Python takes. Counts depend on the kernel, the interpreter and
the compiler, so they are compared with the last recorded ones of the same kernel and Python, in
results/instructions.json, which is under version control. Threads that wake each other make a job's vary by some per
cent.

    python benchmarks/count.py            count, compare; exit code 1 where a count has risen, by 2 % (a job: 5 %)
    python benchmarks/count.py --record   and keep the counts as the ones to compare with
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from harness import keys_and_values
from results import RESULTS, commit

RECORDED = RESULTS / "instructions.json"
RECORDS, JOBS = 1000, 25
RUNS = (2, 6)
RISE_MAX, JOB_RISE_MAX = 1.02, 1.05
NOW_MS = 1_700_000_000_000
IN_PROCESS, SERVED = "a job", "a job, served"
WORKS = {"encode": RECORDS, "decode": RECORDS, "encode and CRC": RECORDS, IN_PROCESS: JOBS, SERVED: JOBS}
"""What is counted, and how many records it does at once."""


@contextmanager
def work(name: str) -> Iterator[Callable[[], object]]:
    """What is counted, as a call."""
    if name in (IN_PROCESS, SERVED):
        with jobs(is_served=name == SERVED) as taking:
            yield taking
    else:
        yield batches()[name]


def batches() -> dict[str, Callable[[], object]]:
    from pylog.kernel import BatchScope, decode_records, encode_records
    from pylog.protocol.batch import encode

    rows = [(value, key, NOW_MS + index, ()) for index, (key, value) in enumerate(keys_and_values(RECORDS))]
    payload = bytes(encode(rows, now_ms=NOW_MS).payload())
    scope = BatchScope("bench", 0, 0, 0)
    return {
        "encode": lambda: encode_records(rows, NOW_MS),
        "decode": lambda: decode_records(payload, RECORDS, 0, NOW_MS, None, scope),
        "encode and CRC": lambda: encode(rows, now_ms=NOW_MS),
    }


@contextmanager
def jobs(*, is_served: bool) -> Iterator[Callable[[], object]]:
    """Jobs that are taken one at a time, each from a batch of its own."""
    import pylog

    with pylog.open(":memory:") as log, log.serve() as server, pylog.connect(server.bootstrap_servers) as connected:
        log.create_topic("jobs")
        log.admin.alter_group_config("workers", {"share.auto.offset.reset": "earliest"})
        for _, value in keys_and_values(RUNS[-1] * JOBS + 1):
            log.topic("jobs")[0].append([pylog.Record(value)])
        place = connected if is_served else log
        one = {"max_poll_records": 1, "share_acquire_mode": "record_limit"}
        with place.share_consumer("jobs", group_id="workers", **one) as consumer:
            next(consumer)
            yield lambda: [next(consumer) for _ in range(JOBS)]


def child(name: str, times: int) -> None:
    with work(name) as call:
        for _ in range(times):
            call()


def instructions(name: str, times: int) -> int:
    """What a process executes that does the work so many times."""
    with TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
            sys.executable, __file__, "child", name, str(times),
        ]  # fmt: skip
        environment = dict(os.environ, PYTHONHASHSEED="0", PYTHONMALLOC="pymalloc")
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    found = re.search(r"Collected : (\d+)", ran.stderr)
    if ran.returncode != 0 or found is None:
        raise RuntimeError(f"valgrind could not count {name}: {ran.stderr[-2000:]}")
    return int(found[1])


def per_record(name: str) -> float:
    few, many = (instructions(name, times) for times in RUNS)
    return round((many - few) / (RUNS[1] - RUNS[0]) / WORKS[name], 1)


def main(arguments: list[str]) -> int:
    from pylog.kernel import NAME

    if shutil.which("valgrind") is None:
        print("counting instructions needs valgrind: apt-get install valgrind", file=sys.stderr)
        return 2
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.is_file() else {}
    key = f"{NAME}, Python {'.'.join(platform.python_version_tuple()[:2])}, {platform.machine()}"
    known = recorded.get(key, {}).get("instructions_per_record", {})
    counted = {name: per_record(name) for name in WORKS}
    risen = False
    for name, value in counted.items():
        before = known.get(name)
        change = "nothing recorded to compare with" if before is None else f"{value / before - 1:+.1%} of {before}"
        most = JOB_RISE_MAX if name in (IN_PROCESS, SERVED) else RISE_MAX
        risen |= before is not None and value > before * most
        print(f"{key}: {name}: {value} instructions a record ({change})")
    if "--record" in arguments:
        recorded[key] = {"instructions_per_record": counted, "commit": commit()}
        RESULTS.mkdir(exist_ok=True)
        RECORDED.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    return 1 if risen else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main(sys.argv[1:]))
