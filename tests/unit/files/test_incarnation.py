"""An incarnation is the same only where nothing that was written can be lost."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from pylog.files import DiskFiles, MemoryFiles
from pylog.files.incarnation import incarnation
from tests.support.crash import CrashFiles
from tests.support.faults import FaultFiles

ROOT = "1 0 8:1 / / rw - {} none rw"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "meta.properties"
    path.write_text("version=1")
    return path


def here(path: Path) -> str:
    """As in a container: its layers are the root."""
    found = incarnation(str(path), ROOT.format("overlay"))
    if found is None:
        pytest.skip("this system does not tell its boot")
    return found


def test_a_file_keeps_its_incarnation_while_others_are_written(file: Path) -> None:
    before = here(file)
    (file.parent / "other").write_text("x")
    assert here(file) == before


def test_a_copy_and_a_restored_file_have_other_ones(file: Path) -> None:
    before = here(file)
    copy = file.parent / "copy"
    shutil.copy2(file, copy)
    assert here(copy) != before
    os.replace(copy, file)
    assert here(file) != before


@pytest.mark.parametrize("kind", ["nfs", "fuse.sshfs", "9p", "ntfs"])
def test_a_file_system_that_cannot_tell_has_none(file: Path, kind: str) -> None:
    assert incarnation(str(file), ROOT.format(kind)) is None


def test_a_layered_file_system_beside_the_root_has_none(file: Path) -> None:
    point = str(file.parent).replace(" ", "\\040")
    text = f"{ROOT.format('ext4')}\n2 1 0:9 / {point} rw - overlay none rw"
    assert incarnation(str(file), text) is None


def test_memory_goes_with_its_mount(file: Path) -> None:
    here(file)
    first, second = (incarnation(str(file), ROOT.format("tmpfs")) for _ in range(2))
    assert first is not None and first == second


def test_there_is_none_of_what_is_not_there_or_of_a_system_without_mounts(file: Path) -> None:
    assert incarnation(str(file.parent / "gone")) is None
    assert incarnation(str(file), "") is None


@pytest.mark.skipif(sys.platform != "linux", reason="the file system of Linux's own")
def test_a_device_tells_its_mount(file: Path) -> None:
    found = incarnation(str(file))
    if found is None:
        pytest.skip("the temporary directory lies on a file system that does not tell")
    assert found == DiskFiles().incarnation(str(file)) and len(found.split()) >= 5


def test_files_in_memory_have_one_for_each_boot() -> None:
    first = MemoryFiles()
    assert first.incarnation("x") == first.incarnation("y") != MemoryFiles(tree=first.tree()).incarnation("x")
    assert MemoryFiles(tree=first.tree(), boot=first.boot).incarnation("x") == first.incarnation("x")
    crash = CrashFiles()
    assert FaultFiles(crash).incarnation("x") == crash.incarnation("x") is not None
