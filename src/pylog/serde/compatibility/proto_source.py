"""The source text of a `.proto` file as a descriptor: as much of it as a comparison of messages asks for.

Read are packages, messages in each other, fields with their labels and types, maps, groups, oneofs and the names of
enums. Options, services, extensions, reserved names and the values of enums are passed over. A type that the file does
not define counts as a message of another file: one of the package, or by its full name.
(https://protobuf.dev/reference/protobuf/proto3-spec/, proto2-spec)
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

__all__ = ["descriptor_of"]

TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<token>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w.]+|[{}\[\]()<>=;,+\-:])""",
    re.ASCII | re.DOTALL,
)
"""No token begins as a comment or a string does: one without an end is found once, in one pass over the text."""
SCALARS = frozenset(
    """
    double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 sint32 sint64
""".split()
)
LABELS = ("optional", "required", "repeated")
PASSED_OVER = frozenset("option reserved extensions extend service import syntax edition enum".split())
BRACKETS = {"{": "}", "[": "]", "(": ")", "<": ">"}
DEPTH_MAX = 64
"""How deep messages may be nested."""


def descriptor_of(text: str) -> "FileDescriptorProto":
    """The FileDescriptorProto of a source text. Raises ValueError, which names the place, and ImportError."""
    return _Source(text).file()


def _tokens(text: str) -> list[tuple[str, int]]:
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: {text[at : at + 20]!r} is not of Protobuf")
        if match["token"]:
            found.append((match["token"], at))
        at = match.end()
    return found


