"""Tables whose columns can be sorted, a page of lines at a time. The address has the column, the order and the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from pylog.ui.parameters import choice, number

__all__ = ["SortedLines", "sorted_lines"]

T = TypeVar("T")
LINES_MAX = 200
KEPT = ("id", "internal", "name", "sort", "order")
"""The words of an address that its links keep."""


@dataclass(frozen=True, slots=True)
class SortedLines(Generic[T]):
    """The lines of one page of a table. `column` is "" for the order that the table has by itself."""

    lines: Sequence[T]
    column: str
    is_descending: bool
    page: int
    pages: int
    total: int
    words: Mapping[str, str]

    def address(self, **changed: object) -> str:
        """The address of the same table, on its first page, with other words."""
        return "?" + urlencode({**self.words, **changed})

    def by(self, column: str, *, is_number: bool) -> str:
        """The address of the table sorted by a column: by numbers from the largest on. A second time turns it round."""
        first, second = ("desc", "asc") if is_number else ("asc", "desc")
        is_first = self.column == column and self.is_descending == (first == "desc")
        return self.address(sort=column, order=second if is_first else first)


def sorted_lines(
    words: Mapping[str, str],
    lines: Sequence[T],
    columns: Mapping[str, Callable[[T], object]],
    usual: Callable[[T], object],
) -> SortedLines[T]:
    """The lines that an address asks for. `columns`: the key of each; None is less than any. `usual`: the key without a
    word. Raises HTTPException (400).
    """
    column, order = choice(words, "sort", ("", *columns)), choice(words, "order", ("asc", "desc"))
    is_descending = order == "desc"
    lines = sorted(lines, key=_less_without(columns.get(column, usual)), reverse=is_descending)
    pages = max(1, -(-len(lines) // LINES_MAX))
    page = min(number(words, "page", 1) or 1, pages)
    kept = {name: words[name] for name in KEPT if words.get(name)}
    shown = lines[(page - 1) * LINES_MAX : page * LINES_MAX]
    return SortedLines(shown, column, is_descending, page, pages, len(lines), kept)


def _less_without(key: Callable[[T], object]) -> Callable[[T], tuple[bool, object]]:
    def found(line: T) -> tuple[bool, object]:
        value = key(line)
        return value is not None, 0 if value is None else value

    return found
