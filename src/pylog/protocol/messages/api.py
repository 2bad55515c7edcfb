"""`api_message`: a request, a response, or a struct in one, as Kafka's schema of the same name has it.

A class has the fields of the schema in snake_case; structs are inner classes with Kafka's names. It is encoded and
decoded in each version as the table of schemas says (`protocol/schema`), and handlers and clients take and give it as
it is. `error` stands for errorCode and errorMessage.
`tests/unit/protocol/test_api_messages.py` holds every class to the table.
"""

from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform, get_args

from pylog.errors import PylogError
from pylog.protocol.messages.message import made_message

__all__ = ["ApiRequest", "ApiResponse", "api_message"]

Class = TypeVar("Class", bound=type)
R = TypeVar("R", covariant=True)
REQUEST = "Request"


@dataclass_transform(field_specifiers=(field,), kw_only_default=True)
def api_message(cls: Class) -> Class:
    """Make a slotted dataclass of a class: its fields are given by name, it is mutable, and has an equality."""
    return made_message(cls, kw_only=True)


class ApiResponse:
    """A response. Nearly all have `throttle_time_ms`, and most an `error` for the request as a whole."""

    __slots__ = ()
    error: PylogError | None = None


class ApiRequest(Generic[R]):
    """A request, with the class of its response."""

    __slots__ = ()
    response: ClassVar[type[Any]]

    def __init_subclass__(cls) -> None:
        (cls.response,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]

    @classmethod
    def api_name(cls) -> str:
        """The name of the API key."""
        return cls.__name__.removesuffix(REQUEST)

    def refused(self, error: PylogError) -> R:
        """The response that says one error for all of the request. (Kafka: AbstractRequest.getErrorResponse)"""
        made: R = self.response(error=error)
        return made