class _Source:
    """One text, read token by token."""

    def __init__(self, text: str) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._file = FileDescriptorProto()
        self._messages: set[str] = set()
        self._enums: set[str] = set()
        self._named: list[tuple[FieldDescriptorProto, str, str]] = []
        """Fields whose type has a name, the message that they are in, and the name."""

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str = "") -> str:
        token = self._next()
        if not token or (wanted and token != wanted):
            raise self._fault(wanted or "more")
        self._at += 1
        return token

    def _fault(self, wanted: str) -> ValueError:
        at = self._tokens[self._at][1] if self._at < len(self._tokens) else len(self._text)
        line = self._text.count("\n", 0, at) + 1
        return ValueError(f"line {line}: {self._next()[:40] or 'the end'!r} stands where {wanted} is expected")

    def _name(self) -> str:
        token = self._take()
        if not (token[0].isalpha() or token[0] in "_."):
            self._at -= 1
            raise self._fault("a name")
        return token

    def _number(self) -> int:
        token = self._take()
        try:
            number = int(token, 0) if not re.fullmatch("0[0-7]+", token) else int(token, 8)
        except ValueError:
            number = 0
        if not 0 < number < 1 << 29:
            self._at -= 1
            raise self._fault("the number of a field")
        return number

    def _pass_over(self) -> None:
        """Go past a statement: up to its semicolon, or to the end of its block."""
        waiting: list[str] = []
        while True:
            token = self._take()
            if token in BRACKETS:
                waiting.append(BRACKETS[token])
            elif waiting and token == waiting[-1]:
                waiting.pop()
                if not waiting and token == "}" and self._next() != ";":
                    return
            elif token == ";" and not waiting:
                return

    # --- declarations ------------------------------------------------------------------------------------------------

    def file(self) -> "FileDescriptorProto":
        """The file."""
        while self._next():
            match self._next():
                case "package":
                    self._take()
                    self._file.package = self._name()
                    self._take(";")
                case "message":
                    self._message(self._file.message_type.add, self._file.package, 0)
                case "enum":
                    self._enum(self._file.package)
                case ";":
                    self._take()
                case word if word in PASSED_OVER:
                    self._pass_over()
                case _:
                    raise self._fault("a declaration")
        for field, scope, name in self._named:
            self._resolve(field, scope, name)
        return self._file

    def _enum(self, scope: str) -> None:
        self._take("enum")
        self._enums.add(_inside(scope, self._name()))
        self._pass_over()

    def _message(self, add: "Callable[[], DescriptorProto]", scope: str, depth: int) -> None:
        self._take("message")
        message = add()
        message.name = self._name()
        self._body(message, _inside(scope, message.name), depth)

    def _body(self, message: "DescriptorProto", scope: str, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise self._fault("the end of a message, as they are nested too deeply")
        self._messages.add(scope)
        self._take("{")
        while self._next() != "}":
            match self._next():
                case "message":
                    self._message(message.nested_type.add, scope, depth + 1)
                case "enum":
                    self._enum(scope)
                case "oneof":
                    self._oneof(message, scope, depth)
                case ";":
                    self._take()
                case word if word in PASSED_OVER:
                    self._pass_over()
                case _:
                    self._field(message, scope, depth)
        self._take("}")

    def _oneof(self, message: "DescriptorProto", scope: str, depth: int) -> None:
        self._take("oneof")
        message.oneof_decl.add(name=self._name())
        self._take("{")
        while self._next() != "}":
            if self._next() == ";":
                self._take()
            elif self._next() == "option":
                self._pass_over()
            else:
                self._field(message, scope, depth, len(message.oneof_decl) - 1)
        self._take("}")

    def _field(self, message: "DescriptorProto", scope: str, depth: int, oneof: int | None = None) -> None:
        field = message.field.add()
        label = self._take() if self._next() in LABELS else "optional"
        field.label = field.Label.Value(f"LABEL_{label.upper()}")
        if oneof is not None:
            field.oneof_index = oneof
        kind = self._name()
        if kind == "map":
            self._map(message, field, scope)
        else:
            field.name, _ = self._name(), self._take("=")
            field.number = self._number()
            if kind == "group":
                self._pass_options()
                nested = message.nested_type.add(name=field.name)
                field.type, field.type_name = field.TYPE_GROUP, f".{_inside(scope, field.name)}"
                self._body(nested, _inside(scope, field.name), depth + 1)
                return
            self._set_type(field, scope, kind)
        self._pass_options()
        self._take(";")

    def _map(self, message: "DescriptorProto", field: "FieldDescriptorProto", scope: str) -> None:
        self._take("<")
        key, _, value = self._name(), self._take(","), self._name()
        self._take(">")
        field.name, _ = self._name(), self._take("=")
        field.number = self._number()
        camel = "".join(word[:1].upper() + word[1:] for word in field.name.split("_"))
        entry = message.nested_type.add(name=f"{camel}Entry")
        entry.options.map_entry = True
        inner = _inside(scope, entry.name)
        for name, number, kind in (("key", 1, key), ("value", 2, value)):
            self._set_type(entry.field.add(name=name, number=number, label=field.LABEL_OPTIONAL), inner, kind)
        field.label, field.type, field.type_name = field.LABEL_REPEATED, field.TYPE_MESSAGE, f".{inner}"

    def _pass_options(self) -> None:
        if self._next() != "[":
            return
        waiting = 0
        while True:
            token = self._take()
            waiting += (token == "[") - (token == "]")
            if not waiting:
                return

    # --- types -------------------------------------------------------------------------------------------------------

    def _set_type(self, field: "FieldDescriptorProto", scope: str, kind: str) -> None:
        constant = f"TYPE_{kind.upper()}"
        if kind in SCALARS:
            field.type = field.Type.Value(constant)
        else:
            self._named.append((field, scope, kind))

    def _resolve(self, field: "FieldDescriptorProto", scope: str, name: str) -> None:
        found = name.lstrip(".")
        # A type of another file of the package has a short name, and one of another package has its full name.
        full = found if "." in found or name != found else _inside(self._file.package, found)
        outer = "" if name != found else scope
        while outer:
            if _inside(outer, found) in self._messages or _inside(outer, found) in self._enums:
                full = _inside(outer, found)
                break
            outer = outer.rpartition(".")[0]
        field.type = field.TYPE_ENUM if full in self._enums else field.TYPE_MESSAGE
        field.type_name = f".{full}"


def _inside(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
