import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog.files import processes
from pylog.files.processes import has_ended, lock_holders, name_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell of other processes")


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_process_has_ended_also_where_nobody_has_waited_for_that(child: "subprocess.Popen[bytes]") -> None:
    name = name_of(child.pid)
    assert name.startswith(f"attached process {child.pid} ") and not has_ended(name)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(name) and name_of(child.pid) == ""
    child.wait()
    assert has_ended(name) and name_of(child.pid) == ""


def test_a_later_process_with_the_same_pid_is_another_one() -> None:
    name = name_of(os.getpid())
    before, _, start = name.rpartition("-")
    assert not has_ended(name)
    assert has_ended(f"{before}-{int(start) - 1}")


def test_every_process_of_an_earlier_boot_has_ended() -> None:
    words = name_of(os.getpid()).split(" ")
    boot, namespace, start = words[-1].split("-")
    other = boot.translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
    assert has_ended(" ".join([*words[:-1], f"{other}-{namespace}-{start}"]))


def test_of_what_cannot_be_seen_from_here_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_of(os.getpid())
    where, boot_on = name.rsplit(" ", 1)
    boot, namespace, _ = boot_on.split("-")
    assert not has_ended(f"{where} {boot}-{int(namespace) + 1}-1")
    assert not has_ended("/") and not has_ended(f"process {os.getpid()} 5e1a0c77")
    monkeypatch.setattr(processes, "PROC", str(tmp_path))
    assert not has_ended(f"{where} {boot}-{namespace}-1") and name_of(os.getpid()) == ""


def test_the_processes_that_have_a_lock_are_known_with_their_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of files in memory the system tells the same device everywhere; not so of files in a container's layers.
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        assert lock_holders(os.fstat(file.fileno())) == []
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holders(os.fstat(file.fileno())) == [(os.getpid(), os.geteuid())]
        monkeypatch.setattr(processes, "PROC", str(tmp_path))
        assert lock_holders(os.fstat(file.fileno())) == []
