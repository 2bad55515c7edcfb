"""Serializers and deserializers: keys and values that are more than bytes.

    orders = serde.json(Order)
    log.producer(key_serializer=serde.string().serialize, value_serializer=orders.serialize)
    log.consumer("orders", value_deserializer=orders.deserialize)

    serde          `Serde`, the pair
    plain          string, integer, long, json: nothing else is needed to read them
    wire           Confluent's format: a byte, the id of a schema, the payload
    avro, protobuf, json_schema         in that format; what stands on a library of an extra
    registry       which schema has which id: `SchemaRegistry`, and one behind HTTP
    compatibility  whether a new version of a schema may stand beside those before it
    log_registry   the same in a topic of the log, as Confluent's registry keeps it
    registry_records, registry_state        its records, and what they make
    registry_changes, schema_store          which of them a change appends, and the topic
    schema_forms, avro_schema      whether a schema is one, and when two are the same
    schema_decoder plain values of any schema, for those who look at records of all topics
    messages       messages of Protobuf as plain values
    arrow_types    the Arrow types of what serdes read
    dead_letters   records that cannot be read, put aside

(Kafka: Serdes.)
"""

from pylog.serde.avro import avro
from pylog.serde.dead_letters import DeadLetters
from pylog.serde.json_schema import json_schema
from pylog.serde.log_registry import LogRegistry
from pylog.serde.plain import integer, json, long, string
from pylog.serde.protobuf import protobuf
from pylog.serde.registry import HttpRegistry, Reference, RegisteredSchema, Schema, SchemaRegistry
from pylog.serde.serde import Serde

__all__ = [
    "DeadLetters",
    "HttpRegistry",
    "LogRegistry",
    "Reference",
    "RegisteredSchema",
    "Schema",
    "SchemaRegistry",
    "Serde",
    "avro",
    "integer",
    "json",
    "json_schema",
    "long",
    "protobuf",
    "string",
]
