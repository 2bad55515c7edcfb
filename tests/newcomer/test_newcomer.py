"""The first hour of somebody new: a fresh environment, the README, the tutorial, the notebook.

Once with a C compiler and once without one, each from a copy of what a clone has. `make newcomer` runs it.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from support.pages import blocks

ROOT = Path(__file__).parents[2]
README, TUTORIAL, NOTEBOOK = ROOT / "README.md", ROOT / "docs" / "tutorial.md", ROOT / "docs" / "notebook.ipynb"
PACKAGED = ("src", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "constraints.txt")
BUILT = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
EXTRAS, TOOLS = "[arrow,pandas,polars,ui]", ("duckdb", "ipykernel", "nbclient")

pytestmark = [pytest.mark.newcomer, pytest.mark.timeout(1000)]


@dataclass(frozen=True)
class Home:
    """An environment that has pylog and its extras."""

    place: Path
    kernel: str

    @property
    def programs(self) -> Path:
        return self.place / "bin"

    def written(self) -> dict[Path, int]:
        """When each file of the kernel was written."""
        (kernel,) = self.place.glob("lib/python*/site-packages/pylog/kernel")
        return {file: file.stat().st_mtime_ns for file in kernel.rglob("*") if "__pycache__" not in file.parts}

    def run(self, *words: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a program of this environment; it has to end well."""
        path = os.pathsep.join([str(self.programs), os.environ["PATH"]])
        seen = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYLOG_"))}
        ran = subprocess.run(
            words, cwd=cwd, env={**seen, "PATH": path, **environment}, capture_output=True, text=True, timeout=900
        )
        assert ran.returncode == 0, f"{words}\n{ran.stdout}\n{ran.stderr}"
        return ran


WAYS = [pytest.param(way, marks=pytest.mark.xdist_group(way)) for way in ("compiled", "pure")]
"""Each in a process of its own."""


@pytest.fixture(scope="module", params=WAYS)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A fresh environment, into which a copy of the clone was installed."""
    folder = tmp_path_factory.mktemp(request.param)
    clone = folder / "clone"
    clone.mkdir()
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name, ignore=BUILT)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, clone)
    made = Home(folder / "venv", request.param)
    subprocess.run([sys.executable, "-m", "venv", str(made.place)], check=True)
    compiler = {} if request.param == "compiled" else {"CC": "/nonexistent/cc"}
    pip = ["python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt"]
    made.run(*pip, ".", cwd=clone, **compiler)
    installed = made.written()
    made.run(*pip, f"pylog-commitlog{EXTRAS}", *TOOLS, cwd=clone)
    assert made.written() == installed, "an extra adds packages, and compiles nothing again"
    return made


def test_the_command_says_which_kernel_is_there(home: Home, tmp_path: Path) -> None:
    ran = home.run("pylog", "version", cwd=tmp_path)

    assert home.kernel in ran.stdout
    assert ("the slow one" in ran.stdout) == (home.kernel == "pure")
    assert ran.stderr.count("many times slower") == (home.kernel == "pure")


def test_every_block_of_the_readme_is_a_program_that_ends_well(home: Home, tmp_path: Path) -> None:
    programs = [block for _, block in blocks(README, "python") if "pyspark" not in block]
    for program in programs:
        home.run("python", "-W", "error", "-c", program, cwd=tmp_path)
    (lines,) = [block for _, block in blocks(README, "") if "PYLOG_LOG" in block]
    # Ctrl-C ends what follows the log; here that much does.
    home.run("bash", "-e", "-c", lines.replace("--follow", "--follow --max-records 3"), cwd=tmp_path)

    assert len(programs) >= 3


def test_the_tutorial_is_one_session_that_ends_well(home: Home, tmp_path: Path) -> None:
    session = "".join(block for _, block in blocks(TUTORIAL, "python"))

    home.run("python", "-W", "error", "-c", session, cwd=tmp_path)


def test_the_shell_completes_the_names_of_topics(home: Home, tmp_path: Path) -> None:
    typed = {"COMP_WORDS": "pylog topic describe cl", "COMP_CWORD": "3", "_PYLOG_COMPLETE": "bash_complete"}
    home.run("pylog", "--log", "data", "topic", "create", "clicks", cwd=tmp_path)

    assert "_pylog_completion" in home.run("pylog", "completion", "bash", cwd=tmp_path).stdout
    assert home.run("pylog", cwd=tmp_path, PYLOG_LOG="data", **typed).stdout == "plain,clicks\n"


def test_the_page_shows_the_topics(home: Home, tmp_path: Path) -> None:
    home.run("pylog", "--log", "data", "topic", "create", "clicks", cwd=tmp_path)
    words = [str(home.programs / "pylog"), "ui", "--log", "data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as page:
        assert page.stderr is not None
        # The pure kernel has said before that it is slow.
        address = next(word for line in page.stderr for word in line.split() if word.startswith("http://"))
        with urlopen(address.rstrip(";,"), timeout=60) as answer:
            shown = answer.read().decode()
        page.terminate()

    assert "clicks" in shown


def test_the_notebook_runs_in_the_new_environment(home: Home, tmp_path: Path) -> None:
    shutil.copy(NOTEBOOK, tmp_path)

    home.run("jupyter", "execute", NOTEBOOK.name, cwd=tmp_path, JUPYTER_PATH=str(home.place / "share" / "jupyter"))
