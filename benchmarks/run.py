"""Runs every benchmark, one process each, one line of JSON each; `--quick` only shows that they work."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
WORKLOADS = ["append", "consume", "segments", "compaction", "spark_scan"]


def main() -> int:
    failed = []
    for name in WORKLOADS:
        print(f"measuring {name} (about a minute)", file=sys.stderr, flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py"), *sys.argv[1:]], check=False).returncode != 0:
            failed.append(name)
    for name in failed:
        print(f"the benchmark {name} failed: see above", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
