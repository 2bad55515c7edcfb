"""The calls that wait for their coordinator: until it is found, or until one that has moved is found again.

    look_up      FindCoordinator, once for all calls that wait for the same; asked again while the error may pass
    has_moved    a node that refuses as NotCoordinator, or as not loaded yet: the call goes out again after a while

All of it happens in the thread of the network. (Kafka: CoordinatorRequestManager, TransactionManager.)
"""

from collections.abc import Callable

from pylog.client.network.call import Call
from pylog.client.network.lookup import FIND_COORDINATOR, FindCoordinator
from pylog.client.network.routes import Place, Routes
from pylog.config.connection import ConnectionConfig
from pylog.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator, PylogError
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future
from pylog.transport import ANY_NODE, PendingAnswer

__all__ = ["CoordinatorLookups"]

MOVED = (NotCoordinator, CoordinatorNotAvailable)


class CoordinatorLookups:
    """The look-ups of one network. `route` sends a call on its way, `at` does something at a time."""

    def __init__(
        self, routes: Routes, config: ConnectionConfig, clock: Clock, route: Callable[[Call], None],
        at: Callable[[int, Callable[[], None]], None],
    ) -> None:  # fmt: skip
        self._routes = routes
        self._config = config
        self._clock = clock
        self._route = route
        self._at = at
        self._waiting: dict[Place, list[Call]] = {}

    def look_up(self, place: Place, call: Call) -> None:
        """Send a call when its coordinator is found."""
        waiting = self._waiting.get(place)
        if waiting is not None:
            waiting.append(call)
        else:
            self._waiting[place] = [call]
            self._ask(place, call)

    def _ask(self, place: Place, first: Call) -> None:
        answer: PendingAnswer = Future()
        deadline = self._clock.tick_ms() + self._config.request_timeout_ms
        answer.add_done_callback(lambda done: self._answered(place, done))
        self._route(Call(ANY_NODE, FindCoordinator(*place), FIND_COORDINATOR, first.session, answer, deadline))

    def _answered(self, place: Place, answer: PendingAnswer) -> None:
        waiting = self._waiting.pop(place, [])
        error = answer.exception()
        if error is None:
            found = answer.result()
            self._routes.learn_one(found)
            self._routes.coordinates(place, found["nodeId"])
            for call in waiting:
                self._route(call)
            return
        now = self._clock.tick_ms()
        may_pass = isinstance(error, PylogError) and error.retriable
        left = [call for call in waiting if may_pass and call.deadline_ms > now + self._config.reconnect_backoff_max_ms]
        if left:
            self._waiting[place] = left
            self._at(now + self.backoff_ms(left[0]), lambda: self._ask(place, left[0]))
        for call in waiting:
            if call not in left:
                call.fail(error)

    def has_moved(self, call: Call, answer: object) -> bool:
        """Send a call again if its answer says that the coordinator has moved; gives whether it was sent."""
        if call.place is None:
            return False
        error = call.message.first_error(answer)
        if not isinstance(error, (*MOVED, CoordinatorLoadInProgress)):
            return False
        if isinstance(error, MOVED):
            self._routes.forget_coordinator(call.place)
        due = self._clock.tick_ms() + self.backoff_ms(call)
        if due >= call.deadline_ms:
            return False
        self._at(due, lambda: self._route(call))
        return True

    def backoff_ms(self, call: Call) -> int:
        """The time that a call waits before it goes out once more."""
        call.attempts += 1
        first, most = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        return min(first << min(call.attempts - 1, 30), max(first, most))

    def take_all(self) -> list[Call]:
        """Take all calls that wait for a coordinator: they are looked up no more."""
        left = [call for calls in self._waiting.values() for call in calls]
        self._waiting.clear()
        return left
