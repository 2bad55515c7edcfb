import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pylog
from pylog.errors import DiskFull, StorageError
from pylog.logdirs.log_directory import SOCKET
from support.other_process import other_process

ONLY_THIS_THREAD = """
import threading
def only_this_thread():
    # The threads of a pool end a moment after it is closed.
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(240)
    return threading.active_count() == 1
"""

PARKED = (
    ONLY_THIS_THREAD
    + """
import sys, threading, pylog
with pylog.open(sys.argv[1]) as log:
    names = {thread.name for thread in threading.enumerate()}
    assert "pylog-doorway" in names, names
    assert not [name for name in sys.modules if name.startswith(("pylog.server.loop", "pylog.server.api"))]
    with pylog.open(sys.argv[1]) as attached:
        assert attached.mode == "attach" and attached.topics() == []
    assert "pylog.server.loop" in sys.modules
assert only_this_thread(), threading.enumerate()
"""
)

CLOSED = (
    ONLY_THIS_THREAD
    + """
import os, sys, threading, pylog
def held():
    only_this_thread()
    return len(os.listdir("/proc/self/fd")), threading.active_count()
before = None
for _ in range(4):
    with pylog.open(sys.argv[1]) as log, pylog.open(sys.argv[1]) as attached:
        assert attached.topics() == log.topics() == []
    pylog.open(sys.argv[1]).close()
    before = before or held()
assert held() == before, (held(), before)
"""
)


WITHOUT_DESCRIPTORS = (
    ONLY_THIS_THREAD
    + """
import os, resource, sys, threading, pylog
from contextlib import suppress
from pylog.errors import PylogError, StorageError

def take_all(but):
    held = []
    with suppress(OSError):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    for _ in range(but):
        os.close(held.pop())
    return held

resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
path, before = sys.argv[1], len(os.listdir("/proc/self/fd"))
pylog.open(path).close()
for spare in range(16):
    held = take_all(spare)
    log = None
    try:
        log = pylog.open(path)
    except StorageError as error:
        assert "ulimit -n" in str(error), error
    finally:
        for one in held:
            os.close(one)
    if log is not None:
        with log, pylog.open(path, mode="attach", wait=20) as attached:
            assert attached.topics() == []
    assert only_this_thread() and len(os.listdir("/proc/self/fd")) == before, spare
"""
)


def test_an_owner_lets_others_in_as_soon_as_it_has_descriptors(tmp_path: Path) -> None:
    # In a process of its own: the limit is a process's.
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_DESCRIPTORS, str(tmp_path)], check=True)


def test_a_server_that_cannot_be_made_is_made_later(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        owner.does("from resource import *; limits = getrlimit(RLIMIT_NOFILE)")
        owner.does("setrlimit(RLIMIT_NOFILE, (3, limits[1]))")
        with pylog.open(tmp_path, mode="attach") as attached:
            owner.does("import time; time.sleep(0.2); setrlimit(RLIMIT_NOFILE, limits)")
            assert attached.topics() == []


def test_a_server_is_made_when_somebody_comes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", PARKED, str(tmp_path)], check=True)


def test_a_closed_log_leaves_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    # In a process of its own: other tests have threads.
    subprocess.run([sys.executable, "-W", "error", "-c", CLOSED, str(tmp_path)], check=True)


def test_a_directory_in_the_place_of_the_socket_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / SOCKET).mkdir()
    with pylog.open(tmp_path) as log, pylog.open(tmp_path) as attached:
        assert (log.mode, attached.mode) == ("own", "attach")
    assert (tmp_path / SOCKET).is_dir()


def test_a_notice_that_finds_no_room_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, text: str) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr("pylog.broker.broker.Broker.announce", full)
    with pylog.open(tmp_path) as log:
        assert log.mode == "own" and log.topics() == []


def test_the_log_in_memory_and_a_reader_have_no_door(tmp_path: Path) -> None:
    pylog.open(tmp_path).close()
    with pylog.open(":memory:"), pylog.open(tmp_path, mode="read"):
        assert "pylog-doorway" not in {thread.name for thread in threading.enumerate()}
    assert not (tmp_path / SOCKET).exists()


def test_an_open_without_descriptors_for_its_door_leaves_the_directory_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("socket.socketpair", none_left)
        with pytest.raises(StorageError, match="ulimit"):
            pylog.open(tmp_path)
    with pylog.open(tmp_path, mode="own") as log:
        assert log.topics() == []


def test_a_socket_that_cannot_be_removed_is_a_typed_error_and_the_close_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare OSError came out of the close, and two descriptors stayed."""
    unlink, before = os.unlink, len(os.listdir("/dev/fd"))

    def failing(path: str, *args: object, **given: object) -> None:
        if os.path.basename(path) == SOCKET:
            raise OSError(errno.EIO, "Input/output error", path)
        unlink(path, *args, **given)  # type: ignore[arg-type]

    log = pylog.open(tmp_path)
    monkeypatch.setattr(os, "unlink", failing)
    with pytest.raises(StorageError, match=rf"cannot remove .*{SOCKET}: Input/output error"):
        log.close()
    monkeypatch.undo()
    assert len(os.listdir("/dev/fd")) == before
    with pylog.open(tmp_path) as again, pylog.open(tmp_path, mode="attach") as attached:
        assert (again.mode, attached.topics()) == ("own", [])
