"""Whether one JSON Schema takes all that another one does.

Only what can be shown is taken for compatible. A keyword that is not known here, or that narrows in ways of its own
(`oneOf`, `if`, `patternProperties`...), has to be the same in both. An object without `additionalProperties: false` may
already have any property, of any type, so a new property has to be one that takes anything, or is a fault, as by
Confluent's registry in its strict default. A new required property is one even with a default: validation fails without
it.
(Confluent: SchemaDiff of JSON Schema)
"""

import json
from typing import Any, TypeAlias

Keywords: TypeAlias = dict[str, Any]
"""The keywords of a schema. What one has as its value goes by its name."""
JsonSchema: TypeAlias = Keywords | bool
ANNOTATIONS = frozenset({
    "$anchor", "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples",
    "id", "readOnly", "title", "writeOnly",
})  # fmt: skip
"""Keywords that take nothing away."""
AT_LEAST = frozenset({"exclusiveMinimum", "minItems", "minLength", "minProperties", "minimum"})
AT_MOST = frozenset({"exclusiveMaximum", "maxItems", "maxLength", "maxProperties", "maximum"})
REMOVABLE = frozenset({"format", "multipleOf", "not", "pattern", "propertyNames", "uniqueItems"})
"""Keywords that a reader may leave out: without them it takes more."""
COMPARED = frozenset({
    "$ref", "additionalProperties", "anyOf", "const", "enum", "items", "properties", "required", "type"
})  # fmt: skip
WHOLE = frozenset({"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords that mean something only with all that is around them."""
DEPTH_MOST = 100
STEPS_MOST = 20_000
"""The most pairs of schemas that one check compares. Nested branches multiply them."""


def faults(reader: JsonSchema, writer: JsonSchema) -> list[str]:
    """The values that `writer` takes and `reader` does not, two schemas as JSON. Raises TypeError where one is no
    schema.
    """
    return _Comparison(reader, writer).faults(reader, writer, "")


class _Comparison:
    """One pair of schemas, whose references are into these."""

    def __init__(self, reader: JsonSchema, writer: JsonSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._seen: set[tuple[str, str]] = set()
        """The pairs with a reference that were compared, or are being compared: a schema may refer to itself."""
        self._steps = 0

    def faults(self, mine: JsonSchema, theirs: JsonSchema, path: str) -> list[str]:
        self._steps += 1
        if self._steps > STEPS_MOST:
            raise ValueError("its branches are too many to be compared")
        refs = _ref(mine), _ref(theirs)
        if refs != ("", ""):
            pair = _text(mine), _text(theirs)
            if pair in self._seen:
                return []
            self._seen.add(pair)
            if refs[0] and _beside_ref(mine) and _beside_ref(mine) != _beside_ref(theirs):
                return [f"{_at(path)}what stands beside $ref is not the same"]
            found, before = _target(self._reader, mine), _target(self._writer, theirs)
            if found is None or before is None:
                return [f"{_at(path)}a reference to another schema cannot be compared"]
            mine, theirs = found, before
        return self._of_keywords(_plain(mine), _plain(theirs), path)

    def _of_keywords(self, mine: Keywords | None, theirs: Keywords | None, path: str) -> list[str]:
        if theirs is None or mine == {}:
            return []
        if mine is None:
            return [f"{_at(path)}nothing is taken any more"]
        if WHOLE & mine.keys() and (mine != theirs or self._reader != self._writer):
            return [f"{_at(path)}{', '.join(sorted(WHOLE & mine.keys()))} cannot be compared"]
        return [
            *_of_types(mine, theirs, path),
            *_of_values(mine, theirs, path),
            *self._of_limits(mine, theirs, path),
            *self._of_branches(mine, theirs, path),
            *self._of_properties(mine, theirs, path),
            *self._of_items(mine, theirs, path),
        ]

    def _same(self, mine: JsonSchema, theirs: JsonSchema) -> bool:
        """Whether two values are equal, and the schemas that they refer to are equal, too."""
        return mine == theirs and _referred(self._reader, mine) == _referred(self._writer, theirs)

    def _of_limits(self, mine: Keywords, theirs: Keywords, path: str) -> list[str]:
        """The keywords that are compared by their values alone."""
        found = []
        for name in sorted((mine.keys() | theirs.keys()) - COMPARED):
            if name not in mine:
                is_taken = name in AT_LEAST | AT_MOST | REMOVABLE
            elif name not in theirs:
                is_taken = False
            else:
                is_wider = (name in AT_LEAST and mine[name] < theirs[name]) or (
                    name in AT_MOST and mine[name] > theirs[name]
                )
                is_taken = is_wider or self._same(mine[name], theirs[name])
            if not is_taken:
                found.append(f"{_at(path)}{name} is not the same")
        return found

    def _of_branches(self, mine: Keywords, theirs: Keywords, path: str) -> list[str]:
        """`anyOf`: each branch of before has to be in one of now."""
        if "anyOf" not in mine:
            return []
        before = theirs.get("anyOf", [theirs])
        lost = [one for one in before if not any(self._is_in(branch, one, path) for branch in mine["anyOf"])]
        return [f"{_at(path)}no branch of anyOf takes what was taken before"] if lost else []

    def _is_in(self, mine: JsonSchema, theirs: JsonSchema, path: str) -> bool:
        seen = set(self._seen)
        if not self.faults(mine, theirs, path):
            return True
        self._seen = seen
        return False

    def _of_properties(self, mine: Keywords, theirs: Keywords, path: str) -> list[str]:
        known, before = mine.get("properties", {}), theirs.get("properties", {})
        others, others_before = mine.get("additionalProperties", True), theirs.get("additionalProperties", True)
        required = sorted(set(mine.get("required", ())) - set(theirs.get("required", ())))
        found = [f"field {_inner(path, name)}: it is required, and was not" for name in required]
        could_be = True if "patternProperties" in theirs else others_before
        for name, schema in known.items():
            inner = _inner(path, name)
            if name in before:
                found += self.faults(schema, before[name], inner)
            elif not self._is_in(schema, could_be, inner):
                found.append(f"field {inner}: it is new, and was not kept out by additionalProperties: false")
        for name in before.keys() - known.keys():
            if not self._is_in(others, before[name], _inner(path, name)):
                found.append(f"field {_inner(path, name)}: it is gone, and additionalProperties does not take it")
        if not self._is_in(others, others_before, path):
            found.append(f"{_at(path)}additionalProperties takes less")
        return found

    def _of_items(self, mine: Keywords, theirs: Keywords, path: str) -> list[str]:
        now, before = mine.get("items", True), theirs.get("items", True)
        if isinstance(now, list) or isinstance(before, list):
            return [] if self._same(now, before) else [f"{_at(path)}items is not the same"]
        return self.faults(now, before, f"{path}[]")


def _ref(schema: JsonSchema) -> str:
    return str(schema.get("$ref", "")) if isinstance(schema, dict) else ""


def _beside_ref(schema: JsonSchema) -> Keywords:
    found = schema.items() if isinstance(schema, dict) else ()
    return {name: value for name, value in found if name != "$ref" and name not in ANNOTATIONS}


def _text(schema: JsonSchema) -> str:
    """A text that tells a schema from others: its reference, if it is no more than that."""
    return _ref(schema) if _ref(schema) and not _beside_ref(schema) else json.dumps(schema, sort_keys=True)


def _referred(root: JsonSchema, value: object) -> dict[str, JsonSchema | None]:
    """The schemas that a value refers to, at any depth, by the references."""
    found: dict[str, JsonSchema | None] = {}
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and (ref := _ref(one)) and ref not in found:
            found[ref] = _target(root, one)
            waiting.append(found[ref])
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return found


def _target(root: JsonSchema, schema: JsonSchema) -> JsonSchema | None:
    """The target of a schema's reference within `root`, or the schema itself; None where that is elsewhere."""
    for _ in range(DEPTH_MOST):
        ref = _ref(schema)
        if not ref:
            return schema
        if ref != "#" and not ref.startswith("#/"):
            return None
        schema = root
        for word in ref.split("/")[1:]:
            name = word.replace("~1", "/").replace("~0", "~")
            if not isinstance(schema, dict) or name not in schema:
                return None
            schema = schema[name]
    return None


def _plain(schema: JsonSchema) -> Keywords | None:
    """The keywords of a schema that say what it takes; None for one that takes nothing. Raises TypeError."""
    if isinstance(schema, bool):
        return {} if schema else None
    if not isinstance(schema, dict):
        raise TypeError(f"{schema!r} is no schema")
    return {name: value for name, value in schema.items() if name not in ANNOTATIONS}


def _of_types(mine: Keywords, theirs: Keywords, path: str) -> list[str]:
    if "type" not in mine:
        return []
    taken = _words(mine["type"])
    if "type" not in theirs:
        return [f"{_at(path)}it has to be {' or '.join(taken)} now"]
    gone = [one for one in _words(theirs["type"]) if one not in taken and (one, "number" in taken) != ("integer", True)]
    return [f"{_at(path)}it may be {' or '.join(gone)}, and {' or '.join(taken)} alone is taken"] if gone else []


def _words(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _of_values(mine: Keywords, theirs: Keywords, path: str) -> list[str]:
    taken, before = _values(mine), _values(theirs)
    if taken is None:
        return []
    if before is None:
        return [f"{_at(path)}only some values are taken now"]
    gone = [repr(one) for text, one in before.items() if text not in taken]
    return [f"{_at(path)}{', '.join(gone)} is not taken any more"] if gone else []


def _values(schema: Keywords) -> dict[str, object] | None:
    """The only values that a schema takes, by their text: true is no 1 there. None: it names none."""
    found = None
    for given in ([schema["const"]] if "const" in schema else None, schema.get("enum")):
        if given is not None:
            named = {json.dumps(one, sort_keys=True): one for one in given}
            found = named if found is None else {text: one for text, one in found.items() if text in named}
    return found


def _at(path: str) -> str:
    return f"field {path}: " if path else ""


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
