"""Whether data of one Avro schema can be read by another one: the schema resolution of the Avro specification.

A record is read field by field, by name or by an alias of the reader's; a field that the writer lacks takes its
default. A union of the writer's is readable if each of its branches is; one of the reader's reads what one of its
branches does.
(Avro: SchemaCompatibility)
"""

from typing import Any, TypeAlias

from pylog.serde.avro_schema import NAMED, AvroSchema, Definition, defined_name, full_name

PROMOTED = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
    "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip
"""For each primitive type of a writer, the other types that read it."""
Plain: TypeAlias = "list[Plain] | Definition"
"""A schema in one form: a list for a union, a dict for all else."""
STEPS_MOST = 20_000
"""The most pairs of schemas that one check compares. Nested unions multiply them."""


def faults(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """The reasons why data of `writer` cannot be read by `reader`, two schemas as JSON. Raises KeyError, TypeError
    where one is no schema.
    """
    readers: dict[str, Definition] = {}
    writers: dict[str, Definition] = {}
    pair = _plain(reader, "", readers), _plain(writer, "", writers)
    return _Resolution(readers, writers).faults(*pair, "")


def _plain(node: AvroSchema, namespace: str, named: dict[str, Definition]) -> Plain:
    """The one form of a schema; `named` gets its definitions by full names."""
    if isinstance(node, list):
        return [_plain(one, namespace, named) for one in node]
    if isinstance(node, str):
        return {"type": node, "name": full_name(node, namespace)}
    kind = node["type"]
    if not isinstance(kind, str):
        return _plain(kind, namespace, named)
    if kind not in NAMED:
        # A primitive, an array, a map, or the name of a definition.
        inner: Definition = {key: _plain(node[key], namespace, named) for key in ("items", "values") if key in node}
        return {"name": full_name(kind, namespace), "type": kind, **inner}
    name = defined_name(node, namespace)
    space = name.rpartition(".")[0]
    aliases = {full_name(one, space) for one in node.get("aliases", ())}
    made = named[name] = {**node, "type": "record" if kind == "error" else kind, "name": name, "aliases": aliases}
    if "fields" in node:
        made["fields"] = [{**field, "type": _plain(field["type"], space, named)} for field in node["fields"]]
    return made


class _Resolution:
    """One pair of schemas, whose definitions are these."""

    def __init__(self, readers: dict[str, Definition], writers: dict[str, Definition]) -> None:
        self._readers = readers
        self._writers = writers
        self._seen: set[tuple[str, str]] = set()
        """The pairs of records that were compared, or are being compared: a schema may refer to itself."""
        self._steps = 0

    def faults(self, reader: Plain, writer: Plain, path: str) -> list[str]:
        self._steps += 1
        if self._steps > STEPS_MOST:
            raise ValueError("its unions are too many to be compared")
        if isinstance(writer, list):
            return [fault for one in writer for fault in self.faults(reader, one, path)]
        writer = self._writers.get(writer["name"], writer)
        if isinstance(reader, list):
            return self._by_a_branch(reader, writer, path)
        reader = self._readers.get(reader["name"], reader)
        kind = reader["type"]
        if kind != writer["type"]:
            is_promoted = kind in PROMOTED.get(writer["type"], ())
            return [] if is_promoted else [f"{_at(path)}{_said(writer)} cannot be read as {_said(reader)}"]
        match kind:
            case "array":
                return self.faults(reader["items"], writer["items"], path)
            case "map":
                return self.faults(reader["values"], writer["values"], path)
            case "record" | "enum" | "fixed":
                return self._of_named(reader, writer, path)
        return []

    def _by_a_branch(self, reader: list[Any], writer: Definition, path: str) -> list[str]:
        before = set(self._seen)
        found: list[list[str]] = []
        for branch in reader:
            self._seen = set(before)
            found.append(self.faults(branch, writer, path))
            if not found[-1]:
                return []
        same = [
            wrong for branch, wrong in zip(reader, found, strict=True)
            if self._readers.get(branch["name"], branch)["type"] == writer["type"]
        ]  # fmt: skip
        # The faults of the branch that is meant tell more.
        return same[0] if len(same) == 1 else [f"{_at(path)}no branch of the union reads {_said(writer)}"]

    def _of_named(self, reader: Definition, writer: Definition, path: str) -> list[str]:
        if _short(reader["name"]) != _short(writer["name"]) and writer["name"] not in reader["aliases"]:
            return [f"{_at(path)}{_said(writer)} is not {_said(reader)}"]
        if reader["type"] == "fixed":
            same = reader["size"] == writer["size"]
            return [] if same else [f"{_at(path)}{_said(writer)} has {writer['size']} bytes, not {reader['size']}"]
        if reader["type"] == "enum":
            gone = sorted(set(writer["symbols"]) - set(reader["symbols"]))
            is_read = not gone or "default" in reader
            return [] if is_read else [f"{_at(path)}{_said(reader)} lacks {', '.join(gone)}, and has no default"]
        if (reader["name"], writer["name"]) in self._seen:
            return []
        self._seen.add((reader["name"], writer["name"]))
        there = {field["name"]: field for field in writer["fields"]}
        found = []
        for field in reader["fields"]:
            inner = f"{path or _short(reader['name'])}.{field['name']}"
            written = next((there[name] for name in (field["name"], *field.get("aliases", ())) if name in there), None)
            if written is not None:
                found += self.faults(field["type"], written["type"], inner)
            elif "default" not in field:
                found.append(f"{_at(inner)}it is missing where data was written, and has no default")
        return found


def _at(path: str) -> str:
    return f"field {path}: " if path else ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _said(node: Definition) -> str:
    return f"{node['type']} {node['name']}" if node["type"] in NAMED else str(node["type"])
