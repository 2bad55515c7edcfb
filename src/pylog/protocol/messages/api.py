"""`api_message`: a request, a response, or a struct in one, as Kafka's schema of the same name has it.

A class has the fields of the schema in snake_case; structs are inner classes with Kafka's names. `protocol/schema`
encodes and decodes it in each version; handlers and clients take and give it as it is. `error` stands for errorCode and
errorMessage. A field of pylog's own, which is not on the wire, has `metadata=OURS`.
`tests/unit/protocol/test_api_messages.py` holds every class to the table.
"""

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast, dataclass_transform, get_args

from pylog.errors import PylogError
from pylog.protocol.error_codes import untold
from pylog.protocol.messages.message import keyword_message

__all__ = ["AllNodesRequest", "ApiRequest", "ApiResponse", "Named", "NamesRequest", "api_message"]

Class = TypeVar("Class", bound=type)
R = TypeVar("R", covariant=True)
REQUEST = "Request"


@dataclass_transform(field_specifiers=(field,), kw_only_default=True)
def api_message(cls: Class) -> Class:
    """Make a slotted dataclass of a class: its fields are given by name, it is mutable, and has an equality."""
    return keyword_message(cls)


class ApiResponse:
    """A response. Nearly all have `throttle_time_ms`, and most an `error` for the request as a whole."""

    __slots__ = ()
    error: PylogError | None = None


class ApiRequest(Generic[R]):
    """A request, with the class of its response."""

    __slots__ = ()
    response: ClassVar[type[Any]]
    lowest: ClassVar[int] = 0
    """The lowest version to send: in an older one a value means something else."""

    def __init_subclass__(cls) -> None:
        # A class that names no response has no bases of its own there, and is refused by a KeyError.
        (cls.response,) = get_args(vars(cls)["__orig_bases__"][0])

    @classmethod
    def api_name(cls) -> str:
        """The name of the API key."""
        return cls.__name__.removesuffix(REQUEST)

    def said_in(self, version: int) -> Self:
        """The request in the fields of a version: an older one may have other fields for the same."""
        return self

    def refused(self, error: PylogError) -> R:
        """The response that says one error for all of the request. (Kafka: AbstractRequest.getErrorResponse)"""
        made: R = self.response(error=error)
        return made


class AllNodesRequest(ApiRequest[R]):
    """A request that each node, or each coordinator, answers for itself; the answers are joined."""

    __slots__ = ()
    parts: ClassVar[str]
    """The field of a response that has its parts."""

    def joined(self, answers: Iterable[R]) -> R:
        """The response with the parts of all; the first error alone, where there is one."""
        whole = self.empty()
        answer: Any
        for answer in answers:
            if answer.error is not None:
                return cast(R, answer)
            getattr(whole, self.parts).extend(getattr(answer, self.parts))
        return whole

    def empty(self) -> R:
        """The response without parts."""
        made: R = self.response()
        return made


class Named(NamedTuple):
    """The fields of a request about names, and of its response."""

    names: str
    """The field of the request with the names."""
    parts: str
    """The field of the response with a part for each name."""
    name: str
    """The field of a part with its name."""
    part: type[Any]
    """The class of a part."""


class NamesRequest(ApiRequest[R]):
    """A request about several groups, or transactional ids. It is split by coordinators, and the answers are joined."""

    __slots__ = ()
    fields: ClassVar[Named]

    @property
    def names(self) -> list[str]:
        """The names that it is about, in the order of its parts."""
        found: list[str] = getattr(self, self.fields.names)
        return found

    def only(self, names: list[str]) -> Self:
        """The request about these names alone."""
        whole: Any = self
        made: Self = replace(whole, **{self.fields.names: names})
        return made

    def joined(self, parts: Iterable[R]) -> R:
        """The response with a part for each name, out of the responses about some of them."""
        fields = self.fields
        found = {getattr(one, fields.name): one for part in parts for one in getattr(part, fields.parts)}
        return self._of([found.get(name) or self._failed(name, untold(repr(name))) for name in self.names])

    def refused(self, error: PylogError) -> R:
        """The response with an error for each name."""
        return self._of([self._failed(name, error) for name in self.names])

    def first_error(self, answer: Any) -> PylogError | None:
        """The first error of a name in a response."""
        return next((one.error for one in getattr(answer, self.fields.parts) if one.error is not None), None)

    def _of(self, parts: list[Any]) -> R:
        made: R = self.response(**{self.fields.parts: parts})
        return made

    def _failed(self, name: str, error: PylogError) -> Any:
        return self.fields.part(**{self.fields.name: name, "error": error})
