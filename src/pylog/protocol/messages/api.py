"""`api_message`: a request, a response, or a struct in one, as Kafka's schema of the same name has it.

A class has the fields of the schema in snake_case; structs are inner classes with Kafka's names. `protocol/schema`
encodes and decodes it in each version; handlers and clients take and give it as it is. `error` stands for errorCode and
errorMessage. A field of pylog's own, which is not on the wire, has `metadata=OURS`.
`tests/unit/protocol/test_api_messages.py` holds every class to the table.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast, dataclass_transform, get_args

from pylog.errors import PylogError
from pylog.protocol.error_codes import untold
from pylog.protocol.messages.message import keyword_message
from pylog.record import TopicPartition

__all__ = [
    "AllNodesRequest", "ApiRequest", "ApiResponse", "ByTopic", "Named", "NamesRequest", "Partitioned",
    "PartitionsRequest", "TopicResult", "api_message",
]  # fmt: skip

Class = TypeVar("Class", bound=type)
R = TypeVar("R", covariant=True)
P = TypeVar("P", bound="PartResult")
REQUEST = "Request"
_key: Callable[[tuple[str, int]], TopicPartition] = partial(tuple.__new__, TopicPartition)
"""A TopicPartition without the call of Python that its constructor is."""


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
    response: ClassVar[type]
    lowest: ClassVar[int] = 0
    """The lowest version to send: in an older one a value means something else."""
    highest: ClassVar[int] = 0x7FFF
    """The highest version to send: in a newer one topics are named by ids, which a client need not have."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A class that names no response has no bases of its own there, and is refused by a KeyError.
        cls.response = get_args(vars(cls)["__orig_bases__"][0])[0]

    @classmethod
    def api_name(cls) -> str:
        """The name of the API key."""
        return cls.__name__.removesuffix(REQUEST)

    def said_in(self, version: int) -> Self:
        """The request in the fields of a version: an older one may have other fields for the same."""
        return self

    def heard_in(self, version: int, answer: Any) -> R:
        """The response of a version, in the fields of the newest."""
        heard: R = answer
        return heard

    def refused(self, error: PylogError) -> R:
        """The response that says one error for all of the request. (Kafka: AbstractRequest.getErrorResponse)"""
        made: R = self.response(error=error)
        return made

    def first_error(self, answer: ApiResponse) -> PylogError | None:
        """The first error in a response, of all of it or of a part."""
        error: PylogError | None = answer.error
        return error


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
    part: type
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

    def first_error(self, answer: ApiResponse) -> PylogError | None:
        return next((one.error for one in getattr(answer, self.fields.parts) if one.error is not None), None)

    def _of(self, parts: list[object]) -> R:
        made: R = self.response(**{self.fields.parts: parts})
        return made

    def _failed(self, name: str, error: PylogError) -> object:
        return self.fields.part(**{self.fields.name: name, "error": error})


class PartResult(Protocol):
    """The part of a response about one partition."""

    error: PylogError | None


class TopicResult(Protocol):
    """The part of a response about one topic."""

    name: str
    error: PylogError | None


class ByTopic(NamedTuple):
    """The fields of a request about partitions, or of a struct in one, and those of its answer."""

    name: str = "name"
    """The field of a topic with its name."""
    parts: str = "partitions"
    """The field of a topic of the request with its parts: structs, or the numbers of the partitions."""
    number: str = "partition_index"
    """The field of a part with the number of its partition."""
    answers: str = "topics"
    """The field of the answer with its topics."""
    results: str = "partitions"
    """The field of such a topic with its parts."""
    same: str = ""
    """A field that the answer has from the request."""


def _element(kind: Any) -> type[Any]:
    """The class of what is in a list, which may be None."""
    first: Any = get_args(kind)[0]
    return _element(first) if get_args(first) else first


