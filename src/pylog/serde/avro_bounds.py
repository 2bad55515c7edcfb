"""Bounds on Avro bytes, checked before a decoder reads them: a few bytes can ask for endless work.

    a chain of links of a recursive schema     one byte a level: a decoder in C runs out of its stack
    an array of nulls, or of empty records     a count of 2^40 in seven bytes
    empty records in empty records             twice the work for each level of the schema
    an array of records with many nulls        one byte a record, and a value for each of its fields
    a decimal                                  the time for its digits grows with the square of its length

Most schemas have none of these, and their bytes are not looked at here. `AvroBounds` decides that once for a schema.
(Avro 1.12: binary encoding)
"""

from collections.abc import Callable

from pylog.serde.avro_schema import AvroSchema, Definition

DEPTH_MAX = 100
"""How deep records, arrays and maps may be nested in a value."""
EMPTY_MAX = 100_000
"""How many elements without a byte a value may have."""
DECIMAL_BYTES_MAX = 4096
"""How long a decimal may be: its precision is below 10,000 digits then."""

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_BYTES_MAX = 10

Step = Callable[["_Walk"], None]
"""Goes past one value."""


class AvroBounds:
    """The bounds of the values of one schema, as fastavro has parsed it."""

    def __init__(self, schema: AvroSchema) -> None:
        self._types: dict[str, Step] = {}
        self._open: set[str] = set()
        """The named types whose fields are being looked at."""
        self._empty: set[str] = set()
        """The named types without a byte."""
        self._is_endless = self._has_decimals = False
        self._step = self._made(schema)

    def check(self, data: bytes) -> None:
        """Raise ValueError where a decoder would not come to an end of `data`, or only in much time or memory."""
        if self._is_endless or (self._has_decimals and len(data) > DECIMAL_BYTES_MAX):
            self._step(_Walk(data))

    def _made(self, schema: AvroSchema) -> Step:
        if isinstance(schema, list):
            return _union([self._made(one) for one in schema])
        if isinstance(schema, str):
            return self._by_name(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            items = self._made(schema["items"])
            self._is_endless |= self._is_empty(schema["items"])
            return _array(items)
        if kind == "map":
            return _array(_together([_long_bytes, self._made(schema["values"])]))
        if kind in ("bytes", "fixed") and schema.get("logicalType") == "decimal":
            self._has_decimals = True
            return self._named(schema, _decimal if kind == "bytes" else _fixed_decimal(schema["size"]))
        if kind == "fixed":
            return self._named(schema, _fixed(schema["size"]))
        if kind == "enum":
            return self._named(schema, _varint)
        return self._made(kind)

    def _by_name(self, name: str) -> Step:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        if name not in self._open:
            return self._types[name]
        self._is_endless = True

        def step(walk: _Walk) -> None:
            # It is not known before its fields are.
            self._types[name](walk)

        return step

    def _named(self, schema: Definition, step: Step) -> Step:
        if "name" in schema:
            self._types[schema["name"]] = step
            if schema.get("size") == 0:
                self._empty.add(schema["name"])
        return step

    def _record(self, schema: Definition) -> Step:
        name, kinds = schema["name"], [field["type"] for field in schema["fields"]]
        self._open.add(name)
        fields = _together([self._made(kind) for kind in kinds])
        empty = sum(map(self._is_empty, kinds))
        step = self._named(schema, _nested(fields, empty))
        self._open.discard(name)
        if empty == len(kinds):
            self._empty.add(name)
        # A record of nulls and one int takes a byte, whatever the number of its nulls.
        self._is_endless |= empty > 0 or not kinds
        return step

    def _is_empty(self, schema: AvroSchema) -> bool:
        """Whether values of this type have no byte. Its names are known by then."""
        while isinstance(schema, dict):
            schema = schema["name"] if "name" in schema else schema["type"]
        return isinstance(schema, str) and (schema == "null" or schema in self._empty)


class _Walk:
    """A place in the bytes, and what was passed on the way to it."""

    __slots__ = ("at", "data", "depth", "empty")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = self.depth = self.empty = 0

    def skip(self, size: int) -> None:
        """Go past so many bytes. Raises ValueError."""
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError(f"a field at byte {self.at} of an Avro value has {size} bytes, {len(self.data)} are there")
        self.at += size

    def long(self) -> int:
        """The number here. Raises ValueError."""
        value = shift = 0
        for byte in self.data[self.at : self.at + _VARINT_BYTES_MAX]:
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
            shift += 7
        raise ValueError(f"a number that ends at byte {self.at} of an Avro value is not whole")

    def descend(self) -> None:
        """Go one level down. Raises ValueError."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ValueError(f"an Avro value is nested more than {DEPTH_MAX} levels deep, at byte {self.at}")

    def count_empty(self, count: int) -> None:
        """Note elements without a byte. Raises ValueError."""
        self.empty += count
        if self.empty > EMPTY_MAX:
            raise ValueError(f"an Avro value has more than {EMPTY_MAX} elements without a byte, at byte {self.at}")


def _varint(walk: _Walk) -> None:
    walk.long()


def _long_bytes(walk: _Walk) -> None:
    walk.skip(walk.long())


def _decimal(walk: _Walk) -> None:
    begin = walk.at
    _long_bytes(walk)
    _check_decimal(walk.at - begin, begin)


def _check_decimal(size: int, at: int) -> None:
    if size > DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal at byte {at} of an Avro value has {size} bytes, {DECIMAL_BYTES_MAX} are allowed")


def _fixed(size: int) -> Step:
    return lambda walk: walk.skip(size)


def _fixed_decimal(size: int) -> Step:
    def step(walk: _Walk) -> None:
        _check_decimal(size, walk.at)
        walk.skip(size)

    return step


def _together(steps: list[Step]) -> Step:
    def step(walk: _Walk) -> None:
        for one in steps:
            one(walk)

    return step


def _nested(fields: Step, empty: int) -> Step:
    """A record. `empty`: how many of its fields have no byte."""

    def step(walk: _Walk) -> None:
        walk.count_empty(empty)
        walk.descend()
        fields(walk)
        walk.depth -= 1

    return step


def _union(branches: list[Step]) -> Step:
    def step(walk: _Walk) -> None:
        branch = walk.long()
        if not 0 <= branch < len(branches):
            raise ValueError(f"a union before byte {walk.at} of an Avro value has branch {branch} of {len(branches)}")
        branches[branch](walk)

    return step


def _array(item: Step) -> Step:
    """Blocks of items, each with its count; a count below 0 is followed by the size of the block in bytes."""

    def step(walk: _Walk) -> None:
        walk.descend()
        while count := walk.long():
            if count < 0:
                walk.long()
            if item is _PRIMITIVES["null"]:
                walk.count_empty(abs(count))
                continue
            for _ in range(abs(count)):
                begin = walk.at
                item(walk)
                if walk.at == begin:
                    walk.count_empty(1)
        walk.depth -= 1

    return step


_PRIMITIVES: dict[str, Step] = {
    **{name: _fixed(size) for name, size in _SIZES.items()},
    **dict.fromkeys(("int", "long"), _varint),
    **dict.fromkeys(("bytes", "string"), _long_bytes),
}
