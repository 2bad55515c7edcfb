"""A call that is made again after an error that may pass."""

import pytest

from pylog.errors import InvalidTopic, NetworkError
from pylog.runtime.retries import retried


class Flaky:
    """Fails so often, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "answer"


def test_an_error_that_may_pass_is_tried_again() -> None:
    call = Flaky(NetworkError("gone"), NetworkError("gone"))
    assert retried(call, most=2, interval_ms=0) == "answer"
    assert call.calls == 3


def test_the_last_error_comes_out() -> None:
    call = Flaky(NetworkError("first"), NetworkError("second"))
    with pytest.raises(NetworkError, match="second"):
        retried(call, most=1, interval_ms=0)


@pytest.mark.parametrize("error", [InvalidTopic("wrong"), ValueError("wrong")])
def test_an_error_that_stays_comes_out_at_once(error: Exception) -> None:
    call = Flaky(error)
    with pytest.raises(type(error)):
        retried(call, most=5, interval_ms=0)
    assert call.calls == 1
