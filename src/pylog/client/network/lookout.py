"""The next moment to look at the links of a network: for calls that wait too long, and connections of no more use.

One appointment serves all links. It is kept where another one is due later, so most calls change nothing.
"""

from collections.abc import Callable

from pylog.client.network.link import Link
from pylog.client.network.links import Links
from pylog.runtime.agenda import Agenda, Appointment

__all__ = ["Lookout"]


class Lookout:
    """Calls `look` in time. For the thread of the network."""

    def __init__(self, agenda: Agenda, links: Links, look: Callable[[], None]) -> None:
        self._agenda = agenda
        self._links = links
        self._look = look
        self._due_ms: int | None = None
        self._next: Appointment | None = None

    def watch(self, link: Link) -> None:
        """Something has happened to a link: look at it in time."""
        due, deadline = self._due_ms, link.next_deadline_ms
        is_kept = (
            due is not None and (deadline is None or due <= deadline) and due <= link.used_ms + self._links.idle_ms
        )
        if not (is_kept and link.is_ready):
            self._by(self._links.due_ms(link))

    def _by(self, due_ms: int | None) -> None:
        if due_ms is None or (self._due_ms is not None and self._due_ms <= due_ms):
            return
        if self._next is not None:
            self._agenda.cancel(self._next)
        self._due_ms, self._next = due_ms, self._agenda.at(due_ms, self._now)

    def _now(self) -> None:
        self._due_ms = self._next = None
        self._look()
        self._by(self._links.next_ms())
