"""The keys whose requests are messages as they come, by name."""

from pylog.protocol.wire import groups, transactions
from pylog.protocol.wire.mapping import Mapping

MAPPINGS: dict[str, Mapping] = {mapping.name: mapping for room in (groups, transactions) for mapping in room.MAPPINGS}
