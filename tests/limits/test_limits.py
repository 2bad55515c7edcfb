"""A few seconds of what `make limits` does for hours; and that it finds what it looks for."""

import os
from pathlib import Path

import pytest

from tests.limits.campaign import campaign
from tests.limits.limits import KINDS, Limits, draw
from tests.limits.play import Play, numbers_of, value_of

PURE = len(KINDS)


@pytest.mark.parametrize("seed", [KINDS.index("files"), PURE + KINDS.index("files"), KINDS.index("descriptors")])
def test_a_log_at_a_limit_loses_nothing(seed: int) -> None:
    assert campaign(1, 1, seed, 1.0) == []


def test_each_kind_of_limit_is_drawn_for_both_kernels_and_all_flush_modes() -> None:
    drawn = [draw(seed) for seed in range(len(KINDS) * 6)]
    assert {(limits.kind, limits.pure, limits.flush) for limits in drawn} == {
        (kind, pure, flush) for kind in KINDS for pure in (False, True) for flush in ("none", "interval", "sync")
    }
    assert [limits.kind for limits in drawn if limits.may_refuse][:3] == ["descriptors", "memory", "disk"]


def test_a_run_tells_what_is_lost_twice_or_out_of_order(tmp_path: Path) -> None:
    play = Play(Limits(0, "none", pure=False, flush="none"), tmp_path, 0)
    play.ack("a", 0, 0, (1, 1))
    play.ack("a", 0, 1, (2, 1))
    play._check_rows("a", 0, [(0, 1, 1), (1, 2, 1)], 0)
    for rows, what in (
        ([(0, 1, 1)], "was acknowledged, None"), ([(0, 1, 1), (1, 2, 2)], "was acknowledged"),
        ([(0, 1, 1), (1, 2, 1), (2, 1, 1)], "comes after"), ([(0, 1, 2), (1, 2, 1), (2, 1, 1)], "comes after"),
        ([(0, 1, 1), (2, 2, 1)], "holes"),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=what):
            play._check_rows("a", 0, rows, 0)
    with pytest.raises(AssertionError, match="was given to"):
        play.ack("a", 0, 0, (3, 1))
    play.committed.append((5, 1))
    for seen, what in (([], "are gone"), ([(5, 1, "0commit")], "there is"), ([(5, 1, "0abort")], "there is")):
        with pytest.raises(AssertionError, match=what):
            play._check_transactions(seen)
    with pytest.raises(AssertionError, match="nobody has written"):
        numbers_of(value_of(1, 2)[:-1] + b"x")


def test_a_run_says_what_no_call_may_raise(tmp_path: Path) -> None:
    strict, lenient = (Play(draw(KINDS.index(kind)), tmp_path, 0) for kind in ("files", "disk"))
    for play in (strict, lenient):
        play.refuse("append", OSError(9, os.strerror(9)))
    assert ["OSError" in line for line in strict.wrong + lenient.wrong] == [True, True]
