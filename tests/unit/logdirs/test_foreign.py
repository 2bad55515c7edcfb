"""A log directory, and what looks like one."""

import os
from pathlib import Path

import pytest

from pylog.cli import main
from pylog.errors import LogNotFound, StorageError
from pylog.files import DiskFiles, MemoryFiles
from pylog.logdirs.foreign import refuse_foreign, require_log


def made(*paths: str) -> MemoryFiles:
    """The directory `d` with these in it: directories end with a slash."""
    files = MemoryFiles()
    files.make_dir("d")
    for path in paths:
        files.make_dir(f"d/{path}".rpartition("/")[0])
        if not path.endswith("/"):
            files.replace_file(f"d/{path}", b"")
    return files


LOGS = [
    ("meta.properties",),
    ("t-0/00000000000000000000.log",),
    ("t-0/partition.metadata",),
    ("__cluster_metadata-0/00000000000000000000.log",),
    ("photos/", "t-1/partition.metadata", "letter"),
]
OTHERS = [("letter",), ("photos/",), ("gtk-2/gtkrc",), ("gtk-2/", "polkit-1/"), ("t-0/00000000000000000000.index",)]


@pytest.mark.parametrize("paths", LOGS)
def test_a_log_directory_is_known_by_its_properties_or_a_partition(paths: tuple[str, ...]) -> None:
    files = made(*paths)
    require_log(files, "d")
    refuse_foreign(files, "d")


@pytest.mark.parametrize("paths", OTHERS)
def test_a_directory_of_other_things_is_neither_read_nor_made_a_log(paths: tuple[str, ...]) -> None:
    files = made(*paths)
    with pytest.raises(LogNotFound, match=r"^d: .*is no log directory"):
        require_log(files, "d")
    with pytest.raises(StorageError, match=r"^d is not empty, and no log directory: give"):
        refuse_foreign(files, "d")


@pytest.mark.parametrize("paths", [(), (".lock",), ("lost+found/", "meta.properties.tmp")])
def test_an_empty_directory_may_become_a_log(paths: tuple[str, ...]) -> None:
    files = made(*paths)
    refuse_foreign(files, "d")
    refuse_foreign(files, "d/none")
    with pytest.raises(LogNotFound, match="is no log directory"):
        require_log(files, "d")


def test_a_reader_needs_a_directory() -> None:
    for path, reason in (("d/none", "there is no log directory"), ("d/letter", "this is a file")):
        with pytest.raises(LogNotFound, match=f"^{path}: .*{reason}"):
            require_log(made("letter"), path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take another user's place")
def test_a_folder_that_may_not_be_looked_into_is_no_partition(tmp_path: Path) -> None:
    (tmp_path / "polkit-1").mkdir(mode=0)
    # What pytest made belongs to root alone.
    os.chmod(tmp_path, 0o755)
    before = os.getcwd()
    os.chdir(tmp_path)
    os.seteuid(65534)
    try:
        with pytest.raises(LogNotFound, match="is no log directory"):
            require_log(DiskFiles(), ".")
    finally:
        os.seteuid(0)
        os.chdir(before)


@pytest.mark.parametrize("command", [["topic", "create", "x"], ["produce", "x", "nothing"], ["topic", "clean", "x"]])
def test_the_command_makes_no_log_among_other_things(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter").write_text("mine")
    (tmp_path / "nothing").touch()
    assert main([*command, "--log", str(tmp_path)]) == 1
    assert "is not empty, and no log directory" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["letter", "nothing"]


def test_verify_says_that_another_directory_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gtk-2").mkdir()
    (tmp_path / "gtk-2/gtkrc").touch()
    assert main(["verify", "--log", str(tmp_path)]) == 1
    assert "it is no log directory" in capsys.readouterr().err
