"""The turn of one thread in a consumer."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest

from pylog.client.consumer.single_thread import SingleThread
from pylog.errors import ConcurrentUse


def test_the_thread_that_was_in_it_last_does_not_enter_beside_another_one() -> None:
    turn, taken, go = SingleThread(), threading.Event(), threading.Event()
    with turn:
        pass

    def stop_behind_the_lock(frame: FrameType, event: str, argument: object) -> None:
        if event == "c_return" and getattr(argument, "__name__", "") == "acquire":
            sys.setprofile(None)
            taken.set()
            assert go.wait(240)

    def enter() -> None:
        sys.setprofile(stop_behind_the_lock)
        with turn:
            assert turn.user == threading.get_ident()

    with ThreadPoolExecutor(1) as pool:
        entering = pool.submit(enter)
        assert taken.wait(240)
        try:
            with pytest.raises(ConcurrentUse, match="in use in another thread"), turn:
                pass
        finally:
            go.set()
        entering.result()
    with turn, turn:
        assert turn.user == threading.get_ident()
