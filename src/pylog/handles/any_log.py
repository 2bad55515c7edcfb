"""`AnyLog`: a log as a program has it that works with one of either kind."""

from typing import TYPE_CHECKING, TypeAlias

from pylog.handles.client_half import ClientHalf

if TYPE_CHECKING:
    from pylog.handles.connected_log import ConnectedTopic
    from pylog.handles.views import TopicView

AnyLog: TypeAlias = ClientHalf["TopicView | ConnectedTopic"]
"""A log that is open here, or one behind a network."""
