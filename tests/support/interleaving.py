"""One thread that does another one's work in the middle of its own, at a place that a test names."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def just_before(place: str, act: Callable[[], object]) -> Iterator[None]:
    """Let this thread `act` when a function of Python is entered for the first time, before anything of it is done.

    `place` is the qualified name of the function. Fails where it is not entered.
    """
    before = sys.getprofile()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname == place:
            sys.setprofile(before)
            act()

    sys.setprofile(look)
    try:
        yield
        assert sys.getprofile() is not look, f"{place} was not entered"
    finally:
        sys.setprofile(before)
