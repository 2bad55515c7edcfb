"""The throttle time of an answer: the client of a request that has used up a quota is passed over for so long.

(Kafka: RequestHandlerHelper, KafkaApis.handleProduceRequest)
"""

from dataclasses import replace
from typing import Any, cast

from pylog.server.api.call import Framed, Made, NoResponse
from pylog.server.connection import Pending
from pylog.server.dispatch import ServedCall
from pylog.server.quotas import PRODUCE, REQUEST, ClientQuotas

PERCENT_OF_NS = 100 / 1e9


def throttled(quotas: ClientQuotas, pending: Pending, made: Made) -> tuple[Made, int]:
    """The answer to a request, with the time that its client is passed over, and that time in milliseconds.

    A Produce counts the bytes of its frame, and all but one with acks=0 the time that threads were at it. A Fetch has
    counted its records when it was answered.
    """
    told_ms, session = _told_ms(made), pending.session
    if session is None or isinstance(made, Framed):
        return made, told_ms
    throttle_ms = told_ms
    if pending.call.api.name == "Produce":
        throttle_ms = quotas.throttle_ms(PRODUCE, session, pending.frame_bytes)
    if not isinstance(made, NoResponse):
        throttle_ms = max(throttle_ms, quotas.throttle_ms(REQUEST, session, pending.spent_ns * PERCENT_OF_NS))
    return _with_throttle(pending.call, made, throttle_ms) if throttle_ms > told_ms else made, throttle_ms


def _told_ms(made: Made) -> int:
    told: int = made.get("throttleTimeMs", 0) if isinstance(made, dict) else getattr(made, "throttle_time_ms", 0)
    return told


def _with_throttle(call: ServedCall, made: Made, throttle_ms: int) -> Made:
    if isinstance(made, dict):
        has_field = call.api.response.has_field("throttleTimeMs", version=call.version)
        return {**made, "throttleTimeMs": throttle_ms} if has_field else made
    return replace(cast(Any, made), throttle_time_ms=throttle_ms) if hasattr(made, "throttle_time_ms") else made
