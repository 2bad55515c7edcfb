"""Confluent's HTTP interface to the schemas in a topic of a log, for `StandIn(schema_registry=True)` and `pylog serve`.

    with SchemaRegistryServer(log) as registry:
        client = confluent_kafka.schema_registry.SchemaRegistryClient({"url": registry.url})

    interface    a request to the answer: the resources, by their paths
    fields       what a request may say: parameters and bodies
    server       the sockets: one thread a connection, bounded in number, bytes and time

Schemas, their ids and what may follow what are `pylog.serde`'s (`registry_changes`), so a `serde.LogRegistry` of the
same log sees the same schemas. (Confluent: Schema Registry API reference)
"""

from pylog.schema_registry.server import SchemaRegistryServer

__all__ = ["SchemaRegistryServer"]
