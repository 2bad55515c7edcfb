"""Kafka clients under one interface (`values.Client`), so that a scenario is written once.

`clients.values` has what they take and give; each other file adapts one library.
"""

import importlib.util
from importlib import import_module

from support.clients.values import Client

LIBRARIES = {
    "confluent": ("confluent_kafka", "confluent", "Confluent"),
    "aiokafka": ("aiokafka", "aio", "AioKafka"),
    "kafka-python": ("kafka", "kafka_python", "KafkaPython"),
    "java": (None, "java", "Java"),
    "pylog": ("pylog", "own", "Pylog"),
}
"""By name: the package that has to be installed, the module here, and the class."""


def missing(name: str) -> str | None:
    """Why this client cannot run here, or None."""
    package, module, _ = LIBRARIES[name]
    if package is None:
        found: str | None = import_module(f"support.clients.{module}").missing()
        return found
    return None if importlib.util.find_spec(package) else f"{name} is not installed"


def connect(name: str, bootstrap_servers: str) -> Client:
    """The client called `name`, for the server at this address."""
    _, module, kind = LIBRARIES[name]
    client: Client = getattr(import_module(f"support.clients.{module}"), kind)(bootstrap_servers)
    return client
