"""Quotas of clients: how long the client of a request is passed over, so that its rate falls to its quota.

    image ──> bound_of(key, user, client id)     Kafka's precedence: the most special entity that has the quota
          ──> Rate of that entity                all its clients together, over the last 11 windows of a second
          ──> throttle time                      (rate - bound) / bound * the time that was measured

A client is told the time in the answer, and nothing is received from it for so long (KIP-219). A rate is measured over
10 s at least, so a client that has sent little before may send ten times its quota at once.

(Kafka: ClientQuotaManager, DefaultQuotaCallback, QuotaUtils; Rate, SampledStat.)
"""

from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock

from pylog.protocol.messages import Session
from pylog.protocol.messages.quotas import QuotaEntity
from pylog.runtime.clock import Clock, SystemClock

PRODUCE, CONSUME, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECT = "connection_creation_rate"
WINDOWS = 11
"""How many windows a rate is measured over, the present one too (`quota.window.num`)."""
WINDOW_MS = 1000
"""How long each of them is (`quota.window.size.seconds`)."""
RATES_MAX = 10_000
"""How many entities have a rate at once; the one that was used least recently is forgotten."""

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
Bound = tuple[float, QuotaEntity]


class Rate:
    """An amount per second, over the last windows."""

    def __init__(self) -> None:
        self._windows: deque[tuple[int, float]] = deque()
        """The begin of each window, and its amount."""

    def add(self, amount: float, now_ms: int) -> None:
        """Count an amount; a negative one takes it back."""
        self._forget(now_ms)
        if not self._windows or now_ms - self._windows[-1][0] >= WINDOW_MS:
            self._windows.append((now_ms, amount))
        else:
            begin, before = self._windows[-1]
            self._windows[-1] = begin, before + amount

    def measured(self, now_ms: int) -> tuple[float, float]:
        """The rate, and the seconds that it was measured over."""
        self._forget(now_ms)
        since = self._windows[0][0] if self._windows else now_ms
        elapsed_ms = now_ms - since
        # Windows that are not there yet count as empty.
        elapsed_ms += max(0, WINDOWS - 1 - elapsed_ms // WINDOW_MS) * WINDOW_MS
        return sum(amount for _, amount in self._windows) / (elapsed_ms / 1000), elapsed_ms / 1000

    def _forget(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= WINDOWS * WINDOW_MS:
            self._windows.popleft()


def entities_of(user: str, client_id: str) -> list[QuotaEntity]:
    """The entities whose quota a client goes by, the first one first that has it."""
    return [
        (("client-id", client_id), ("user", user)),
        (("client-id", None), ("user", user)),
        (("user", user),),
        (("client-id", client_id), ("user", None)),
        (("client-id", None), ("user", None)),
        (("user", None),),
        (("client-id", client_id),),
        (("client-id", None),),
    ]


def rated(entity: QuotaEntity, user: str, client_id: str) -> QuotaEntity:
    """The entity with names in the place of defaults: each user, and each client, has a rate of its own."""
    names = {"user": user, "client-id": client_id}
    return tuple((kind, names[kind]) for kind, _ in entity)


class ClientQuotas:
    """The quotas of a server's clients. Thread-safe. `quotas` gives those of the log, the same object until they
    change.
    """

    def __init__(self, quotas: Callable[[], Quotas], clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._lock = Lock()
        self._seen: Quotas = {}
        """The quotas that `_bounds` were taken of."""
        self._bounds: dict[tuple[str, str, str], Bound | None] = {}
        self._rates: dict[tuple[str, QuotaEntity], Rate] = {}

    @property
    def is_active(self) -> bool:
        """Whether there is a quota."""
        return bool(self._quotas())

    def throttle_ms(self, key: str, session: Session, amount: float, *, takes_back: bool = False) -> int:
        """Count an amount, and give how long the client is passed over. `takes_back`: if it is, the amount does not
        count.
        """
        with self._lock:
            bound = self._bound(key, session)
            throttle_ms = 0 if bound is None else self._over_ms(key, *bound, amount, takes_back=takes_back)
        return min(throttle_ms, WINDOW_MS) if key == REQUEST else throttle_ms

    def connection_ms(self, address: str) -> int:
        """Count a connection from an address, and give how long it is kept waiting before it is closed; 0: it is taken.
        (Kafka: ConnectionQuotas.recordIpConnectionMaybeThrottle)
        """
        quotas = self._quotas()
        with self._lock:
            for name in (address, None):
                limit = quotas.get((("ip", name),), {}).get(CONNECT)
                if limit is not None:
                    entity = (("ip", address),)
                    return min(self._over_ms(CONNECT, limit, entity, 1, takes_back=True), WINDOW_MS)
        return 0

    def _over_ms(self, key: str, limit: float, entity: QuotaEntity, amount: float, *, takes_back: bool) -> int:
        now_ms = self._clock.tick_ms()
        rate = self._rates.pop((key, entity), None) or Rate()
        self._rates[key, entity] = rate
        if len(self._rates) > RATES_MAX:
            del self._rates[next(iter(self._rates))]
        rate.add(amount, now_ms)
        value, seconds = rate.measured(now_ms)
        throttle_ms = round((value - limit) / limit * seconds * 1000) if value > limit else 0
        if throttle_ms and takes_back:
            rate.add(-amount, now_ms)
        return throttle_ms

    def limits(self, session: Session) -> bool:
        """Whether a client has a quota for its Produces."""
        with self._lock:
            return self._bound(PRODUCE, session) is not None or self._bound(REQUEST, session) is not None

    def bytes_at_once(self, session: Session, most: int) -> int:
        """The most bytes of records that one answer may have, of so many. (Kafka: getMaxValueInQuotaWindow)"""
        with self._lock:
            bound = self._bound(CONSUME, session)
        return most if bound is None else min(most, int(bound[0] * (WINDOWS - 1) * WINDOW_MS / 1000))

    def _bound(self, key: str, session: Session) -> Bound | None:
        quotas = self._quotas()
        if quotas is not self._seen:
            self._seen, self._bounds = quotas, {}
        user = session.principal.partition(":")[2]
        client_id = session.client_id or ""
        asked = key, user, client_id
        if asked not in self._bounds:
            if len(self._bounds) > RATES_MAX:
                self._bounds.clear()
            self._bounds[asked] = next(
                (
                    (quotas[entity][key], rated(entity, user, client_id))
                    for entity in entities_of(user, client_id)
                    if key in quotas.get(entity, ())
                ),
                None,
            )
        return self._bounds[asked]


NO_QUOTAS = ClientQuotas(dict, SystemClock())
"""Those of a node whose clients have none."""
