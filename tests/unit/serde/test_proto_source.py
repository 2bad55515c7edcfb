"""The source text of Protobuf as a descriptor: held against protoc's own, and its faults."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import any_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pylog.serde.compatibility import protobuf
from pylog.serde.compatibility.proto_source import descriptor_of

google_api = pytest.importorskip("google.api", reason="googleapis-common-protos is not installed")
ROOT = Path(next(iter(google_api.__path__))).parent
SOURCES = sorted(ROOT.rglob("*.proto"))

WHOLE = """
// A comment with a "quote" and a ;
syntax = "proto2"; /* another
one */ edition = '2023';
package a.b;;
import public "x.proto";
option (my.option) = { text: "} \\" ;", list: [1, 2], inner < a: 1 > };
message M {
  reserved 5, 6 to 9, "old"; extensions 100 to max; option deprecated = true;;
  required int32 one = 0x1 [deprecated = true, (my.opt) = { a: [1, 2] }];
  repeated N two = 2; map<string, other.T> my_map = 03;
  oneof choice { option (x) = 1; string s = 4; N n = 10;; group InOne = 14 { optional bool x = 1; } }
  enum E { A = 0; B = -1 [deprecated = true]; } optional E e = 11; optional M rec = 12; optional .a.b.M whole = 13;
  optional Beside beside = 15; optional .Outer outer = 16;
  optional group G = 17 [lazy = true] { optional string message = 2; }
  message N { optional string option = 3; optional Top top = 4; }
  extend Other { optional int32 more = 120; }
}
enum Top { Z = 0; }
extend M { optional int32 added = 101; }
service S { rpc X (M) returns (stream M) { option (google.api.http) = { get: "/x" }; } };
"""


def fields(file: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The fields of each message of a file. A type of another file may be an enum there."""

    def all_of(outer: str, messages: Any) -> Iterator[tuple[str, Any]]:
        for one in messages:
            yield f"{outer}.{one.name}", one
            yield from all_of(f"{outer}.{one.name}", one.nested_type)

    return {
        name: sorted(
            (
                one.number, one.name, one.label, "named" if one.type in (11, 14) else one.type, one.type_name,
                one.HasField("oneof_index") and not one.proto3_optional,
            )
            for one in message.field
        )
        for name, message in all_of(file.package, file.message_type)
    }  # fmt: skip


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_a_source_has_the_messages_that_protoc_finds_in_it(path: Path) -> None:
    name = ".".join(("google", *path.relative_to(ROOT).with_suffix("").parts))
    compiled = FileDescriptorProto.FromString(importlib.import_module(f"{name}_pb2").DESCRIPTOR.serialized_pb)
    assert fields(descriptor_of(path.read_text(encoding="utf-8"))) == fields(compiled)


def test_there_are_sources_to_compare() -> None:
    assert len(SOURCES) > 40 and any_pb2.DESCRIPTOR.name


def test_all_that_a_file_may_have_is_read() -> None:
    file = descriptor_of(WHOLE)
    found = {name: [one[:5] for one in of] for name, of in fields(file).items()}
    assert list(found) == ["a.b.M", "a.b.M.MyMapEntry", "a.b.M.InOne", "a.b.M.G", "a.b.M.N"]
    assert found["a.b.M"] == [
        (1, "one", 2, 5, ""), (2, "two", 3, "named", ".a.b.M.N"), (3, "my_map", 3, "named", ".a.b.M.MyMapEntry"),
        (4, "s", 1, 9, ""), (10, "n", 1, "named", ".a.b.M.N"), (11, "e", 1, "named", ".a.b.M.E"),
        (12, "rec", 1, "named", ".a.b.M"), (13, "whole", 1, "named", ".a.b.M"), (14, "InOne", 1, 10, ".a.b.M.InOne"),
        (15, "beside", 1, "named", ".a.b.Beside"), (16, "outer", 1, "named", ".Outer"), (17, "G", 1, 10, ".a.b.M.G"),
    ]  # fmt: skip
    assert found["a.b.M.N"][1] == (4, "top", 1, "named", ".a.b.Top")
    assert [one.name for one in file.message_type[0].oneof_decl] == ["choice"]


BAD = [
    ("hello", "line 1: 'hello' stands where a declaration is expected"),
    ("message", "line 1: 'the end' stands where more is expected"),
    ("message {}", "'{' stands where a name is expected"),
    ("message A {", "'the end' stands where more is expected"),
    ("message A {\n int32 a = 0; }", "line 2: '0' stands where the number of a field is expected"),
    ("message A { int32 a = 536870912; }", "where the number of a field"),
    ("message A { int32 a = x; }", "'x' stands where the number of a field"),
    ("message A { int32 a = 1 }", "'}' stands where ; is expected"),
    ("message A { int32 a = 1 [x", "'the end' stands where more"),
    ("message A { map<int32> a = 1; }", "'>' stands where , is expected"),
    ("message A { 7 a = 1; }", "'7' stands where a name"),
    ("option a = {;", "'the end' stands where more"),
    ("/* no end", "line 1: '/\\* no end' is not of Protobuf"),
    ('message A {} \n\n "no end', "line 3: '\"no end' is not of Protobuf"),
    ("message A {" * 70, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "fault"), BAD, ids=[one[0][:30] for one in BAD])
def test_a_fault_is_named_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        descriptor_of(text)


def test_text_that_would_take_the_square_of_its_length_takes_one_pass() -> None:
    for text in ("/*" * 1_000_000, "message A {} /*" + "*" * 1_000_000, '"' + '\\"' * 500_000):
        with pytest.raises(ValueError, match="is not of Protobuf"):
            descriptor_of(text)


def test_sources_are_compared_with_each_other_and_with_descriptors() -> None:
    from base64 import b64encode

    one = 'syntax = "proto3"; package p; message A { string a = 1; B b = 2; } message B {}'
    more = one.replace("B b = 2;", "B b = 2; int32 c = 3;")
    other = one.replace("string a", "int32 a")
    assert protobuf.faults(more, one) == protobuf.faults(one, more) == []
    assert protobuf.faults(other, one) == ["field p.A.a: it is int32, and was string"]
    compiled = b64encode(descriptor_of(one).SerializeToString()).decode()
    assert protobuf.faults(more, compiled) == protobuf.faults(compiled, more) == []
