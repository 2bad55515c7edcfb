"""A socket that somebody else removes: a cleaner of old files, or the end of its user's last session."""

import logging
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from pylog import Record
from pylog.attach.doorway import Doorway
from pylog.attach.owned import Owned
from pylog.errors import DirectoryLocked, NoOwner
from pylog.logdirs.log_directory import SOCKET
from support.clients.values import until
from support.other_process import other_process


def doorway_of(log: pylog.Log) -> Doorway:
    node = log._opened.node
    assert isinstance(node, Owned)
    return node.doorway


def look(log: pylog.Log, times: int = 2) -> None:
    """Look now, as its thread does once a second."""
    for _ in range(times):
        doorway_of(log).look(log.broker)


def attach(path: Path) -> None:
    """Attach, and ask something, as another process does."""
    with pylog.open(path, mode="attach") as attached:
        attached.topics()


def append(log: pylog.Log) -> int:
    return log.topic("t")[0].append([Record(b"a")]).base_offset


def moved(path: Path) -> None:
    path.rename(path.with_name("moved"))


LOSSES = [Path.unlink, moved]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_removed_socket_is_made_again_before_anybody_has_come(tmp_path: Path, lose: Callable[[Path], object]) -> None:
    """No process came in any more until the owner had closed."""
    with pylog.open(tmp_path) as log:
        lose(tmp_path / SOCKET)
        look(log)
        attach(tmp_path)
        assert (tmp_path / SOCKET).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / SOCKET).exists()


@pytest.mark.parametrize("lose", LOSSES)
def test_a_removed_socket_is_made_again_under_those_that_are_attached(
    tmp_path: Path, lose: Callable[[Path], object]
) -> None:  # fmt: skip
    with pylog.open(tmp_path) as log, pylog.open(tmp_path, mode="attach") as attached:
        log.create_topic("t")
        assert append(attached) == 0
        before = len(os.listdir("/dev/fd"))
        for number in range(1, 4):
            lose(tmp_path / SOCKET)
            look(log)
            assert append(attached) == number
            attach(tmp_path)
        until(lambda: len(os.listdir("/dev/fd")) == before)
    assert not (tmp_path / SOCKET).exists()


def test_an_idle_owner_finds_by_itself_that_its_socket_is_gone(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        owner.does("log.create_topic('t')")
        with pylog.open(tmp_path) as attached:
            (tmp_path / SOCKET).unlink()
            assert append(attached) == 0
            (tmp_path / SOCKET).unlink()
            with pylog.open(tmp_path) as another:
                assert another.mode == "attach"
        assert owner.end() == 0
    assert not (tmp_path / SOCKET).exists()


def test_a_stopped_owner_makes_it_when_it_goes_on(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        owner.stop()
        (tmp_path / SOCKET).unlink()
        with pytest.raises(DirectoryLocked, match=f"process {owner.pid} owns"):
            pylog.open(tmp_path, wait=0)
        owner.go_on()
        with pylog.open(tmp_path) as attached:
            assert attached.topics() == []


def test_a_socket_that_is_missed_once_may_be_that_of_a_removal_of_all(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        (tmp_path / SOCKET).unlink()
        look(log, 1)
        assert not (tmp_path / SOCKET).exists()
        look(log, 1)
        attach(tmp_path)


@pytest.mark.parametrize("lose", LOSSES)
def test_a_directory_in_the_place_of_the_opened_one_gets_no_socket(
    tmp_path: Path, lose: Callable[[Path], object]
) -> None:  # fmt: skip
    log = pylog.open(tmp_path / "log")
    log.create_topic("t")
    moved(tmp_path / "log")
    (tmp_path / "log").mkdir()
    look(log, 3)
    assert not list((tmp_path / "log").iterdir())
    with pylog.open(tmp_path / "log") as other:
        look(log, 3)
        lose(tmp_path / "log" / SOCKET)
        look(log, 3)
        assert not (tmp_path / "log" / SOCKET).exists()
        look(other)
        with pytest.raises(pylog.errors.DirectoryReplaced):
            log.close()
        attach(tmp_path / "log")


def test_where_the_directory_lies_now_its_owner_is_attached_to(tmp_path: Path) -> None:
    log = pylog.open(tmp_path / "log")
    moved(tmp_path / "log")
    look(log, 3)
    attach(tmp_path / "moved")
    moved_back = (tmp_path / "moved").rename(tmp_path / "log")
    look(log, 3)
    attach(moved_back)
    log.close()
    assert not (moved_back / SOCKET).exists()


def a_file(path: Path) -> None:
    path.write_bytes(b"mine")


def a_directory(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(os.fspath(path))


@pytest.mark.parametrize("put", [a_file, a_directory, a_link, a_socket])
def test_what_lies_in_the_place_of_the_socket_is_left_alone(
    tmp_path: Path, put: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / SOCKET
    with pylog.open(tmp_path) as log, pylog.open(tmp_path, mode="attach") as attached:
        log.create_topic("t")
        assert append(attached) == 0
        path.unlink()
        put(path)
        known = path.lstat()
        with caplog.at_level(logging.WARNING, "pylog.attach"):
            look(log, 4)
        (told,) = caplog.messages
        assert "no other process can attach" in told and "a file that is not its socket lies there now" in told
        assert path.lstat() == known
        with pytest.raises(NoOwner, match=r"lets no other process in: .*\.socket: a file that is not"):
            pylog.open(tmp_path, mode="attach")
        assert append(attached) == 1

        path.rmdir() if path.is_dir() else path.unlink()
        look(log)
        attach(tmp_path)
        path.unlink()
        put(path)
        known = path.lstat()
    assert path.lstat() == known


def test_a_socket_beside_temporary_files_gets_its_directory_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is that of a long path, and goes with the last session of its user."""
    runtime = tmp_path / "run"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(runtime))
    path = tmp_path / ("x" * 90) / "log"
    with pylog.open(path) as log:
        attach(path)
        for _ in range(2):
            shutil.rmtree(runtime)
            with caplog.at_level(logging.WARNING, "pylog.attach"):
                look(log, 4)
            assert sum("no other process can attach" in told for told in caplog.messages) == 1
            caplog.clear()
            with pytest.raises(NoOwner, match="No such file or directory"):
                pylog.open(path, mode="attach")
            runtime.mkdir()
            look(log)
            attach(path)
    assert not list((runtime / "pylog").iterdir())


def test_a_close_leaves_no_socket_whose_rights_were_changed(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        (tmp_path / SOCKET).chmod(0o660)
        look(log, 3)
        attach(tmp_path)
    assert not (tmp_path / SOCKET).exists()


def test_a_look_after_the_close_makes_nothing(tmp_path: Path) -> None:
    log = pylog.open(tmp_path)
    door, broker = doorway_of(log), log.broker
    (tmp_path / SOCKET).unlink()
    look(log, 1)
    log.close()
    door.look(broker)
    assert not (tmp_path / SOCKET).exists()
