"""What the commands share in their output, where no process and no terminal is needed."""

import io
import re
import sys

import pytest

from pylog.cli.meter import Meter
from pylog.cli.output import say


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("step", [1, 10, 1000])
def test_the_time_that_remains_follows_from_the_pace(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, now = Screen(), 0.0
    monkeypatch.setattr(sys, "stderr", screen)
    with Meter("reading", 30_000, get_time=lambda: now) as meter:
        # 1,000 bytes a second: 20 of 30 seconds are left after 10.
        for size in range(step, 10_000 + step, step):
            now = size / 1000
            meter.update(size, size // 10)
    remaining = re.findall(r"\d:\d\d:\d\d", screen.getvalue())
    assert remaining[-1] in ("0:00:20", "0:00:21")
    assert "1,000 records" in screen.getvalue().rpartition("reading")[2]


def test_a_message_moves_no_cursor_whatever_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    say("there is no\n group \x1b[2J\x9b1A grün")
    assert capsys.readouterr().err == "pylog: there is no group \\x1b[2J\\x9b1A grün\n"
