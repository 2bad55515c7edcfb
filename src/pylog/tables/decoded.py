"""The arguments of `select` that decode keys and values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ColumnDeserializer", "Decoding", "Fields", "OnError"]

OnError = Literal["raise", "skip", "column"]
"""The treatment of a record that cannot be decoded: DeserializationError; or it is left out; or the column `error` has
the reason, and the decoded column is null.
"""
Fields = Sequence[str] | Mapping[str, "pyarrow.DataType"]
"""The fields of a value, as "user.id"; with their Arrow types, if they are given."""
ERROR = "error"


class ColumnDeserializer(Protocol):
    """The half of a `Serde` that reads."""

    @property
    def deserialize(self) -> Callable[[bytes], object]:
        """The object of bytes."""

    @property
    def to_plain(self) -> Callable[[Any], object] | None:
        """Dicts, lists, texts and numbers of an object; None: the object is one."""

    @property
    def arrow_type(self) -> "Callable[[], pyarrow.DataType | None] | None":
        """The Arrow type of what that gives; None, or a result of None: it is that of the values."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """The serdes of keys and values, the fields that take the value's place (None: the value stays one column), and
    what is done with records that cannot be decoded.
    """

    key: ColumnDeserializer | None
    value: ColumnDeserializer | None
    fields: Fields | None
    on_error: OnError

    def __post_init__(self) -> None:
        """Raises ValueError, TypeError."""
        if self.on_error not in get_args(OnError):
            words = ", ".join(map(repr, get_args(OnError)))
            raise ValueError(f"on_error is {self.on_error!r}, and may be one of {words}")
        for name, serde in (("key", self.key), ("value", self.value)):
            if serde is not None and not callable(getattr(serde, "deserialize", None)):
                raise TypeError(f"{name} is {type(serde).__name__}, not a serde")
        if self.fields is not None and self.value is None:
            raise ValueError("fields are those of a decoded value: give value=serde, too")
        if isinstance(self.fields, str):
            raise TypeError(f"fields is a list of names, [{self.fields!r}], not one name")

    @property
    def is_any(self) -> bool:
        """Whether anything is decoded."""
        return self.key is not None or self.value is not None

    def check(self, columns: Sequence[str]) -> None:
        """Raise ValueError where the columns do not go with it."""
        for name, serde in (("key", self.key), ("value", self.value)):
            if serde is not None and name not in columns:
                raise ValueError(f"{name} is decoded, and not among the columns {', '.join(columns)}")
        names = list(columns) + list(self.fields or ()) + [ERROR] * (self.on_error == "column")
        for name in self.fields or ():
            if names.count(name) > 1:
                raise ValueError(
                    f"the field {name!r} has the name of another column: name the columns without that one, as in "
                    'select(["value"], ...)'
                )
