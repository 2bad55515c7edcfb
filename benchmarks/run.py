"""Runs benchmarks, one process each: a line of JSON a figure, and on a terminal a table of them at the end.

python benchmarks/run.py                all of them: about ten minutes, more where others keep the disk busy
python benchmarks/run.py append send    these
python benchmarks/run.py --quick        shows that they work; the figures say nothing
python benchmarks/run.py --full         where the usual size is smaller than the target's, the target's size
python benchmarks/run.py --docs         measures nothing: writes docs/performance.md anew from the last results
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import MODES

HERE = Path(__file__).parent
WORKLOADS = """append send threads consume arrow dataframe compressed fetch visible durable wakeup transactions groups
    open runs topics lookup recovery compaction replication follow spark_scan spark_sink spark_stream spark_archive
    spark_kafka memory kafka_perf wire brokers jobs attach aio""".split()


def run(name: str, words: list[str]) -> list[dict[str, Any]] | None:
    """The figures of a workload; None where it failed. What it says meanwhile goes to stderr."""
    command = [sys.executable, str(HERE / f"{name}.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [line for line in process.stdout if line.startswith("{")]
    if process.returncode != 0:
        return None
    if not sys.stdout.isatty():
        print("".join(lines), end="", flush=True)
    return [json.loads(line) for line in lines]


def main(arguments: list[str]) -> int:
    if "--docs" in arguments:
        import document

        return document.write(WORKLOADS)
    words = [word for word in arguments if word in MODES]
    asked = [word for word in arguments if word not in MODES] or WORKLOADS
    unknown = [name for name in asked if name not in WORKLOADS]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; there are {', '.join(WORKLOADS)}", file=sys.stderr)
        return 2
    figures: list[dict[str, Any]] = []
    failed = []
    for name in asked:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        start = time.monotonic()
        found = run(name, words)
        print(f"  {name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        if found is None:
            failed.append(name)
        else:
            figures += found
    if sys.stdout.isatty():
        import table

        table.show(figures)
    for name in failed:
        print(f"the benchmark {name} failed: see above", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
