"""Kafka's protocol between bytes and `protocol/messages`, without I/O.

    framing        bytes that come in, cut into frames
    headers        the headers of requests and responses
    mapping        topics and partitions in a body
    records        Fetch
    versions       from which on a request has another meaning

A body is a dict with Kafka's field names (`protocol/schema`). A message is a value that knows no version. A field that
a version lacks is not in its body: the encoder refuses it.
"""
