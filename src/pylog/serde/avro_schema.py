"""One form for Avro schemas that mean the same, and the check that a schema is one.

`{"type": "string"}` is `"string"`, and names stand in full: a type `B` in the namespace `a` is `a.B`. Documentation,
defaults and other properties are part of a schema. (Avro 1.12: names, schema declaration)
"""

import re
from typing import Any, TypeAlias

__all__ = ["NAMED", "AvroSchema", "Definition", "check_avro", "defined_name", "full_name", "plain_avro"]

Definition: TypeAlias = dict[str, Any]
"""A schema as an object of JSON. What a property is goes by its name."""
AvroSchema: TypeAlias = "str | list[AvroSchema] | Definition"
"""A schema as JSON: the name of a type, a union, or a definition."""
PRIMITIVES = frozenset("null boolean int long float double bytes string".split())
NAMED = frozenset({"record", "error", "enum", "fixed"})
STEPS_MAX = 20_000
"""The most values that a check of the defaults of a schema looks at. Nested unions multiply them."""
_WORD = "[A-Za-z_][A-Za-z0-9_]*"
_NAME, _FULL_NAME = re.compile(_WORD), re.compile(rf"{_WORD}(\.{_WORD})*")


def plain_avro(schema: AvroSchema) -> AvroSchema:
    """The form of a schema, given as JSON. Types of other schemas may be named in it. Raises ValueError."""
    return _Reading(is_whole=False).plain(schema, "")


def check_avro(schema: AvroSchema, *, with_defaults: bool = True) -> None:
    """Raise ValueError for a schema that is not valid by itself. `with_defaults`: a default has to fit its type."""
    reading = _Reading(is_whole=True)
    reading.plain(schema, "")
    if with_defaults:
        reading.check_defaults()


