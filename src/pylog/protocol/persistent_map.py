"""A mapping whose successor costs the square root of its size: the two share what stays the same.

    base      a dict that never changes once it is shared with successors     {a: 1, b: 2, c: 3}
    changes   a small dict of this map alone                                  {b: 5, c: GONE, d: 4}

A look-up goes to the changes, then to the base. A successor copies the changes, and where they have become more than
the square root of the base it puts the two together in a base of its own. A map that shares its base with no other, as
one that is filled at an open, changes the base in place.

Invariants: a base with `_is_own` False never changes; `_changes` is empty where `_is_own` is True.
"""

from collections.abc import Hashable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, TypeVar, overload

__all__ = ["PersistentMap"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")
_GONE = object()
_ABSENT = object()


class PersistentMap(MutableMapping[K, V]):
    """A mapping in the order in which keys came. Its maker may change it before others see it.

    A key that is removed and set again may keep its old place.
    """

    __slots__ = ("_base", "_changes", "_growth", "_is_own")

    def __init__(self, content: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = {} if content is None else dict(content)
        self._changes: dict[Any, Any] = {}
        self._growth = 0
        """The number of keys that `_changes` adds, less those that it removes."""
        self._is_own = True

    def successor(self) -> "PersistentMap[K, V]":
        """A map with the same content, which may change: this one stays the same."""
        after = PersistentMap[K, V]()
        if len(self._changes) ** 2 > len(self._base):
            after._base = self._merged()
            return after
        self._is_own = False
        after._base, after._changes, after._growth = self._base, dict(self._changes), self._growth
        after._is_own = False
        return after

    def _merged(self) -> dict[K, V]:
        if not self._changes:
            return self._base
        merged = {**self._base, **self._changes}
        for key, value in self._changes.items():
            if value is _GONE:
                del merged[key]
        return merged

    def __getitem__(self, key: K) -> V:
        value: V = self._changes.get(key, _ABSENT)
        if value is _ABSENT:
            return self._base[key]
        if value is _GONE:
            raise KeyError(key)
        return value

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | T, /) -> V | T: ...
    def get(self, key: K, default: object = None, /) -> object:
        """The value of a key; without one, `default`."""
        if self._changes:
            value = self._changes.get(key, _ABSENT)
            if value is not _ABSENT:
                return default if value is _GONE else value
        return self._base.get(key, default)

    def __contains__(self, key: object) -> bool:
        value = self._changes.get(key, _ABSENT)
        return key in self._base if value is _ABSENT else value is not _GONE

    def __setitem__(self, key: K, value: V) -> None:
        if self._is_own:
            self._base[key] = value
        else:
            self._growth += key not in self
            self._changes[key] = value

    def __delitem__(self, key: K) -> None:
        if self._is_own:
            del self._base[key]
        elif key not in self:
            raise KeyError(key)
        else:
            self._growth -= 1
            if key in self._base:
                self._changes[key] = _GONE
            else:
                del self._changes[key]

    def __len__(self) -> int:
        return len(self._base) + self._growth

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def items(self) -> ItemsView[K, V]:
        """The keys with their values."""
        return self._merged().items()

    def values(self) -> ValuesView[V]:
        """The values, in the order of their keys."""
        return self._merged().values()

    def __repr__(self) -> str:
        return repr(self._merged())
