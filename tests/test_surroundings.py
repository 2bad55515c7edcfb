"""A test that changes its process fails, and the next one does not."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
from support.surroundings import Surroundings

def pytest_configure(config):
    config.pluginmanager.register(Surroundings(patience_s=PATIENCE_S))
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
    "threading.Thread(target=never.wait, name='left', daemon=True).start()": "the thread left is left",
    "kept.append(open(os.devnull))": "of /dev/null is left",
    "kept.append(subprocess.Popen(['sleep', '1000']))": "the child process",
    "tempfile.mkstemp('.left')": ".left is left",
}
IMPORTS = """
import _thread, gc, logging, os, pytest, resource, signal, subprocess, sys, tempfile, threading, time
"""
GIVEN_BACK = f"""
{IMPORTS}

@pytest.fixture(scope="module")
def shared():
    with open(os.devnull) as file:
        yield [file]

@pytest.fixture
def given():
    return open(os.devnull)

def test_of_a_thread_that_is_about_to_end():
    threading.Thread(target=lambda: time.sleep(0.1)).start()

def test_of_threads_that_are_listed_and_do_not_live():
    done = threading.Lock()
    done.acquire()
    _thread.start_new_thread(lambda: (threading.current_thread(), done.release()), ())
    done.acquire()
    unbegun = threading.Thread()
    threading._limbo[unbegun] = unbegun  # as where a signal ends its start

@pytest.mark.filterwarnings("ignore")
def test_of_what_the_collector_frees(given):
    circle = [open(os.devnull)]
    circle.append(circle)

def test_of_a_process_and_a_file_that_are_gone():
    subprocess.run(["true"])
    with tempfile.NamedTemporaryFile():
        pass

def test_of_what_the_module_has(shared):
    shared.append(open(os.devnull))

@pytest.mark.filterwarnings("ignore")
def test_that_is_the_last(shared):
    shared.pop()
"""
BEGIN = f"""
{IMPORTS}
kept, never = [], threading.Event()

@pytest.fixture(scope="module")
def shared():
    sys.setrecursionlimit(5000)

@pytest.fixture(scope="module", autouse=True)
def reaped():
    yield
    for one in kept:
        if isinstance(one, subprocess.Popen):
            one.kill()
            one.wait()

def test_that_leaves_nothing(monkeypatch):
    monkeypatch.setenv("PUT_BACK", "x")

def test_of_a_fixture(shared):
    pass
"""


def run(folder: Path, *options: str, patience_s: float) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.replace("PATIENCE_S", str(patience_s)))
    options = ("-p", "pytest_timeout", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder), *options)
    command = [sys.executable, "-m", "pytest", "-q"]
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parent), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return subprocess.run([*command, *options, folder], capture_output=True, text=True, env=environment)


def test_what_a_test_or_its_fixture_leaves_behind_fails_it_alone(tmp_path: Path) -> None:
    tests = [f"def test_{number}():\n    {change}\n" for number, change in enumerate(LEFT)]
    (tmp_path / "test_it.py").write_text("\n".join([BEGIN, *tests, "def test_last():\n    pass\n"]))
    ran = run(tmp_path, patience_s=0.1)
    assert f"{len(tests) + 3} passed, {len(tests) + 1} errors" in ran.stdout, ran.stdout + ran.stderr
    errors = ran.stdout.split("ERROR at teardown of ")[1:]
    found = {error.split(" ", 1)[0]: error for error in errors}
    assert "the recursion limit" in found["test_of_a_fixture"]
    for number, told in enumerate(LEFT.values()):
        assert told in found[f"test_{number}"]


def test_a_test_that_fails_is_not_said_to_have_changed_its_process(tmp_path: Path) -> None:
    """pytest-timeout takes its alarm back where a test fails."""
    (tmp_path / "test_it.py").write_text("def test_fails():\n    assert False\n")
    ran = run(tmp_path, "--timeout=300", patience_s=0.1)
    assert "1 failed in" in ran.stdout, ran.stdout + ran.stderr


def test_what_goes_by_itself_and_what_a_fixture_holds_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(GIVEN_BACK)
    ran = run(tmp_path, patience_s=60)
    assert "6 passed in" in ran.stdout, ran.stdout + ran.stderr


def test_what_a_fixture_of_a_module_does_not_give_back_is_told_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        GIVEN_BACK.replace("with open(os.devnull) as file:", "for file in [os.open('/', 0)]:")
    )
    ran = run(tmp_path, "-k", "module or last", patience_s=0.1)
    assert "2 passed, 4 deselected, 1 error" in ran.stdout, ran.stdout + ran.stderr
