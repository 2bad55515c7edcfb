import pytest

from pylog.runtime.rounds import Rounds, finished


def test_a_call_that_has_to_wait_for_others_is_not_finished() -> None:
    def waits() -> Rounds[int]:
        yield 10
        return 1

    def is_there() -> Rounds[int]:
        yield from ()
        return 1

    assert finished(is_there()) == 1
    with pytest.raises(AssertionError, match="others"):
        finished(waits())
