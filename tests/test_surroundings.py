"""A test that changes its process fails, and the next one does not."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
from support.surroundings import Surroundings

def pytest_configure(config):
    config.pluginmanager.register(Surroundings())
"""
LEFT = {
    "signal.signal(signal.SIGUSR1, print)": "the handler of SIGUSR1",
    "signal.signal(signal.SIGINT, signal.SIG_IGN)": "the handler of SIGINT",
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})": "the signals that are blocked",
    "os.environ['LEFT'] = 'x'": "$LEFT: None is now 'x'",
    "os.chdir('/')": "the working directory",
    "os.umask(0o77)": "the umask",
    "sys.settrace(print)": "the trace function",
    "threading.setprofile(print)": "the profile function of threads",
    "sys.setswitchinterval(1e-6)": "the switch interval",
    "sys.path.append('x')": "sys.path",
    "gc.disable()": "the collector",
    "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))": "the limit RLIMIT_CORE",
    "logging.getLogger('pylog.x').setLevel(10)": "the logger pylog.x",
}
BEGIN = """
import gc, logging, os, pytest, resource, signal, sys, threading

@pytest.fixture(scope="module")
def shared():
    sys.setrecursionlimit(5000)

def test_that_leaves_nothing(monkeypatch):
    monkeypatch.setenv("PUT_BACK", "x")

def test_of_a_fixture(shared):
    pass
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder]
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parent))
    return subprocess.run([*command, *options, folder], capture_output=True, text=True, env=environment)


def test_what_a_test_or_its_fixture_leaves_behind_fails_it_alone(tmp_path: Path) -> None:
    tests = [f"def test_{number}():\n    {change}\n" for number, change in enumerate(LEFT)]
    (tmp_path / "test_it.py").write_text("\n".join([BEGIN, *tests, "def test_last():\n    pass\n"]))
    ran = run(tmp_path)
    assert f"{len(tests) + 3} passed, {len(tests) + 1} errors" in ran.stdout, ran.stdout + ran.stderr
    errors = ran.stdout.split("ERROR at teardown of ")[1:]
    found = {error.split(" ", 1)[0]: error for error in errors}
    assert "the recursion limit" in found["test_of_a_fixture"]
    for number, told in enumerate(LEFT.values()):
        assert told in found[f"test_{number}"]


def test_a_test_that_fails_is_not_said_to_have_changed_its_process(tmp_path: Path) -> None:
    """pytest-timeout takes its alarm back where a test fails."""
    (tmp_path / "test_it.py").write_text("def test_fails():\n    assert False\n")
    ran = run(tmp_path, "--timeout=300")
    assert "1 failed in" in ran.stdout, ran.stdout + ran.stderr
