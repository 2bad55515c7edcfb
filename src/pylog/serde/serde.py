"""`Serde`: a serializer and the deserializer that undoes it. (Kafka: Serde)"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serde(Generic[T]):
    """The serialization of the objects of a type to bytes, and back."""

    serialize: Callable[[T], bytes]
    """For `key_serializer` and `value_serializer` of a producer."""
    deserialize: Callable[[bytes], T]
    """For `key_deserializer` and `value_deserializer` of a consumer, which wraps what it raises in
    DeserializationError.
    """
