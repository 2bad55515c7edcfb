"""From the fields of a message at one version to the source of two flat functions, `decode` and `encode`.

    decode(data: memoryview, p: int, end: int, room: int) -> (dict or message, position after it)
    encode(value: Mapping or message, w: Callable[[bytes], None])        w takes the pieces in order

A struct is a dict, or a message where its fields are bound to a class (`classes`): then its attributes are read, or set
in a new instance, with nothing between.

Structs and arrays are written out in place, so a message is one function without calls per field. Fields of fixed size
that follow each other, and the length of what comes after them, go through one `struct.Struct`.

Invariant: the source holds names of variables and constants made here, names of fields as quoted literals, and names of
the attributes of our own classes.
"""

import dataclasses
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from pylog.protocol.schema.classes import ERROR, ERROR_CODES, ERROR_MESSAGE, attribute, ours
from pylog.protocol.schema.runtime import MAX_STRING_BYTES, SCOPE, TAGS
from pylog.protocol.schema.table import BYTES, FIXED, NEVER, SIZES, Field, smallest


class FunctionSource(ABC):
    """The lines of a function in the making."""

    def __init__(self, version: int, flexible: bool, *, is_typed: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.is_typed = is_typed
        self.scope: dict[str, Any] = dict(SCOPE)
        self.lines: list[str] = []
        self.depth = 1
        self.run: list[tuple[str, str]] = []
        self._names = 0

    def name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: object) -> str:
        name = self.name("C")
        self.scope[name] = value
        return name

    def emit(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def block(self, head: str, body: Callable[[], None]) -> None:
        """`head` and, indented, what `body` emits; no run of fixed fields crosses either end."""
        self.flush()
        self.emit(head)
        self.depth += 1
        body()
        self.flush()
        self.depth -= 1

    @abstractmethod
    def flush(self) -> None:
        """Emit the run of fixed fields gathered so far."""

    def parts(self, fields: tuple[Field, ...]) -> tuple[list[Field], list[Field]]:
        """The fields of this version in order, and its tagged ones by tag."""
        there = [field for field in fields if self.version in field.versions]
        plain = [field for field in there if self.version not in field.tagged]
        tagged = [field for field in there if self.version in field.tagged]
        return plain, sorted(tagged, key=lambda field: field.tag)

    def function(self, head: str, result: str) -> Callable[..., Any]:
        self.flush()
        source = "\n".join([f"def {head}:", *self.lines, f"    return {result}"])
        exec(compile(source, f"<schema {head}, version {self.version}>", "exec"), self.scope)
        made: Callable[..., Any] = self.scope[head.partition("(")[0]]
        return made


class DecodeSource(FunctionSource):
    """The source of `decode`. Its variables: `data`, `p` the position, `end`, `room` for how many more elements."""

    def flush(self) -> None:
        if not self.run:
            return
        layout = struct.Struct(">" + "".join(letter for letter, _ in self.run))
        targets = "".join(f"{target}, " for _, target in self.run)
        self.emit(f"{targets}= {self.constant(layout.unpack_from)}(data, p)", f"p += {layout.size}")
        self.emit(*(f"{target} = uuid({target})" for letter, target in self.run if letter == "16s"))
        self.run = []

    def uvarint(self, target: str) -> None:
        self.flush()
        self.emit(f"{target} = data[p]", "p += 1")
        self.emit(f"if {target} > 127:", f"    {target}, p = read_uvarint(data, p - 1)")

    def length(self, field: Field, letter: str) -> str:
        """Read a length or count into a new variable; -1 stands for None."""
        target = self.name("n")
        if field.compact(self.version, self.flexible):
            self.uvarint(target)
            self.emit(f"{target} -= 1")
        else:
            self.run.append((letter, target))
            self.flush()
        return target

    def unless_null(self, field: Field, length: str, target: str, body: Callable[[], None]) -> None:
        nullable = self.version in field.nullable
        negative = f"if {length} == -1:" if nullable else f"if {length} < 0:"
        refusal = repr(f"{field.name} has a negative length")
        self.emit(negative, f"    {target} = None" if nullable else f"    fail({refusal}, p)")
        if nullable:
            self.block("else:", body)
        else:
            body()

    def field(self, field: Field, target: str) -> None:
        if field.is_array:
            count = self.length(field, "i")
            self.unless_null(field, count, target, lambda: self.array(field, count, target))
        elif field.kind in FIXED:
            self.run.append((FIXED[field.kind], target))
        elif field.kind == "string" or field.kind in BYTES:
            length = self.length(field, "h" if field.kind == "string" else "i")
            self.unless_null(field, length, target, lambda: self.sized(field, length, target))
        elif self.version in field.nullable:
            present = self.name("n")
            self.run.append(("b", present))
            # Kafka writes None as -1, but as 0 inside a tagged field.
            self.block(f"if {present} < {int(self.version in field.tagged)}:", lambda: self.emit(f"{target} = None"))
            self.block("else:", lambda: self.struct(field.fields, target, field.made))
        else:
            self.struct(field.fields, target, field.made)

    def sized(self, field: Field, length: str, target: str) -> None:
        refusal, misfit = f"{field.name} is longer than the bytes that are left", f"{length} < 0"
        if field.kind == "string" and field.compact(self.version, self.flexible):
            # Nothing is below 0 here. (Kafka: "string field ... had invalid length")
            refusal, misfit = f"{refusal}, or than a string may be", f"{length} > {MAX_STRING_BYTES}"
        self.emit(f"q = p + {length}", f"if {misfit} or q > end:", f"    fail({refusal!r}, p)")
        content = 'str(data[p:q], "utf-8")' if field.kind == "string" else "data[p:q]"
        if field.kind == "bytes" and self.is_typed:
            # A message outlives the frame that it came in.
            content = f"bytes({content})"
        self.emit(f"{target} = {content}", "p = q")

    def array(self, field: Field, count: str, target: str) -> None:
        element = field.element
        size = max(smallest(element, self.version, self.flexible), 1)
        refusal = repr(f"{field.name} has more elements than there are bytes for")
        self.emit(f"if {count} < 0 or {count} * {size} > end - p:", f"    fail({refusal}, p)")
        self.take_room(count)
        if field.kind == "uuid":
            self.emit(f"{target} = [uuid(bytes(data[i : i + 16])) for i in range(p, p + {count} * 16, 16)]")
            self.emit(f"p += {count} * 16")
        elif field.kind in FIXED:
            letter = FIXED[field.kind]
            self.emit(f'{target} = list(unpack(f">{{{count}}}{letter}", data, p))', f"p += {count} * {SIZES[letter]}")
        else:
            item = self.name("v")
            self.emit(f"{target} = []")

            def one() -> None:
                self.field(element, item)
                self.flush()
                self.emit(f"{target}.append({item})")

            self.block(f"for _ in range({count}):", one)

    def take_room(self, count: str) -> None:
        """Count elements, and refuse more than there is room for."""
        self.emit(f"room -= {count}", "if room < 0:", "    crowded(p)")

    def default(self, field: Field) -> str:
        """The default of a tagged field, as an expression that makes a new value each time."""
        if field.default is None:
            return "None"
        if field.is_array:
            return "[]"
        if field.kind == "uuid":
            return "UUID0"
        if field.kind in FIXED or field.kind == "string" or field.kind in BYTES:
            return repr(field.default)
        if field.made is not None:
            return "None"
        inner = [f for f in field.fields if self.version in f.versions]
        return "{" + ", ".join(f"{f.name!r}: {self.default(f)}" for f in inner) + "}"

    def struct(self, fields: tuple[Field, ...], target: str, made: type | None) -> None:
        """Read a struct into a variable called `target`: a dict, or an instance of the class `made`."""
        plain, tagged = self.parts(fields)
        names = {field.name: self.name("v") for field in fields if field in plain or field in tagged}
        for field in plain:
            self.field(field, names[field.name])
        self.flush()
        for field in tagged:
            self.emit(f"{names[field.name]} = {self.default(field)}")
        unknown = self.tags(tagged, names) if self.flexible else None
        if made is not None:
            self.construct(fields, names, target, made)
            return
        self.emit(f"{target} = {{" + ", ".join(f"{name!r}: {variable}" for name, variable in names.items()) + "}")
        if unknown is not None:
            self.emit(f"if {unknown}:", f"    {target}[{TAGS!r}] = {unknown}")

    def construct(self, fields: tuple[Field, ...], names: dict[str, str], target: str, made: type) -> None:
        """Make an instance of a class. What the version lacks is at its default."""
        self.emit(f"{target} = new({self.constant(made)})")
        rare = {one.name for one in dataclasses.fields(made) if one.default == ()}
        for field in fields:
            if field.name in ERROR_CODES:
                code, text = names.get(field.name, "0"), names.get(ERROR_MESSAGE, "None")
                self.emit(f"{target}.{ERROR} = None if {code} == 0 else of_code({code}, {text})")
            elif field.name != ERROR_MESSAGE:
                value = names.get(field.name) or self.default(field)
                empty = " or ()" if attribute(field) in rare and self.version not in field.nullable else ""
                self.emit(f"{target}.{attribute(field)} = {value}{empty}")
        for name, default in ours(made):
            self.emit(f"{target}.{name} = {self.constant(default)}")

    def tags(self, tagged: list[Field], names: dict[str, str]) -> str:
        """Read a tag section; return the variable that holds the unknown tags, or None."""
        count, unknown, tag, size, stop = (self.name(prefix) for prefix in ("n", "u", "t", "n", "q"))
        self.uvarint(count)
        self.emit(f"{unknown} = None")

        def one() -> None:
            self.uvarint(tag)
            self.uvarint(size)
            refusal = repr("a tagged field is longer than the bytes that are left")
            self.emit(f"{stop} = p + {size}", f"if {stop} > end:", f"    fail({refusal}, p)")
            word = "if"
            for field in tagged:
                self.block(f"{word} {tag} == {field.tag}:", partial(self.field, field, names[field.name]))
                word = "elif"

            def keep() -> None:
                self.take_room("1")
                self.emit(f"{unknown} = {unknown} or {{}}", f"{unknown}[{tag}] = bytes(data[p:{stop}])", f"p = {stop}")

            if tagged:
                self.block("else:", keep)
            else:
                keep()
            self.emit(f"if p != {stop}:", '    fail("a tagged field does not have the size it says", p)')

        self.block(f"for _ in range({count}):", one)
        return unknown


class EncodeSource(FunctionSource):
    """The source of `encode`. `write` is the variable that takes the pieces: another one inside a tagged field. Outside
    of tagged fields `whole` takes the pieces of bytes and records.
    """

    def __init__(self, version: int, flexible: bool, *, is_typed: bool) -> None:
        super().__init__(version, flexible, is_typed=is_typed)
        self.write = "w"

    def flush(self) -> None:
        if self.run:
            layout = struct.Struct(">" + "".join(letter for letter, _ in self.run))
            values = ", ".join(value for _, value in self.run)
            self.emit(f"{self.write}({self.constant(layout.pack)}({values}))")
            self.run = []

    def length(self, field: Field, letter: str, length: str) -> None:
        if field.compact(self.version, self.flexible):
            self.flush()
            self.emit(f"{self.write}(UVARINTS[{length} + 1] if {length} < 127 else uvarint({length} + 1))")
        else:
            self.run.append((letter, length))

    def default(self, field: Field) -> str:
        """The value for a missing key: an empty struct is one of defaults."""
        return "UUID0" if field.kind == "uuid" and not field.is_array else repr(field.default)

    def take(self, field: Field, source: str, made: type | None) -> str:
        """Take a field's value out of a mapping, or a message, into a new variable."""
        value = self.name("v")
        if made is None:
            self.emit(f"{value} = {source}.get({field.name!r}, {self.default(field)})")
        elif attribute(field) == ERROR:
            is_code = field.name in ERROR_CODES
            told = "error_code" if is_code else "error_message"
            nothing = "0" if is_code else "None" if self.version in field.nullable else "''"
            self.emit(f"{value} = {nothing} if {source}.{ERROR} is None else {told}({source}.{ERROR})")
        else:
            self.emit(f"{value} = {source}.{attribute(field)}")
        return value

    def field(self, field: Field, value: str) -> None:
        nullable = self.version in field.nullable
        if not field.is_array and field.kind in FIXED:
            self.run.append((FIXED[field.kind], f"{value}.bytes" if field.kind == "uuid" else value))
        elif field.is_array or field.kind == "string" or field.kind in BYTES:
            self.sized(field, value, nullable)
        elif nullable:
            nothing = 0 if self.version in field.tagged else -1
            self.run.append(("b", f"{nothing} if {value} is None else 1"))
            self.block(f"if {value} is not None:", lambda: self.struct(field.fields, value, field.made))
        else:
            self.emit(f"if {value} is None:", f"    {self.refuse_null(field)}")
            self.struct(field.fields, value, field.made)

    def refuse_null(self, field: Field) -> str:
        """Refuse None: another version may be able to say it."""
        is_elsewhere = self.is_typed and field.nullable != NEVER
        return f"unsaid({field.name!r}, {self.version})" if is_elsewhere else f"null({field.name!r})"

    def sized(self, field: Field, value: str, nullable: bool) -> None:
        """Write a string, bytes or an array: its length, then its content."""
        is_text = field.kind == "string" and not field.is_array
        length = self.name("n")
        self.emit(f"if {value} is None:")
        if nullable:
            self.emit(f"    {length} = -1", f"    {value} = {'()' if field.is_array else repr(b'')}", "else:")
            if is_text:
                self.emit(f"    {value} = text({value}, {field.name!r})")
            self.emit(f"    {length} = len({value})")
        else:
            self.emit(f"    {self.refuse_null(field)}")
            if is_text:
                self.emit(f"{value} = text({value}, {field.name!r})")
            self.emit(f"{length} = len({value})")
        self.length(field, "h" if is_text else "i", length)
        self.flush()
        if field.is_array:
            self.array(field, value)
        else:
            is_whole = field.kind in BYTES and self.write == "w"
            self.emit(f"{'whole' if is_whole else self.write}({value})")

    def array(self, field: Field, value: str) -> None:
        if field.kind == "uuid":
            self.emit(f"{self.write}(join([x.bytes for x in {value}]))")
        elif field.kind in FIXED:
            self.emit(f'{self.write}(pack(f">{{len({value})}}{FIXED[field.kind]}", *{value}))')
        else:
            item = self.name("v")
            self.block(f"for {item} in {value}:", lambda: self.field(field.element, item))

    def struct(self, fields: tuple[Field, ...], value: str, made: type | None) -> None:
        """Emit what encodes the variable called `value`: a dict, or an instance of the class `made`."""
        plain, tagged = self.parts(fields)
        if made is None:
            known = frozenset({field.name for field in (*plain, *tagged)} | ({TAGS} if self.flexible else set()))
            self.emit(f"if not {value}.keys() <= {self.constant(known)}:")
            self.emit(f"    check_extra({value}, {self.constant(fields)}, {self.version})")
        else:
            self.check_absent(fields, value)
        for field in plain:
            self.field(field, self.take(field, value, made))
        if not self.flexible:
            return
        self.flush()
        tags = self.name("t")
        if tagged:
            self.emit(f"{tags} = []")
        for field in tagged:
            self.tag(field, self.take(field, value, made), tags)
        if made is not None:
            self.known_tags(tags if tagged else "")
            return
        more = self.name("u")
        self.emit(f"{more} = {value}.get({TAGS!r})", f"if {more}:")
        self.emit(f"    write_tags({self.write}, {tags if tagged else '()'}, {more})")
        self.block("else:", lambda: self.known_tags(tags if tagged else ""))

    def known_tags(self, tags: str) -> None:
        """Write the tag section of a struct without unknown tags."""
        if not tags:
            self.emit(f"{self.write}(UVARINTS[0])")
            return
        # They are in order, and Kafka has none beyond 126.
        self.emit(f"{self.write}(UVARINTS[len({tags})])", f"for t, d in {tags}:")
        self.emit(f"    {self.write}(UVARINTS[t])")
        self.emit(f"    {self.write}(UVARINTS[len(d)] if len(d) < 128 else uvarint(len(d)))")
        self.emit(f"    {self.write}(d)")

    def check_absent(self, fields: tuple[Field, ...], value: str) -> None:
        """Refuse a value that this version cannot say, unless losing it is harmless (Kafka: `ignorable`)."""
        for field in fields:
            # Without its text an error is still told by its code.
            if self.version not in field.versions and not field.ignorable and field.name != ERROR_MESSAGE:
                source = f"{value}.{attribute(field)}"
                is_error = field.name in ERROR_CODES
                is_said = f"{source} is not None" if is_error else self.is_off_default(field, source)
                self.emit(f"if {is_said}:", f"    unsaid({field.name!r}, {self.version})")

    def is_off_default(self, field: Field, value: str) -> str:
        """The condition that a value differs from the default of its field."""
        if field.default is None:
            return f"{value} is not None"
        if field.is_array or field.kind in BYTES:
            return f"{value} is None or len({value})"
        if field.made is not None:
            return f"{value} is not None"
        if field.fields:
            return f"{value} is None or {value}"
        return f"{value} != {self.default(field)}"

    def tag(self, field: Field, value: str, tags: str) -> None:
        """Add a tagged field to `tags`, unless it is at its default."""
        outer, pieces = self.write, self.name("o")

        def body() -> None:
            if field.kind in FIXED and field.kind != "uuid" and not field.is_array:
                pack = self.constant(struct.Struct(">" + FIXED[field.kind]).pack)
                self.emit(f"{tags}.append(({field.tag}, {pack}({value})))")
                return
            self.write = self.name("w")
            self.emit(f"{pieces} = []", f"{self.write} = {pieces}.append")
            self.field(field, value)
            self.flush()
            self.write = outer
            made = f"join({pieces})"
            if field.fields and not field.is_array and field.default is not None:
                default = compile_encode(field.fields, self.version, self.flexible)
                plain: list[bytes] = []
                default({}, plain.append, plain.append)
                self.emit(f"if {made} != {b''.join(plain)!r}:", f"    {tags}.append(({field.tag}, {made}))")
            else:
                self.emit(f"{tags}.append(({field.tag}, {made}))")

        self.block(f"if {self.is_off_default(field, value)}:", body)


def compile_decode(
    fields: tuple[Field, ...], version: int, flexible: bool, made: type | None = None
) -> Callable[..., tuple[object, int]]:  # fmt: skip
    """`decode` for a struct of these fields, into a dict or an instance of the class `made`."""
    source = DecodeSource(version, flexible, is_typed=made is not None)
    source.struct(fields, "value", made)
    return source.function("decode(data, p, end, room)", "value, p")


def compile_encode(
    fields: tuple[Field, ...], version: int, flexible: bool, made: type | None = None
) -> Callable[..., None]:  # fmt: skip
    """`encode` for a struct of these fields: `w` gets the pieces in order, `whole` those of bytes and records."""
    source = EncodeSource(version, flexible, is_typed=made is not None)
    source.struct(fields, "value", made)
    return source.function("encode(value, w, whole)", "None")
