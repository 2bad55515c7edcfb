"""`message`: the dataclass that every message is, made in a quarter of the time that `dataclass(slots=True)` takes.

`import pylog` makes 160 of them. `dataclass` compiles a constructor, an equality and a text for each class and looks at
the signature of one without a docstring; here the constructor alone is compiled, and the others are shared.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Class = TypeVar("Class", bound=type)

OURS = {"ours": True}
"""The metadata of a field that is not on the wire: `field(default=..., metadata=OURS)`."""

_FACTORY = object()
"""The default of a field whose default is made again for each message."""


@dataclass_transform(field_specifiers=(field,))
def message(cls: Class) -> Class:
    """Make a slotted dataclass of a class: mutable, with an equality and without a hash."""
    made: Any = _slotted(cls)
    made.__init__ = _constructor(made, "")
    return cast(Class, made)


def keyword_message(cls: Class) -> Class:
    """The same, with fields that are given by name. Its constructor is compiled when it is called first: many of these
    are only decoded, or never used by a program.
    """
    made: Any = _slotted(cls)

    def construct(self: Any, *given: object, **values: object) -> None:
        made.__init__ = _constructor(made, "*, " if fields(made) else "")
        made.__init__(self, *given, **values)

    made.__init__ = construct
    return cast(Class, made)


def _slotted(cls: Class) -> Class:
    cls.__doc__ = cls.__doc__ or cls.__name__
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__repr__, made.__eq__, made.__hash__ = _text, _equals, None
    return cast(Class, made)


def _constructor(cls: "type[DataclassInstance]", mark: str) -> Callable[..., None]:
    scope: dict[str, Any] = {"_factory": _FACTORY}
    parameters, lines = [], []
    for spec in fields(cls):
        name = spec.name
        parameter, value = name, name
        if spec.default is not MISSING:
            scope[f"_default_{name}"] = spec.default
            parameter = f"{name}=_default_{name}"
        elif spec.default_factory is not MISSING:
            scope[f"_new_{name}"] = spec.default_factory
            parameter, value = f"{name}=_factory", f"_new_{name}() if {name} is _factory else {name}"
        parameters.append(parameter)
        lines.append(f"    self.{name} = {value}")
    exec("\n".join([f"def __init__(self, {mark}{', '.join(parameters)}):", *(lines or ["    pass"])]), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _values(value: "DataclassInstance") -> tuple[object, ...]:
    return tuple([getattr(value, name) for name in value.__dataclass_fields__])


def _equals(self: "DataclassInstance", other: object) -> object:
    if type(other) is not type(self):
        return NotImplemented
    return _values(self) == _values(other)


def _text(self: "DataclassInstance") -> str:
    """The values but those that are secret: `field(repr=False)`."""
    parts = [f"{spec.name}={getattr(self, spec.name)!r}" for spec in fields(self) if spec.repr]
    return f"{type(self).__qualname__}({', '.join(parts)})"
