"""`SchemaDecoder`: plain values of keys and values in Confluent's format, by the schema that each of them names.

A serde knows its type. A decoder takes any: it is for pages that show records of all topics. Its result grows with the
payload alone, whatever a schema says: fields of Protobuf that are not set are left out.

    Avro             the extra `avro`
    JSON Schema      the payload is JSON; it is not checked
    Protobuf         the extra `protobuf`; the schema is a descriptor in base64, as source text is not compiled here
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from json import loads
from typing import TYPE_CHECKING

from pylog.serde.avro import parsed_avro
from pylog.serde.protobuf import split_indexes
from pylog.serde.registry import AVRO, JSON, PROTOBUF, Reference, Schema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

__all__ = ["SchemaDecoder", "message_class"]

WELL_KNOWN = frozenset(
    f"google/protobuf/{name}.proto"
    for name in "any api descriptor duration empty field_mask source_context struct timestamp type wrappers".split()
)
"""The files that come with protobuf: a schema need not refer to them."""
FILES_MAX = 200

Find = Callable[[Reference], Schema]
"""Gives the schema that a reference names."""


class SchemaDecoder:
    """Decodes payloads. It parses each schema once."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._decoders: dict[Schema, Callable[[bytes], object]] = {}

    def decode(self, schema: Schema, payload: bytes) -> object:
        """The value of a payload, which stands behind the schema's id. Raises ValueError, ImportError (the extra is not
        installed), KeyError (a reference leads nowhere), and what the library raises for a value, or a schema, that is
        not one.
        """
        decode = self._decoders.get(schema)
        if decode is None:
            decode = self._decoders[schema] = self._made(schema)
        return decode(payload)

    def _made(self, schema: Schema) -> Callable[[bytes], object]:
        if schema.type == AVRO:
            _, read = parsed_avro(schema, self._find)
            return lambda payload: read(payload, None)
        if schema.type == JSON:
            return loads
        if schema.type == PROTOBUF:
            return _protobuf(schema, self._find)
        raise ValueError(f"a schema of type {schema.type[:40]!r} is not decoded here")


def message_class(schema: Schema, find: Find) -> "Callable[[list[int]], type[Message]]":
    """Gives the class of a message by its indexes: in the file of a schema, and in each message that it is nested in.

    Raises ValueError, ImportError, KeyError (a reference leads nowhere), TypeError (the files do not fit each other).
    """
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    file = pool.FindFileByName(_Files(pool, find).add(schema, None))

    def of(path: list[int]) -> "type[Message]":
        beside = file.message_types_by_name
        for index in path:
            found = list(beside.values())[index]
            beside = found.nested_types_by_name
        made: type[Message] = GetMessageClass(found)
        return made

    return of


def _protobuf(schema: Schema, find: Find) -> Callable[[bytes], object]:
    from google.protobuf.json_format import MessageToDict

    of = message_class(schema, find)

    def decode(payload: bytes) -> object:
        path, message = split_indexes(payload)
        return MessageToDict(of(path).FromString(message), preserving_proto_field_name=True)

    return decode


class _Files:
    """The files of one schema, each once."""

    def __init__(self, pool: "DescriptorPool", find: Find) -> None:
        self._pool = pool
        self._find = find
        self._added: set[str] = set()

    def add(self, schema: Schema, name: str | None) -> str:
        """Add a schema and all that it refers to. `name`: by which others import it. Returns its name."""
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        try:
            file = FileDescriptorProto.FromString(b64decode(schema.text, validate=True))
        except Error as error:
            raise ValueError("its schema is source text, which is not compiled here; a descriptor is read") from error
        file.name = name or file.name
        references = {one.name: one for one in schema.references}
        for used in self._new(file.dependency):
            if used in references:
                self.add(self._find(references[used]), used)
            elif used in WELL_KNOWN:
                self._add_known(used)
        self._pool.AddSerializedFile(file.SerializeToString())
        return str(file.name)

    def _add_known(self, name: str) -> None:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        for used in self._new(one.name for one in module.DESCRIPTOR.dependencies):
            self._add_known(used)
        self._pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)

    def _new(self, names: Iterable[str]) -> Iterator[str]:
        """The names that were not added yet. Raises ValueError for too many."""
        for name in names:
            if name not in self._added:
                self._added.add(name)
                if len(self._added) > FILES_MAX:
                    raise ValueError(f"it refers to more than {FILES_MAX} schemas")
                yield name
