"""The versions that a node serves, and the one that a message is sent in: the highest that both sides know.

A node that has no version in common for a message is too old, or too new: UnsupportedVersion names both ranges.
"""

from collections.abc import Mapping

from pylog.errors import UnsupportedFormat, UnsupportedVersion
from pylog.protocol.error_codes import brief
from pylog.protocol.messages import ApiRequest, ProduceRequest
from pylog.protocol.messages.transactions import EndTxnRequest
from pylog.protocol.schema import MessageSchema, Piece
from pylog.protocol.schema import message as schema
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import Question

__all__ = ["NodeVersions"]

TRANSACTION_FEATURE, TRANSACTION_VERSION = "transaction.version", 2


class NodeVersions:
    """The versions in one node's answer to ApiVersions."""

    def __init__(self, ranges: Mapping[int, tuple[int, int]], features: Mapping[str, int]) -> None:
        self._ranges = dict(ranges)
        self._features = dict(features)
        self._chosen: dict[tuple[str, tuple[int, int]], int] = {}
        self._ranges_of: dict[type, tuple[MessageSchema, int, int]] = {}
        """The schema of a class of requests, and the versions that both sides serve."""

    @classmethod
    def of(cls, body: Body) -> "NodeVersions":
        """From the body of a response to ApiVersions."""
        ranges = {one["apiKey"]: (one["minVersion"], one["maxVersion"]) for one in body["apiKeys"]}
        features = {one["name"]: one["maxVersionLevel"] for one in body.get("finalizedFeatures", ())}
        return cls(ranges, features)

    def choose(self, question: Question, message: object) -> int:
        """The version for a message. Raises UnsupportedVersion."""
        bounds = question.versions(message)
        key = question.name, bounds
        version = self._chosen.get(key)
        if version is None:
            version = self._chosen[key] = self.common(question.name, *bounds)
        return version

    def encoded(self, request: ApiRequest[object]) -> tuple[int, list[Piece]]:
        """A request in the highest version that both sides know and that can say it, as `encode_pieces` gives it.

        Raises UnsupportedVersion, ValueError (a value that does not fit).
        """
        if isinstance(request, EndTxnRequest | ProduceRequest) and request.transactional_id is not None:
            self._check_transactions()
        kind = type(request)
        known = self._ranges_of.get(kind)
        if known is None:
            table = schema(kind.__name__)
            lowest = max(request.lowest, table.versions.low)
            highest = self.common(request.api_name(), lowest, min(request.highest, table.versions.high))
            known = self._ranges_of[kind] = table, max(self._ranges[table.api_key][0], lowest), highest
        table, lowest, highest = known
        for version in range(highest, lowest - 1, -1):
            try:
                return version, table.encode_pieces(version, request.said_in(version))
            except UnsupportedFormat:
                continue
        low, high = self._ranges[table.api_key]
        raise UnsupportedVersion(
            f"the node serves {request.api_name()} in the versions {low} to {high}, which cannot say all that is asked "
            f"for: {brief(str(request))}"
        )

    def common(self, name: str, low: int, high: int) -> int:
        """The highest version of a key in a range that both sides know. Raises UnsupportedVersion."""
        known = schema(f"{name}Request")
        low, high = max(low, known.versions.low), min(high, known.versions.high)
        served = self._ranges.get(known.api_key)
        if served is None:
            raise UnsupportedVersion(f"the node does not serve {name}: versions {low} to {high} of it are needed")
        found = min(high, served[1])
        if found < max(low, served[0]):
            raise UnsupportedVersion(
                f"the node serves {name} in the versions {served[0]} to {served[1]}, and {low} to {high} are needed"
            )
        return found

    def _check_transactions(self) -> None:
        """A cluster whose feature was not raised takes the new versions of requests, and ends transactions the old
        way. A node that tells of no features at all goes by the versions alone.
        """
        level = self._features.get(TRANSACTION_FEATURE, 0)
        if self._features and level < TRANSACTION_VERSION:
            raise UnsupportedVersion(
                f"the cluster goes by {TRANSACTION_FEATURE}={level}, and transactions need {TRANSACTION_VERSION} "
                f"(KIP-890): raise it by kafka-features.sh upgrade --feature {TRANSACTION_FEATURE}=2"
            )
