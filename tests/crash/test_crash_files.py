"""What `CrashFiles` says that a crash leaves: by hand, for operations whose outcomes one can count."""

import errno
import random

import pytest

from pylog.errors import DiskFull, StorageError
from pylog.files import MemoryFiles
from tests.support.crash import CrashFiles
from tests.support.cuts import CrashState
from tests.support.faults import FaultFiles


def contents(states: list[CrashState], path: str) -> set[bytes | None]:
    return {state.tree.get(path) for state in states}


def last(files: CrashFiles, *, weak: bool = False) -> list[CrashState]:
    """The states after the last operation, which is a note."""
    files.note("end")
    return [state for state in files.power_cuts(weak=weak, samples=0) if state.notes == ("end",)]


def durable_file(files: CrashFiles, data: bytes = b"") -> None:
    files.make_dir("d")
    file = files.open("d/f", create=True)
    file.write(0, data)
    file.sync()
    files.sync_dir("d")


def test_a_power_cut_keeps_synced_bytes_and_nothing_else() -> None:
    files = CrashFiles()
    durable_file(files, b"abc")
    assert [state.tree for state in last(files)] == [{"d": None, "d/f": b"abc"}]


def test_an_unsynced_write_may_be_lost_torn_or_only_its_length() -> None:
    files = CrashFiles()
    durable_file(files, b"abc")
    files.open("d/f").write(3, b"defg")
    assert contents(last(files), "d/f") == {
        b"abc", b"abcdefg", b"abcd", b"abc\0\0\0\0", b"abc\xa5\xa5\xa5\xa5", b"abcd\0\0\0",
    }  # fmt: skip


def test_unsynced_writes_are_lost_in_every_combination() -> None:
    files = CrashFiles()
    durable_file(files, b"...")
    file = files.open("d/f")
    for position in range(3):
        file.write(position, b"x")
    wanted = {bytes(b"x."[(mask >> at) & 1] for at in range(3)) for mask in range(8)}
    assert contents(last(files), "d/f") == wanted


def test_a_name_needs_its_directory_to_be_synced() -> None:
    files = CrashFiles()
    files.make_dir("d")
    file = files.open("d/f", create=True)
    file.write(0, b"x")
    file.sync()
    assert contents(last(files), "d/f") == {None, b"x"}


def test_a_rename_may_reach_the_disk_before_the_bytes() -> None:
    files = CrashFiles()
    durable_file(files, b"old")
    file = files.open("d/new", create=True)
    file.write(0, b"n")
    files.rename("d/new", "d/f")
    assert contents(last(files), "d/f") == {b"old", b"n", b"", b"\0", b"\xa5"}


def test_names_reach_the_disk_in_order_unless_it_is_weak() -> None:
    for weak in (False, True):
        files = CrashFiles()
        files.make_dir("d")
        for name in ("a", "b"):
            files.open(f"d/{name}", create=True)
        found = {tuple(path for path in state.tree if path != "d") for state in last(files, weak=weak)}
        assert found == {(), ("d/a",), ("d/a", "d/b")} | ({("d/b",)} if weak else set())


def test_a_replaced_file_is_the_old_one_or_the_new_one() -> None:
    files = CrashFiles()
    files.make_dir("d")
    files.replace_file("d/f", b"one")
    begin = len(files.operations)
    files.replace_file("d/f", b"two")
    after = [state for state in files.power_cuts(weak=True) if state.operation > begin]
    assert contents(after, "d/f") == {b"one", b"two"}
    assert contents(last(files), "d/f") == {b"two"}


def test_a_killed_process_leaves_its_writes_and_a_part_of_the_last() -> None:
    files = CrashFiles()
    files.make_dir("d")
    files.open("d/f", create=True).write(0, b"ab", b"cde")
    assert [state.tree.get("d/f") for state in files.kills()][-4:] == [b"", b"a", b"ab", b"abcde"]