class Partitioned(Generic[R, P]):
    """Partitions by topic, with the class of the answer about them and that of a part of it: a struct of a request, or
    all of one (`PartitionsRequest`).

    The answer has the partitions by topic, too. It has a part for each, in the order of the request.
    """

    __slots__ = ()
    fields: ClassVar[ByTopic] = ByTopic()
    topics: Any
    response: ClassVar[type]
    topic: ClassVar[type]
    topic_result: ClassVar[type]
    part_result: ClassVar[type]
    """The classes of the answer, of a topic of the request, and of a topic and of a part of the answer."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        response, part = get_args(vars(cls)["__orig_bases__"][0])
        if isinstance(part, TypeVar):  # a base of others
            return
        cls.response, cls.part_result = response, part
        cls.topic, cls.topic_result = (
            _element(one.__annotations__[name]) for one, name in ((cls, "topics"), (cls.response, cls.fields.answers))
        )

    @classmethod
    def by_topic(cls, parts: Iterable[tuple[TopicPartition, object]]) -> list[Any]:
        """The topics of a request with these parts, each given with its partition, in the order of their first."""
        name, parts_name = cls.fields.name, cls.fields.parts
        topics: dict[str, object] = {}
        for key, part in parts:
            topic = topics.get(key.topic)
            if topic is None:
                topic = topics[key.topic] = cls.topic(**{name: key.topic, parts_name: []})
            getattr(topic, parts_name).append(part)
        return list(topics.values())

    def keyed(self) -> list[tuple[TopicPartition, Any]]:
        """Each partition with its part of the request, in its order."""
        name, parts, number, *_ = self.fields
        found = []
        for topic in self.topics:
            known = getattr(topic, name)
            for one in getattr(topic, parts):
                found.append((_key((known, getattr(one, number, one))), one))  # noqa: PERF401
        return found

    def partitions(self) -> list[TopicPartition]:
        """The partitions, in the order of the request."""
        return [*map(itemgetter(0), self.keyed())]

    def answered(self, part: Callable[[TopicPartition, Any], P]) -> R:
        """The response with what `part` makes of each partition and its part of the request; an error that it raises
        is that of the partition.
        """
        fields = self.fields
        topics: dict[str, object] = {}
        for key, asked in self.keyed():
            try:
                made = part(key, asked)
            except PylogError as error:
                made = self.told(key, error.with_traceback(None))
            topic = topics.get(key.topic)
            if topic is None:
                topic = topics[key.topic] = self.topic_result(**{fields.name: key.topic, fields.results: []})
            getattr(topic, fields.results).append(made)
        same = {fields.same: getattr(self, fields.same)} if fields.same else {}
        whole: R = self.response(**{fields.answers: list(topics.values())}, **same)
        return whole

    def told(self, key: TopicPartition, error: PylogError | None = None) -> P:
        """The part of a response for a partition, with an error or with nothing but defaults."""
        made: P = self.part_result(**{self.fields.number: key.partition, "error": error})
        return made

    def results(self, errors: Mapping[TopicPartition, PylogError | None]) -> R:
        """The response with these errors of the partitions; those that are not in it have none."""
        return self.answered(lambda key, _: self.told(key, errors.get(key)))

    def refused(self, error: PylogError) -> R:
        """The response with an error for each partition."""
        return self.answered(lambda key, _: self.told(key, error))

    def found(self, answer: object) -> dict[TopicPartition, P]:
        """The part of each partition in a response, with an error where the response lacks it."""
        name, _, number, answers, results, _ = self.fields
        there, found = {}, {}
        for topic in getattr(answer, answers):
            known = getattr(topic, name)
            for one in getattr(topic, results):
                there[_key((known, getattr(one, number)))] = one
        for key in self.partitions():
            found[key] = there.get(key) or self.told(key, untold(*key))
        return found

    def first_error(self, answer: object) -> PylogError | None:
        """The first error in an answer."""
        return next((part.error for part in self.found(answer).values() if part.error is not None), None)


class PartitionsRequest(Partitioned[R, P], ApiRequest[R]):
    """A request about partitions alone."""

    __slots__ = ()

    def without(self, errors: Mapping[TopicPartition, PylogError]) -> Self:
        """The request without the partitions that have an error."""
        if not errors:
            return self
        whole: Any = self
        left = self.by_topic((key, part) for key, part in self.keyed() if key not in errors)
        made: Self = replace(whole, topics=left)
        return made

    def with_errors(self, errors: Mapping[TopicPartition, PylogError], answer: ApiResponse) -> R:
        """The response to all of it: these errors, and the answer to the request without them."""
        if answer.error is not None or not errors:
            return cast(R, answer)
        found = self.found(answer)
        return self.answered(lambda key, _: self.told(key, errors[key]) if key in errors else found[key])

    def first_error(self, answer: object) -> PylogError | None:
        whole = answer.error if isinstance(answer, ApiResponse) else None
        return whole or super().first_error(answer)
