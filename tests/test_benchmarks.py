"""No benchmark rots: each runs in its quick mode, and its figures can be shown. How fast anything is, nobody looks.

Some are tried here, all of them by `make bench-smoke`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
WORKLOADS = sorted(path.stem for path in BENCHMARKS.glob("*.py") if "\n    report(\n" in path.read_text())
EVERY = os.environ.get("PYLOG_BENCHMARKS") == "every"  # make bench-smoke
TRIED = [name for name in WORKLOADS if EVERY or name in {"append", "threads"}]
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(BENCHMARKS.parent / "src"))
SHOW = """
import sys; sys.path.insert(0, {folder!r})
import document, json, table
figures = [json.loads(line) for line in sys.stdin]
table.show(figures)
print(*document.lines(figures), sep="\\n")
"""

IN_THE_BACKGROUND = """
import signal, sys; sys.path.insert(0, {folder!r})
import nodes
signal.signal(signal.SIGINT, signal.SIG_IGN)
with nodes.served(":memory:") as node:
    pass
"""


def run(*words: str, given: str | None = None) -> str:
    command = [sys.executable, *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, input=given)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.spark) if "spark" in name else name for name in TRIED],
)
def test_a_benchmark_gives_figures_and_they_can_be_shown(name: str) -> None:
    if "spark" in name and "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        pytest.skip("no Java; install a JRE 17 or set JAVA_HOME")
    printed = run(str(BENCHMARKS / "run.py"), "--quick", name)
    figures = [json.loads(line) for line in printed.splitlines()]
    assert figures and {figure["workload"] for figure in figures} == {name}
    for figure in figures:
        assert figure["skipped"] or figure["value"] is not None, figure["name"]
        assert (figure["holds"] is None) == (figure["target"] is None or figure["skipped"]), figure["name"]
    shown = run("-c", SHOW.format(folder=str(BENCHMARKS)), given=printed)
    assert f"[{name}](../benchmarks/{name}.py)" in shown and "targets hold" in shown


def test_make_bench_runs_them_all() -> None:
    said = subprocess.run(
        [sys.executable, str(BENCHMARKS / "run.py"), "none-of-them"],
        capture_output=True, text=True, check=False, env=ENVIRONMENT,
    )  # fmt: skip
    assert said.returncode == 2
    listed = said.stderr.split("there are ")[1].strip().split(", ")
    assert sorted(listed) == WORKLOADS


def test_a_node_ends_although_ctrl_c_is_ignored_as_in_the_background() -> None:
    run("-c", IN_THE_BACKGROUND.format(folder=str(BENCHMARKS)))


def test_the_micro_benchmarks_work() -> None:
    """`run` fails where the process ends with another code than 0."""
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-disable", str(BENCHMARKS / "micro"))