class _Reading:
    """One schema, and the names that it has defined so far."""

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        """Whether each type that is named has to be defined."""
        self._defined: dict[str, AvroSchema] = {}
        """By the full name: the form, which is there as soon as all of it is read."""
        self._defaults: list[tuple[str, AvroSchema, object]] = []
        """The name of a field, its type and its default."""
        self._steps = 0

    def plain(self, node: AvroSchema, namespace: str) -> AvroSchema:
        match node:
            case str():
                return self._by_name(node, namespace)
            case list():
                return self._union(node, namespace)
            case {"type": dict() | list() as inner}:
                return self.plain(inner, namespace)
            case {"type": str(kind)} if kind in NAMED:
                return self._named(node, kind, namespace)
            case {"type": "array" | "map" as kind}:
                inner_key = "items" if kind == "array" else "values"
                if inner_key not in node:
                    raise ValueError(f"{kind} has no {inner_key}")
                return {**node, inner_key: self.plain(node[inner_key], namespace)}
            case {"type": str(kind)}:
                name = self._by_name(kind, namespace)
                return name if len(node) == 1 else {**node, "type": name}
        raise ValueError(f"{_short(node)} is not a type")

    def _by_name(self, name: str, namespace: str) -> str:
        if name in PRIMITIVES:
            return name
        full = full_name(name, namespace)
        if self._is_whole and full not in self._defined:
            raise ValueError(f"the type {_short(name)} is not defined")
        return full

    def _union(self, branches: list[AvroSchema], namespace: str) -> list[AvroSchema]:
        found = [self.plain(one, namespace) for one in branches]
        kinds = [_kind(one) for one in found]
        if "union" in kinds:
            raise ValueError("a union stands in a union")
        seen: set[str] = set()
        for kind in kinds:
            if kind in seen:
                raise ValueError(f"a union has {_short(kind)} twice")
            seen.add(kind)
        return found

    def _named(self, node: Definition, kind: str, namespace: str) -> Definition:
        given, space = node.get("name"), node.get("namespace")
        if space is None:
            space = namespace
        if not isinstance(given, str) or not _FULL_NAME.fullmatch(given):
            raise ValueError(f"{kind} has the name {_short(given)}")
        if not isinstance(space, str) or (space and not _FULL_NAME.fullmatch(space)):
            raise ValueError(f"{kind} {given} has the namespace {_short(space)}")
        name = full_name(given, space)
        if self._is_whole and name in self._defined:
            raise ValueError(f"{name} is defined twice")
        self._defined[name] = node
        rest = {key: value for key, value in node.items() if key not in ("type", "name", "namespace")}
        space = name.rpartition(".")[0]
        if "aliases" in rest:
            rest["aliases"] = [full_name(one, space) for one in _names(rest["aliases"], f"the aliases of {name}")]
        match kind:
            case "enum":
                _names(rest.get("symbols"), f"the symbols of {name}")
            case "fixed":
                size = rest.get("size")
                if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                    raise ValueError(f"fixed {name} has the size {_short(size)}")
            case _:
                rest["fields"] = self._fields(rest.get("fields"), name, space)
        # A name without a namespace, inside of one, has to say so.
        apart = {"namespace": ""} if namespace and not space else {}
        found = {"type": kind, "name": name, **apart, **rest}
        self._defined[name] = found
        return found

    def _fields(self, fields: object, name: str, space: str) -> list[Definition]:
        if not isinstance(fields, list) or not all(isinstance(one, dict) and "type" in one for one in fields):
            raise ValueError(f"record {name} has no list of fields with types")
        _names([one.get("name") for one in fields], f"the fields of {name}")
        found = [{**one, "type": self.plain(one["type"], space)} for one in fields]
        self._defaults += [(f"{name}.{one['name']}", one["type"], one["default"]) for one in found if "default" in one]
        return found

    # --- defaults ----------------------------------------------------------------------------------------------------

    def check_defaults(self) -> None:
        """Raise ValueError for a default that is not a value of its field."""
        for name, kind, default in self._defaults:
            if not self._fits(kind, default):
                raise ValueError(f"field {name}: the default {_short(default)} does not fit its type")

    def _fits(self, kind: AvroSchema, value: object) -> bool:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise ValueError("its defaults are too many to be checked")
        match kind:
            case list():
                return any(self._fits(branch, value) for branch in kind)
            case str() if kind in PRIMITIVES:
                return _fits_primitive(kind, value)
            case str():
                return self._fits(self._defined[kind], value)
            case {"type": "record" | "error", "fields": fields}:
                return isinstance(value, dict) and all(
                    self._fits(one["type"], value[one["name"]]) if one["name"] in value else "default" in one
                    for one in fields
                )
            case {"type": "array", "items": items}:
                return isinstance(value, list) and all(self._fits(items, one) for one in value)
            case {"type": "map", "values": values}:
                return isinstance(value, dict) and all(self._fits(values, one) for one in value.values())
            case {"type": "enum" | "fixed"}:
                return isinstance(value, str)
        return self._fits(kind["type"], value)


def _fits_primitive(kind: str, value: object) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            most = 1 << (31 if kind == "int" else 63)
            return isinstance(value, int) and not isinstance(value, bool) and -most <= value < most
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _names(given: object, what: str) -> list[str]:
    """A list of different names. Raises ValueError."""
    if not isinstance(given, list):
        raise ValueError(f"{what} are not a list")
    for one in given:
        if not isinstance(one, str) or not (_FULL_NAME if "aliases" in what else _NAME).fullmatch(one):
            raise ValueError(f"{_short(one)} among {what} is not a name")
    if len(set(given)) < len(given):
        raise ValueError(f"{what} have a name twice")
    return given


def _kind(plain: AvroSchema) -> str:
    """The name by which a branch of a union differs from the others."""
    if isinstance(plain, list):
        return "union"
    if isinstance(plain, str):
        return plain
    return str(plain["name"] if plain["type"] in NAMED else plain["type"])


def full_name(name: str, namespace: str) -> str:
    """A name that stands in a namespace, in full."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def defined_name(node: Definition, namespace: str) -> str:
    """The full name that a definition gives to its type. `namespace`: that of the place of the definition."""
    given = node.get("namespace")
    return full_name(node["name"], namespace if given is None else given)


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}..."
