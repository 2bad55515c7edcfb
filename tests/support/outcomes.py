"""What a call gives, or refuses, held against what it should."""

from collections.abc import Callable

from pylog.errors import PylogError


def same(found: object, wanted: object) -> None:
    """They are equal."""
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def refuses(kind: type[Exception], words: str, *calls: Callable[[], object]) -> None:
    """Each of the calls raises an error of `kind` that has `words` in its message."""
    for call in calls:
        try:
            given = call()
        except (PylogError, ValueError) as error:
            if not isinstance(error, kind) or words not in str(error):
                raise AssertionError(f"{error!r} instead of a {kind.__name__} with {words!r}") from error
        else:
            raise AssertionError(f"{given!r} instead of a {kind.__name__} with {words!r}")
