"""Protobuf's rules: fields by their numbers and their forms on the wire."""

import sys
from base64 import b64decode, b64encode
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pylog.serde.compatibility.protobuf import faults

ONE, MANY, REQUIRED = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED, Field.LABEL_REQUIRED


def file(*fields: tuple[Any, ...], message: str = "M", package: str = "", nested: str = "") -> str:
    """A file with one message. A field is its number, its type, and perhaps label and the name of a type."""
    made = FileDescriptorProto(name="f.proto", package=package)
    one = made.message_type.add(name=message)
    for number, kind, *more in fields:
        label, name = (*more, *(ONE, "")[len(more) :])
        one.field.add(number=number, name=f"f{number}", type=kind, label=label, type_name=name)
    if nested:
        one.nested_type.add(name=nested)
    return b64encode(made.SerializeToString()).decode()


INT, LONG, TEXT, BYTES = Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_STRING, Field.TYPE_BYTES
MESSAGE, ZIGZAG = Field.TYPE_MESSAGE, Field.TYPE_SINT32


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (file((1, LONG)), file((1, INT))),
        (file((1, BYTES)), file((1, TEXT))),
        (file((1, INT), (2, TEXT)), file((1, INT))),
        (file((1, INT)), file((1, INT), (2, TEXT))),
        (file((1, MESSAGE, ONE, ".a.N")), file((1, MESSAGE, ONE, ".a.N"))),
        (file((1, INT, REQUIRED)), file((1, INT, REQUIRED))),
        (file((1, INT), nested="N"), file((1, INT))),
    ],
)
def test_what_is_the_same_on_the_wire_is_compatible(reader: str, writer: str) -> None:
    assert faults(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "fault"),
    [
        (file((1, ZIGZAG)), file((1, INT)), "field M.f1: it is sint32, and was int32"),
        (file((1, TEXT)), file((1, INT)), "field M.f1: it is string, and was int32"),
        (file((1, INT, MANY)), file((1, INT)), "field M.f1: it is repeated in one of them alone"),
        (file((1, INT, REQUIRED)), file(), "field M.f1: it is required, and was not written"),
        (file((1, INT, REQUIRED)), file((1, INT)), "field M.f1: it is required, and was not"),
        (
            file((1, MESSAGE, ONE, ".a.N"), package="a"),
            file((1, MESSAGE, ONE, ".a.O"), package="a"),
            "field a.M.f1: it is a a.N, and was a a.O",
        ),
        (file(message="N"), file(), "message M is gone"),
        (file(package="a"), file(package="a", nested="N"), "message a.M.N is gone"),
    ],
)
def test_what_reads_otherwise_is_named(reader: str, writer: str, fault: str) -> None:
    assert faults(reader, writer) == [fault]


def chosen(text: str, *numbers: int) -> str:
    """The same file with fields of these numbers in one oneof."""
    made = FileDescriptorProto.FromString(b64decode(text))
    made.message_type[0].oneof_decl.add(name="o")
    for field in made.message_type[0].field:
        if field.number in numbers:
            field.oneof_index = 0
    return b64encode(made.SerializeToString()).decode()


def test_fields_that_come_into_one_oneof_are_a_fault() -> None:
    two, three = file((1, TEXT), (2, TEXT)), file((1, TEXT), (2, TEXT), (3, TEXT))
    fault = "fields f1, f2 of M: they are in one oneof now, so only one of them is kept"
    assert faults(chosen(two, 1, 2), two) == faults(chosen(three, 1, 2), chosen(three, 1, 3)) == [fault]
    for reader, writer in ((two, chosen(two, 1, 2)), (chosen(two, 1), two), (chosen(three, 1, 2), chosen(two, 1, 2))):
        assert faults(reader, writer) == []


def test_without_protobuf_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    with pytest.raises(ImportError, match="pip install protobuf"):
        faults(file(), file())


@pytest.mark.parametrize("text", ["hello", b64encode(b"\xff\xff").decode()])
def test_a_text_that_is_neither_source_nor_a_descriptor_is_not_compared(text: str) -> None:
    with pytest.raises(ValueError, match="it is neither source text nor a descriptor in base64"):
        faults(file(), text)
