"""A child of an owner that other code than Python's has forked: it has copies of the lock and of all sockets."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pylog
from pylog.attach.places import find_owner
from pylog.attach.succession import Succession
from pylog.errors import DirectoryLocked
from pylog.files import DiskFiles, processes
from pylog.runtime.clock import SystemClock
from support.clients.values import until
from support.other_process import OtherProcess, other_process

pytestmark = pytest.mark.skipif(not processes.can_watch(), reason="the system does not tell of other processes")

FORK = "import ctypes, os, signal; child = ctypes.PyDLL(None).fork()\n"


@contextmanager
def heir_of(owner: OtherProcess) -> Iterator[int]:
    """The pid of a child that C has forked, which does nothing, and is killed at the end."""
    heir = int(owner.does(FORK + "while not child: signal.pause()", "child"))
    try:
        yield heir
    finally:
        os.kill(heir, signal.SIGKILL)


def test_a_lock_that_a_child_keeps_is_told_with_its_pid_and_taken_when_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with other_process(tmp_path) as owner, caplog.at_level(logging.WARNING, "pylog.attach"):
        owner.does("log.create_topic('t')")
        with pylog.open(tmp_path) as log:
            with heir_of(owner) as heir:
                owner.kill()
                told = f"process {owner.pid}, which owned this log directory, has ended, and process {heir}, which was"
                until(lambda: told in caplog.text)
                caplog.clear()
                with pytest.raises(DirectoryLocked, match=told) as raised:
                    pylog.open(tmp_path, mode="own")
                assert raised.value.pid == heir and raised.value.is_left
                with pytest.raises(DirectoryLocked, match=told):
                    pylog.open(tmp_path, wait=0.1)
                assert told in caplog.text and log.mode == "attach"
                assert f"process {heir}" in log._opened.transport.name(-1)
            log.create_topic("u")
            assert log.mode == "own" and sorted(log.topics()) == ["t", "u"]


def test_an_owner_that_closes_leaves_nothing_to_a_child(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        owner.does("log.create_topic('t')")
        log = pylog.open(tmp_path)
        with heir_of(owner):
            assert log.topics() == ["t"]
            owner.does("log.close()")
            until(lambda: log.mode == "own")
            log.close()
            pylog.open(tmp_path, mode="own").close()


def test_an_attached_process_closes_while_a_child_has_copies(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log, other_process(tmp_path) as attached:
        assert attached.mode == "attach"
        with heir_of(attached):
            attached.does("log.create_topic('t'); log.close()")
            assert log.topics() == ["t"]


def test_an_owner_that_ended_before_it_was_watched_is_not_waited_for(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner, heir_of(owner):
        found = find_owner(DiskFiles(read_only=True), str(tmp_path))
        assert found is not None
        owner.kill()
        assert find_owner(DiskFiles(read_only=True), str(tmp_path)) is None
        lost = threading.Event()
        succession = Succession(found[1], SystemClock(), lost.set, lambda: None, lambda: False)
        assert lost.wait(240)
        succession.close()


def test_a_child_that_closes_its_copy_of_the_lock_leaves_it_to_the_owner(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        owner.does(
            "from pylog.files import lock\n" + FORK + "if not child:\n"
            "    [one.close() for one in list(lock._held)]\n"
            "    os._exit(0)\n"
            "os.waitpid(child, 0)"
        )
        with pytest.raises(DirectoryLocked) as raised:
            pylog.open(tmp_path, mode="own")
        assert raised.value.pid == owner.pid and not raised.value.is_left


def test_a_process_that_took_the_lock_itself_is_no_child_of_a_dead_owner(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        with other_process(tmp_path) as ended:
            pass
        # So it stands between the lock that a new owner takes and the pid that it writes.
        lock = tmp_path / ".lock"
        lock.write_text(lock.read_text().replace(str(owner.pid), str(ended.pid), 1))
        with pytest.raises(DirectoryLocked) as raised:
            pylog.open(tmp_path, mode="own")
        assert raised.value.pid == ended.pid and not raised.value.is_left
