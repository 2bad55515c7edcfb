"""The settings that a caller of `open` asks for, and the check against those of the owner that is there.

An owner with flush="none" must not acknowledge the records of a caller that asked for "sync": what is asked for
explicitly, and differs, is refused. What is not asked for is as the owner has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pylog.attach.notice import Notice, places_of, unusual
from pylog.config import NodeConfig
from pylog.errors import SettingsDiffer
from pylog.runtime.clock import Clock

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The arguments of `open`. `given` are the configs as they were given."""

    paths: tuple[str, ...]
    """The log directories, absolute."""
    clock: Clock
    flush: str | None = None
    config: NodeConfig = field(default_factory=NodeConfig)
    given: Mapping[str, object] = field(default_factory=dict)
    node_id: int | None = None

    def as_owner(self, owner: Notice) -> "Settings":
        """Those by which a successor of an owner goes on: the owner's."""
        return replace(self, flush=owner.flush, config=NodeConfig.from_kafka(owner.config), node_id=owner.node_id)

    def check(self, owner: Notice) -> None:
        """Raise SettingsDiffer where an owner goes by other ones than were asked for."""
        differing = list(self._differing(owner))
        if differing:
            raise SettingsDiffer(
                f"this process asks for {' and '.join(f'{name}={mine}' for name, mine, _ in differing)}, but "
                f"{owner.who} goes by {' and '.join(f'{name}={theirs}' for name, _, theirs in differing)}: ask for the "
                "same, or leave it out"
            )

    def _differing(self, owner: Notice) -> "list[tuple[str, object, object]]":
        found: list[tuple[str, object, object]] = []
        if places_of(self.paths) != owner.places:
            found.append(("path", list(self.paths), list(owner.paths)))
        if self.node_id is not None and self.node_id != owner.node_id:
            found.append(("node_id", self.node_id, owner.node_id))
        if self.flush is not None and self.flush != owner.flush:
            found.append(("flush", repr(self.flush), repr(owner.flush)))
        mine, theirs = self.config.to_kafka(), {**NodeConfig().to_kafka(), **owner.config}
        asked = unusual(self.config).keys() | {name.replace("_", ".") for name in self.given} & mine.keys()
        found += [(name, mine[name], theirs[name]) for name in sorted(asked) if mine[name] != theirs[name]]
        return found
