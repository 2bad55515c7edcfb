import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pylog
from pylog.errors import DirectoryLocked, NoOwner, ReadOnly, UnsupportedFormat
from pylog.logdirs.log_directory import LOCK, SOCKET
from support.log_copies import copy_log
from support.other_process import other_process

STRUCK = """
import gc, os, signal, sys, threading, pylog
from pylog.attach.places import find_owner
from pylog.files import DiskFiles
from pylog.runtime.closing import settle

class Struck(BaseException):
    pass

def strike(number, frame):
    raise Struck

def done(call, place):
    def count(frame, event, argument):
        nonlocal place
        place -= 1
        if not place:
            signal.raise_signal(signal.SIGTERM)
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return place

def open_log():
    pylog.open(path).close()

def find():
    find_owner(DiskFiles(read_only=True), path)[1].close()

signal.signal(signal.SIGTERM, strike)
path, most = sys.argv[1], 1 << 30
open_log()
# What is there now stays, and need not be looked at each time.
gc.freeze()
before = len(os.listdir("/proc/self/fd"))
for call, places in ((find, most), (open_log, 100)):
    steps = most - done(call, most)
    for place in range(1, steps, max(1, steps // places)):
        try:
            done(call, place)
        except Struck:
            pass
        # What was dropped between the open and the close is closed by a thread.
        gc.collect()
        settle()
        assert "pylog-attached" not in [thread.name for thread in threading.enumerate()], place
        assert len(os.listdir("/proc/self/fd")) == before, (call, place)
"""

WITHOUT_DESCRIPTORS = """
import gc, os, resource, sys, threading, pylog
from contextlib import suppress
from pylog.errors import StorageError

resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
path = sys.argv[1]
pylog.open(path).close()
before = len(os.listdir("/proc/self/fd"))
for spare in range(16):
    held = []
    with suppress(OSError):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    for _ in range(spare):
        os.close(held.pop())
    try:
        pylog.open(path).close()
    except StorageError as error:
        assert "ulimit -n" in str(error), error
    finally:
        for one in held:
            os.close(one)
    gc.collect()
    assert threading.active_count() == 1 and len(os.listdir("/proc/self/fd")) == before, spare
"""


@pytest.mark.parametrize("program", [STRUCK, WITHOUT_DESCRIPTORS], ids=["by a signal", "without descriptors"])
def test_an_attach_that_ends_early_leaves_nothing(tmp_path: Path, program: str) -> None:
    """What is left would take over, in the name of nobody."""
    with other_process(tmp_path):
        # In a process of its own: other tests have threads.
        command = [sys.executable, "-W", "error", "-c", program, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_own_is_refused_where_there_is_an_owner(tmp_path: Path) -> None:
    with pylog.open(tmp_path), pytest.raises(DirectoryLocked, match=f"process {os.getpid()} owns"):
        pylog.open(tmp_path, mode="own")


def test_own_waits_for_the_owner_to_end(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        threading.Thread(target=owner.end).start()
        with pylog.open(tmp_path, mode="own", wait=20) as log:
            assert log.mode == "own"


def test_attach_is_refused_where_there_is_no_owner(tmp_path: Path) -> None:
    with pytest.raises(NoOwner, match=r"no process owns .*mode='auto'"):
        pylog.open(tmp_path / "missing", mode="attach")
    pylog.open(tmp_path / "log").close()
    with pytest.raises(NoOwner, match="no process owns"):
        pylog.open(tmp_path / "log", mode="attach")
    assert not (tmp_path / "missing").exists()


def test_attach_waits_for_an_owner(tmp_path: Path) -> None:
    found: list[str] = []

    def attach() -> None:
        with pylog.open(tmp_path, mode="attach", wait=20) as log:
            found.append(log.mode)

    thread = threading.Thread(target=attach)
    thread.start()
    with pylog.open(tmp_path):
        thread.join()
    assert found == ["attach"]


def test_auto_tells_of_an_owner_that_lets_nobody_in(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.broker.announce("another program")
        with pytest.raises(DirectoryLocked, match="has let no other process in"):
            pylog.open(tmp_path, wait=0.01)


def test_an_owner_of_a_newer_version_is_neither_robbed_nor_read(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.broker.announce('{"format": 99}')
        with pytest.raises(UnsupportedFormat, match="format 99"):
            pylog.open(tmp_path)


def test_the_owner_of_another_directory_is_not_attached_to_by_a_copy(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t")
        copy_log(tmp_path / "log", tmp_path / "copy")
        with pytest.raises(NoOwner):
            pylog.open(tmp_path / "copy", mode="attach")
        with pylog.open(tmp_path / "copy") as copy:
            assert copy.mode == "own" and copy.topics() == ["t"]


def test_the_socket_is_for_this_user_alone_and_goes_with_the_owner(tmp_path: Path) -> None:
    with pylog.open(tmp_path):
        assert (tmp_path / SOCKET).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / SOCKET).exists() and (tmp_path / LOCK).exists()


def test_a_socket_that_a_killed_owner_left_is_replaced(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        owner.kill()
    assert (tmp_path / SOCKET).exists()
    with pylog.open(tmp_path) as log, pylog.open(tmp_path) as attached:
        assert (log.mode, attached.mode) == ("own", "attach")


@pytest.mark.parametrize("runtime", [True, False])
def test_a_long_path_has_its_socket_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: bool) -> None:
    place = Path("/tmp") / f"pylog-test-{os.getpid()}"
    place.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR" if runtime else "TMPDIR", str(place))
    if not runtime:
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    path = tmp_path / ("x" * 100) / ("y" * 100)
    try:
        with pylog.open(path) as log:
            assert not (path / SOCKET).exists()
            (directory,) = place.iterdir()
            assert directory.stat().st_mode & 0o777 == 0o700 and len(list(directory.iterdir())) == 1
            log.create_topic("t")
            monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
            with pylog.open(path) as attached:
                assert attached.mode == "attach" and attached.topics() == ["t"]
        assert list(directory.iterdir()) == []
        directory.rmdir()
    finally:
        place.rmdir()


def test_a_directory_that_others_can_write_into_takes_no_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pylog").mkdir(0o700)
    (tmp_path / "pylog").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = tmp_path / ("x" * 100)
    with pylog.open(path) as log:
        assert log.mode == "own"
        with pytest.raises(NoOwner, match=r"lets no other process in: .*not a directory of this user alone"):
            pylog.open(path)


@contextmanager
def as_root() -> Iterator[None]:
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(65534)


@pytest.mark.skipif(os.getuid() != 0, reason="another user is taken on, which root can")
def test_another_user_is_told_that_the_log_is_not_theirs(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
        owner.topic("t")[0].append([pylog.Record(b"v")])
        os.seteuid(65534)
        try:
            with pytest.raises(ReadOnly, match="Check the permissions"):
                pylog.open(tmp_path)
            for lock_mode in (0o600, 0o644):
                # The mode that an older version gave it.
                with as_root():
                    (tmp_path / LOCK).chmod(lock_mode)
                with pytest.raises(ReadOnly, match="process of another user"):
                    pylog.open(tmp_path, mode="attach")
            with pylog.open(tmp_path, mode="read") as log:
                assert log.topics() == ["t"] and [record.value for record in log.topic("t")[0].records()] == [b"v"]
            with as_root():
                owner.admin.set_password("alice", "secret")
            with pytest.raises(ReadOnly, match="only the user of its owner reads the files"):
                pylog.open(tmp_path, mode="read")
        finally:
            os.seteuid(0)
