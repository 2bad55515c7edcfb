"""A small run of the campaign of power cuts (`campaign`); and what a log that forgets its syncs loses, it finds."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import trace
from .campaign import Recording, load, record

STEPS, STATES = 20, 12

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED power cuts below Python: LD_PRELOAD is Linux's"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="SKIPPED power cuts below Python: there is no C compiler"),
]


@dataclass
class Recorded:
    trace: Path
    whole: Recording

    def without(self, forgets: Callable[[str], bool]) -> Recording:
        """As if the process had not synced what `forgets` says of: paths, those of directories with a "/" behind."""
        return load(self.trace, syncs=lambda path: not forgets(path))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    whole = record(trace.build(folder), folder / "log", "sync", 1, STEPS)
    return Recorded(folder / "log.trace", whole)


def test_a_log_after_a_power_cut_holds_every_promise(recorded: Recorded) -> None:
    assert [words for number in range(STATES) if (words := recorded.whole.judged(number))] == []


@pytest.mark.parametrize("forgotten", [".log", "/"], ids=["batches", "names"])
def test_a_log_without_syncs_is_detected(recorded: Recorded, forgotten: str) -> None:
    forgetful = recorded.without(lambda path: path.endswith(forgotten))
    assert len(forgetful.operations) < len(recorded.whole.operations)
    assert any(forgetful.judged(number) for number in range(STATES))
