"""Regular expressions that clients send: they match whole texts, in linear time, or they are refused.

    google-re2 is there     what RE2 knows, as in Kafka (RE2/J): no references back, no looking around
    elsewhere               what `re` decides without trying many ways: letters, classes and `.`, alternatives, one
                            choice in parentheses, one class or letter that is repeated, and `.*` or `.+` at the end;
                            each alternative may be in parentheses of its own

`re` tries every way to match before it gives up, about 1.6^n ways for (a|aa)+b and a text of n letters. So other
patterns from outside never meet it.

Linear is not quick: a pattern of a thousand steps takes a second for a thousand long texts. So a caller that matches
many texts in a turn counts the steps (`WORK_MAX`).
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from pylog.errors import InvalidRegularExpression

__all__ = ["WORK_MAX", "Matcher", "matcher"]

PATTERN_CHARS_MAX = 4096
UNICODE_CLASSES_MAX = 16
"""How often a pattern may have a class such as `\\pL`: RE2 takes 0.1 ms to make one of its ranges."""
SHOWN_CHARS = 100
"""How much of a pattern an error repeats."""
PROGRAM_MAX = 1000
"""How many steps a pattern may be compiled to: RE2 takes up to 15 ns for each of them at each letter of a text."""
WORK_MAX = 1 << 24
"""How many steps times letters may be matched in one turn of a coordinator: a quarter of a second at worst."""
PATTERNS_KEPT, RE2_BYTES_MAX = 64, 1 << 20
"""How many patterns stay compiled, and the memory of one. RE2 forgets states where they are more, and is slow then."""
PLAIN_CHARS_MAX = 256
"""How long a pattern may be where RE2 is absent: each alternative may be tried at each letter."""

_ATOM = r"(?:[^\\.^$*+?{}()|\[\]]|\\[^A-Za-z0-9]|\\[dDsSwW]|\[\^?(?:[A-Za-z0-9_.:/ ]|-(?!-))+\]|\.)"
_ONCE = rf"(?:{_ATOM}(?![*+?{{]))*+"
_CHOICE = rf"\((?:\?:)?{_ONCE}(?:\|{_ONCE})*+\)(?![*+?{{])"
_ALTERNATIVE = rf"{_ONCE}(?:{_CHOICE}{_ONCE})?+(?:{_ATOM}[*+?](?![*+?{{]){_ONCE})?+(?:\.[*+](?![*+?{{]))?+"
# librdkafka puts each pattern of a subscription into parentheses: (^a.*)|(^b.*).
_WHOLE = rf"(?:\((?:\?:)?\^?{_ALTERNATIVE}\$?\)(?=\||\$?\Z)|\^?{_ALTERNATIVE}\$?(?=\||\Z))"
_PLAIN = re.compile(rf"\^?{_WHOLE}(?:\|{_WHOLE})*+\$?", re.DOTALL)


class Matcher(NamedTuple):
    """A pattern: `fits` tells whether a whole text matches it, in `steps` for each letter at most."""

    fits: Callable[[str], bool]
    steps: int


@lru_cache(PATTERNS_KEPT)
def matcher(pattern: str) -> Matcher:
    """Compile a pattern. Raises InvalidRegularExpression."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise InvalidRegularExpression(f"a pattern of {len(pattern)} letters: it may have {PATTERN_CHARS_MAX}")
    try:
        import re2
    except ImportError:
        return _plain_matcher(pattern)
    if pattern.lower().count("\\p") > UNICODE_CLASSES_MAX:
        raise _invalid(pattern, f"has more than {UNICODE_CLASSES_MAX} classes of Unicode")
    options = re2.Options()
    options.log_errors, options.max_mem = False, RE2_BYTES_MAX
    # To say where groups match RE2 takes up to a thousand times as long, and nobody asks.
    options.never_capture = True
    try:
        found = re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else "it has half a character"
        raise _invalid(pattern, f"is no regular expression of RE2: {reason[:SHOWN_CHARS]}") from None
    if found.programsize > PROGRAM_MAX:
        raise _invalid(pattern, f"takes {found.programsize} steps: it may take {PROGRAM_MAX}, so repeat less")
    return Matcher(lambda text: found.fullmatch(text.encode(errors="replace")) is not None, found.programsize)


def _plain_matcher(pattern: str) -> Matcher:
    if len(pattern) > PLAIN_CHARS_MAX or not _PLAIN.fullmatch(pattern):
        raise _invalid(pattern, "needs RE2: install pylog-commitlog[re2] where the log is open")
    try:
        found = re.compile(pattern, re.ASCII)
    except re.error as error:
        raise _invalid(pattern, f"is no regular expression: {error}") from None
    # A `.*` at the end takes the rest of a line at once; behind a line it would be tried in every other way.
    return Matcher(lambda text: "\n" not in text and found.fullmatch(text) is not None, max(len(pattern), 1))


def _invalid(pattern: str, reason: str) -> InvalidRegularExpression:
    return InvalidRegularExpression(f"{pattern[:SHOWN_CHARS]!r} {reason}")