def test_reserved_space_is_zeros_until_it_is_cut() -> None:
    files = CrashFiles()
    durable_file(files)
    file = files.open("d/f")
    file.allocate(4)
    file.write(0, b"x")
    file.sync()
    assert contents(last(files), "d/f") == {b"x\0\0\0"}
    file.close()
    assert contents([list(files.kills())[-1]], "d/f") == {b"x"}


def test_a_state_is_told_once_for_each_promise() -> None:
    files = CrashFiles()
    durable_file(files, b"x")
    files.note("a")
    files.note("b")
    states = [(state.key, state.notes) for state in files.power_cuts()]
    assert len(states) == len(set(states))
    assert [notes for key, notes in states if key == states[-1][0]] == [(), ("a",), ("a", "b")]


def test_a_state_is_where_the_next_files_begin() -> None:
    files = CrashFiles()
    durable_file(files, b"abc")
    state = last(files)[0]
    again = CrashFiles(tree=state.tree)
    again.open("d/f").write(3, b"d")
    assert b"abc" in contents(list(again.power_cuts()), "d/f")
    assert MemoryFiles(tree=state.tree).tree() == state.tree


def test_one_power_cut_leaves_synced_bytes_and_any_part_of_the_rest() -> None:
    files = CrashFiles()
    durable_file(files, b"abc")
    before = len(files.operations)
    file = files.open("d/f")
    file.write(3, b"d")
    file.write(4, b"ef")
    file.truncate(5)
    file.write(5, b"gh")
    files.note("end")
    files.open("d/g", create=True)
    trees = [files.power_cut(random.Random(seed)) for seed in range(300)]
    found = {tree["d/f"] for tree in trees}
    assert {b"abc", b"abcdegh", b"abcd\0", b"abc\0\0gh", b"abcdeg"} <= found
    assert all(content is not None and content.startswith(b"abc") for content in found)
    assert {tree.get("d/g") for tree in trees} == {None, b""}
    assert files.power_cut(random.Random(0), before) == {"d": None, "d/f": b"abc"}
    file.sync()
    files.sync_dir("d")
    assert files.power_cut(random.Random(0)) == {"d": None, "d/f": b"abcdegh", "d/g": b""}


# --- FaultFiles -------------------------------------------------------------------------------------------------------


def test_the_call_that_was_chosen_fails_once() -> None:
    files = FaultFiles(MemoryFiles(), fail_at=3)
    files.make_dir("d")
    file = files.open("d/f", create=True)
    with pytest.raises(StorageError, match="Input/output error"):
        file.write(0, b"x")
    assert file.size() == 0
    file.write(0, b"x")
    assert file.read(0, 9) == b"x"
    assert [site.rpartition(" ")[2] for site in files.failed] == ["write"]
    assert files.failed[0].startswith(f"{__name__}:")


def test_a_full_disk_refuses_what_needs_room_until_it_is_healed() -> None:
    files = FaultFiles(MemoryFiles(), fail_at=2, error=errno.ENOSPC, once=False)
    files.make_dir("d")
    for _ in range(2):
        with pytest.raises(DiskFull):
            files.open("d/f", create=True)
    assert files.list_dir("d") == []
    files.heal()
    files.open("d/f", create=True).write(0, b"x")
    assert files.read_file("d/f") == b"x"


def test_a_short_write_stays_and_ends_the_handle() -> None:
    files = FaultFiles(MemoryFiles(), fail_at=2, short=True)
    file = files.open("f", create=True)
    with pytest.raises(StorageError):
        file.write(0, b"abcd")
    with pytest.raises(StorageError, match="earlier call failed"):
        file.write(0, b"abcd")
    assert files.read_file("f") == b"ab"


def test_a_sync_that_failed_is_the_last_one() -> None:
    files = FaultFiles(MemoryFiles(), fail_at=2)
    file = files.open("f", create=True)
    with pytest.raises(StorageError, match="cannot sync"):
        file.sync()
    with pytest.raises(StorageError, match="earlier call failed"):
        file.sync()
