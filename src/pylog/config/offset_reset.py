"""Where a reader begins that has no position: a word, or a duration back from now (KIP-1106)."""

import re

from pylog.config.options import Words

_DURATION = re.compile(
    r"P(?=.)(?:([0-9]{1,9})D)?(?:T(?=.)(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,12})(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)


class OffsetReset(Words):
    """A word, or "by_duration:" and an ISO-8601 duration of days and smaller units."""

    def __init__(self, *words: str) -> None:
        super().__init__(*words)
        self.allowed = f"{self.allowed}, by_duration:PnDTnHnMn.nS"

    def parse(self, value: object) -> str | None:
        if isinstance(value, str) and value.strip().startswith("by_duration:"):
            duration_ms(value.strip())
            return value.strip()
        return super().parse(value)


def duration_ms(reset: str) -> int:
    """The duration in "by_duration:P...", in ms. Raises ValueError."""
    found = _DURATION.fullmatch(reset.removeprefix("by_duration:"))
    if found is None:
        raise ValueError(reset)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    ms = int((found[5] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms
