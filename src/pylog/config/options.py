"""The building blocks of all configs: kinds of values, options with a kind, and classes of options that check
themselves.

    Kind      what values an option takes, how they are read from text and written as text
    option    a field of a config class, with its kind and its default
    Config    checks every option when it is made, and reads mappings with Kafka's names

Invariant: the options of a `Config` that was made are values of their kinds (`TopicConfig.loaded` has one exception).
"""

import enum
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Protocol, Self

from pylog.errors import InvalidConfig

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

# --- kinds of values --------------------------------------------------------------------------------------------------


class Kind(Protocol):
    """A kind of values that an option takes."""

    allowed: str
    """In words, for a message: "it has to be ..."."""

    def parse(self, value: object) -> object:
        """The value of the option for an argument or a text. Raises ValueError."""

    def text(self, value: Any) -> str:
        """The value as Kafka writes it."""


class Whole:
    """A whole number in [low, high], `without` some; None where `optional`."""

    def __init__(self, low: int, high: int, *, without: tuple[int, ...] = (), optional: bool = False) -> None:
        self._low, self._high = low, high
        self._without = without
        self._optional = optional
        excluded = "".join(f", but not {number}" for number in without)
        self.allowed = f"a whole number from {low} to {high}{excluded}{', or None' if optional else ''}"

    @property
    def fits_int(self) -> bool:
        """Whether all of its values have 32 bits."""
        return self._high <= INT_MAX

    def parse(self, value: object) -> int | None:
        if value is None and self._optional:
            return None
        if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(value)
        if not self._low <= value <= self._high or value in self._without:
            raise ValueError(value)
        return value

    def text(self, value: int) -> str:
        return str(value)


class Share:
    """A number in [0, 1]."""

    allowed = "a number from 0 to 1"

    def parse(self, value: object) -> float:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError(value)
        number = float(value)
        if not 0 <= number <= 1:
            raise ValueError(value)
        return number

    def text(self, value: float) -> str:
        return repr(value)


class BytesPerSecond:
    """A number above nothing, of bytes a second."""

    allowed = "a number of at least 1"

    def parse(self, value: object) -> float:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError(value)
        number = float(value)
        if not 1 <= number < math.inf:
            raise ValueError(value)
        return number

    def text(self, value: float) -> str:
        return repr(value)


class Switch:
    """True or false, in any case; None where `optional`."""

    def __init__(self, *, optional: bool = False) -> None:
        self._optional = optional
        self.allowed = f"true or false{', or None' if optional else ''}"

    def parse(self, value: object) -> bool | None:
        if value is None and self._optional:
            return None
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.strip().lower())
        if not isinstance(value, bool):
            raise ValueError(value)
        return value

    def text(self, value: bool) -> str:
        return "true" if value else "false"


class Words:
    """Any text, or one of some words, in `any_case` if so; None where `optional`, and then no empty text."""

    def __init__(self, *words: str, optional: bool = False, any_case: bool = False) -> None:
        self.words = words
        self._any_case = any_case
        self._optional = optional
        self.allowed = f"one of {', '.join(words)}" if words else "a text"
        if optional:
            self.allowed += " that is not empty, or None"

    def parse(self, value: object) -> str | None:
        if value is None and self._optional:
            return None
        if not isinstance(value, str) or (self._optional and not value.strip()):
            raise ValueError(value)
        word = value.strip().lower() if self._any_case else value.strip()
        if self.words and word not in self.words:
            raise ValueError(value)
        return word

    def text(self, value: str) -> str:
        return value


class Secret(Words):
    """A text that no error repeats, or None. It is taken as it is, with the spaces around it."""

    def __init__(self) -> None:
        super().__init__(optional=True)

    def parse(self, value: object) -> str | None:
        if value is not None and not (isinstance(value, str) and value):
            raise ValueError
        return value


class SomeOf:
    """A set of words; as text, with commas between. A word may be there twice, as in Kafka."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.allowed = f"any of {', '.join(words)}, with commas between"

    def parse(self, value: object) -> frozenset[str]:
        if isinstance(value, str):
            value = [word.strip() for word in value.split(",")] if value.strip() else []
        if not isinstance(value, Iterable):
            raise ValueError(value)
        given = list(value)
        if any(word not in self.words for word in given):
            raise ValueError(value)
        return frozenset(given)

    def text(self, value: Iterable[str]) -> str:
        return ",".join(sorted(value))

    def ordered(self, value: object) -> str:
        """The text of a value that `parse` takes, its words in the order in which they were given."""
        found = self.parse(value)
        given = [word.strip() for word in value.split(",")] if isinstance(value, str) else sorted(found)
        return ",".join(dict.fromkeys(word for word in given if word in found))


class Names:
    """Some of a few names, the best first; a name may have others that mean the same. As text, with commas between.

    None where `optional`.
    """

    def __init__(self, *names: str, others: Mapping[str, str], optional: bool = False) -> None:
        self._meant = {**{name: name for name in names}, **others}
        self._optional = optional
        self.allowed = f"one or several of {', '.join(names)}, with commas between{', or None' if optional else ''}"

    def parse(self, value: object) -> tuple[str, ...] | None:
        if value is None and self._optional:
            return None
        if isinstance(value, str):
            value = [name.strip() for name in value.split(",")]
        if not isinstance(value, Iterable):
            raise ValueError(value)
        given = list(value)
        if not given or not all(isinstance(name, str) and name in self._meant for name in given):
            raise ValueError(value)
        found = tuple(dict.fromkeys(self._meant[name] for name in given))
        if len(found) < len(given):
            raise ValueError(value)
        return found

    def text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class Function:
    """Something to call, or one of some words for what there is already; None: the usual one."""

    def __init__(self, signature: str, *words: str) -> None:
        self.words = words
        self.allowed = f"a callable {signature}, {''.join(f'{word}, ' for word in words)}or None"

    def parse(self, value: object) -> object:
        if value is not None and value not in self.words and not callable(value):
            raise ValueError(value)
        return value

    def text(self, value: object) -> str:
        return str(value)


class Acks(Whole):
    """The replicas that answer for a record: "all" is -1."""

    def __init__(self) -> None:
        super().__init__(-1, 1)
        self.allowed = "one of all, -1, 0, 1"

    def parse(self, value: object) -> int | None:
        return -1 if isinstance(value, str) and value.strip() == "all" else super().parse(value)


class ConfigType(enum.IntEnum):
    """Kafka's types of configs (ConfigDef.Type, as DescribeConfigs numbers them)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


