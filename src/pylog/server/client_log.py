"""The log of a server about its clients: one line a second for each kind, and long texts are cut.

A client chooses what it sends and how often, so it would choose how much is logged.
"""

import logging

from pylog.protocol.error_codes import brief
from pylog.runtime.clock import Clock
from pylog.runtime.words import printable

__all__ = ["ClientLog"]

logger = logging.getLogger("pylog.server")

PAUSE_MS = 1000
VALUE_CHARS_MAX = 200


class ClientLog:
    """The log of one server. A message is its kind. For the loop's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[str, tuple[int, int]] = {}
        """By message: the tick from which on it may be logged again, and how often it was left out."""

    def say(self, level: int, message: str, host: str, *values: object, error: BaseException | None = None) -> None:
        """Log what happened with a client at `host`, which is the first value of the message."""
        now = self._clock.tick_ms()
        until, left_out = self._said.get(message, (now, 0))
        if now < until:
            self._said[message] = until, left_out + 1
            return
        self._said[message] = now + PAUSE_MS, 0
        text = f"{message} (and {left_out} more)" if left_out else message
        shown = [printable(brief(str(value), VALUE_CHARS_MAX)) for value in (host or "here", *values)]
        logger.log(level, text, *shown, extra={"host": host}, exc_info=error)
