"""Counts the instructions that the kernel's encode and decode take for a record: a figure that no noise reaches.

valgrind's callgrind counts them (Debian: apt-get install valgrind). A process of its own encodes and decodes a batch of
1,000 records a few times; the difference between two such runs leaves out what starting Python takes. Counts depend on
the kernel, the interpreter and the compiler, so they are compared with the last recorded ones of the same kernel and
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
from collections.abc import Callable
from tempfile import TemporaryDirectory

from harness import keys_and_values
from results import RESULTS, commit

RECORDED = RESULTS / "instructions.json"
RECORDS = 1000
RUNS = (2, 6)
RISE_MAX = 1.02
NOW_MS = 1_700_000_000_000


def works() -> dict[str, Callable[[], object]]:
    """What is counted, each a call for a whole batch."""
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


def main(arguments: list[str]) -> int:
    from pylog.kernel import NAME

    if shutil.which("valgrind") is None:
        print("counting instructions needs valgrind: apt-get install valgrind", file=sys.stderr)
        return 2
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.is_file() else {}
    key = f"{NAME}, Python {'.'.join(platform.python_version_tuple()[:2])}, {platform.machine()}"
    known = recorded.get(key, {}).get("instructions_per_record", {})
    counted = {name: per_record(name) for name in works()}
    risen = False
    for name, value in counted.items():
        before = known.get(name)
        change = "nothing recorded to compare with" if before is None else f"{value / before - 1:+.1%} of {before}"
        risen |= before is not None and value > before * RISE_MAX
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