def config_type(kind: Kind) -> ConfigType:
    """Kafka's type of an option of this kind."""
    if isinstance(kind, Whole):
        return ConfigType.INT if kind.fits_int else ConfigType.LONG
    for of_kind, found in _CONFIG_TYPES.items():
        if isinstance(kind, of_kind):
            return found
    return ConfigType.UNKNOWN


_CONFIG_TYPES = {
    Switch: ConfigType.BOOLEAN, Words: ConfigType.STRING, Share: ConfigType.DOUBLE, BytesPerSecond: ConfigType.DOUBLE,
    SomeOf: ConfigType.LIST, Names: ConfigType.LIST,
}  # fmt: skip


def integer(low: int = -INT_MAX - 1, high: int = INT_MAX, *, without: tuple[int, ...] = ()) -> Whole:
    return Whole(low, high, without=without)


def long(low: int = -LONG_MAX - 1) -> Whole:
    return Whole(low, LONG_MAX)


def option(default: object, kind: Kind, *, broker: str = "", stored: Kind | None = None) -> Any:
    """A config. `broker`: the broker's names for its default, the strongest first; `stored`: what `loaded` takes."""
    return field(default=default, metadata={"kind": kind, "broker": tuple(broker.split()), "stored": stored or kind})


# --- what all configs share -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    def __post_init__(self) -> None:
        defaults = self._defaults()
        for name, kind in self._kinds().items():
            value = getattr(self, name)
            if value is not defaults[name]:  # a default is a value of its kind, and nearly all are defaults
                object.__setattr__(self, name, parse_as(kafka_name(name), kind, value))
        self._check_together()

    def _check_together(self) -> None:
        """Settle what was left to be decided by others. Raises InvalidConfig where values are good one by one, and do
        not go together.
        """

    @classmethod
    def from_kafka(cls, configs: Mapping[str, object]) -> Self:
        """From Kafka's names, with dots or underscores; a number or a switch may be text.

        Raises InvalidConfig: an unknown name (says which one is near), a name that Kafka has and pylog has not, one
        given twice, a bad value.
        """
        return cls(**by_field(configs, cls._kinds(), cls._elsewhere()))

    def to_kafka(self) -> dict[str, str]:
        """All configs by Kafka's names, in Kafka's text forms."""
        return {kafka_name(name): kind.text(getattr(self, name)) for name, kind in self._kinds().items()}

    @classmethod
    def kinds(cls) -> dict[str, Kind]:
        """The kind of each config, by Kafka's names."""
        return {kafka_name(name): kind for name, kind in cls._kinds().items()}

    @classmethod
    @cache
    def _kinds(cls) -> dict[str, Kind]:
        return {option.name: option.metadata["kind"] for option in fields(cls) if "kind" in option.metadata}

    @classmethod
    @cache
    def _defaults(cls) -> dict[str, object]:
        return {option.name: option.default for option in fields(cls)}

    @classmethod
    def _elsewhere(cls) -> str:
        """The reason why a config of Kafka's is not one of pylog's; a name that ends with a dot stands for all that
        begin so.
        """
        return ""


def kafka_name(name: str) -> str:
    return name.replace("_", ".")


def parse_as(name: str, kind: Kind, value: object) -> object:
    try:
        return kind.parse(value)
    except ValueError:
        shown = f"a {type(value).__name__} that is not shown" if isinstance(kind, Secret) else repr(value)
        raise InvalidConfig(f"{name}={shown}: it has to be {kind.allowed}") from None


def stored_text(name: str, kind: Kind, value: object) -> str:
    """A value as it is stored: checked, in Kafka's text; words keep their order, which means nothing. Raises
    InvalidConfig.
    """
    found = parse_as(name, kind, value)
    return kind.ordered(value) if isinstance(kind, SomeOf) else kind.text(found)


def by_field(configs: Mapping[str, object], known: Iterable[str], elsewhere: str) -> dict[str, Any]:
    """`configs` with fields' names for keys, values as they are. Raises InvalidConfig, TypeError."""
    if not isinstance(configs, Mapping):
        raise TypeError(f"a config is a dict of names and values, not {type(configs).__name__}")
    names = set(known)
    found: dict[str, Any] = {}
    for name, value in configs.items():
        field_name = name.replace(".", "_")
        if field_name not in names:
            raise InvalidConfig(_unknown(kafka_name(name), sorted(map(kafka_name, names)), elsewhere.split()))
        if field_name in found:
            raise InvalidConfig(f"{kafka_name(name)} is given twice: once with dots, once with underscores")
        found[field_name] = value
    return found


def _unknown(name: str, known: list[str], elsewhere: list[str]) -> str:
    if any(name == other or (other.endswith(".") and name.startswith(other)) for other in elsewhere):
        return f"{name} is known to Kafka, not supported by pylog yet: leave it out"
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{name} is not a config here: {hint}"
