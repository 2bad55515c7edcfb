"""Counts what a record, or a job of a share group, takes: figures that no noise reaches.

    encode, decode    the instructions of the kernel for a record, in a batch of 1,000
    a job             the calls of Python for a record of a share group, taken and acknowledged: by a worker in the
                      process of the log, and by a client of a server in the same process, with the calls of both

valgrind's callgrind counts instructions (Debian: apt-get install valgrind). A process of its own encodes and decodes a
batch a few times; the difference between two such runs leaves out what starting Python takes. Counts depend on the
kernel, the interpreter and the compiler, so they are compared with the last recorded ones of the same kernel and
Python, in results/instructions.json, which is under version control.

    python benchmarks/count.py            count, compare; exit code 1 where a count has risen by more than 2 %
    python benchmarks/count.py --record   and keep the counts as the ones to compare with
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from harness import keys_and_values
from results import RESULTS, commit

RECORDED = RESULTS / "instructions.json"
RECORDS, JOBS = 1000, 100
RUNS = (2, 6)
RISE_MAX = 1.02
NOW_MS = 1_700_000_000_000
IN_PROCESS, SERVED = "a job", "a job, served"


def works() -> dict[str, Callable[[], object]]:
    """What instructions are counted of, each a call for a whole batch."""
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


def child(name: str, times: int) -> None:
    work = works()[name]
    for _ in range(times):
        work()


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
    return round((many - few) / (RUNS[1] - RUNS[0]) / RECORDS, 1)


@contextmanager
def jobs(*, is_served: bool) -> Iterator[Callable[[], object]]:
    """Jobs that are taken one at a time, each from a batch of its own."""
    import pylog

    with pylog.open(":memory:") as log, log.serve() as server, pylog.connect(server.bootstrap_servers) as connected:
        log.create_topic("jobs")
        log.admin.alter_group_config("workers", {"share.auto.offset.reset": "earliest"})
        for _, value in keys_and_values(2 * JOBS):
            log.topic("jobs")[0].append([pylog.Record(value)])
        place = connected if is_served else log
        with place.share_consumer(
            "jobs", group_id="workers", max_poll_records=1, share_acquire_mode="record_limit"
        ) as consumer:
            yield lambda: [next(consumer) for _ in range(JOBS)]


def calls(name: str) -> float:
    """The calls of Python in all threads for a job."""
    numbers: list[int] = []
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    def take_twice(take: Callable[[], object]) -> None:
        for _ in range(2):
            numbers.append(count)
            take()
        numbers.append(count)

    threading.setprofile(note)
    try:
        with jobs(is_served=name == SERVED) as take:
            worker = threading.Thread(target=take_twice, args=(take,))
            worker.start()
            worker.join()
    finally:
        threading.setprofile(None)
    return round((numbers[2] - numbers[1]) / JOBS, 1)


def main(arguments: list[str]) -> int:
    from pylog.kernel import NAME

    if shutil.which("valgrind") is None:
        print("counting instructions needs valgrind: apt-get install valgrind", file=sys.stderr)
        return 2
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.is_file() else {}
    key = f"{NAME}, Python {'.'.join(platform.python_version_tuple()[:2])}, {platform.machine()}"
    counted = {
        "instructions_per_record": {name: per_record(name) for name in works()},
        "calls_per_job": {name: calls(name) for name in (IN_PROCESS, SERVED)},
    }
    risen = False
    for what, counts in counted.items():
        known = recorded.get(key, {}).get(what, {})
        for name, value in counts.items():
            before = known.get(name)
            change = "nothing recorded to compare with" if before is None else f"{value / before - 1:+.1%} of {before}"
            risen |= before is not None and value > before * RISE_MAX
            print(f"{key}: {name}: {value} {what.replace('_per_', ' a ')} ({change})")
    if "--record" in arguments:
        recorded[key] = {**counted, "commit": commit()}
        RESULTS.mkdir(exist_ok=True)
        RECORDED.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    return 1 if risen else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main(sys.argv[1:]))
