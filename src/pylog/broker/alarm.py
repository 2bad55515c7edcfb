"""The alarm that wakes the background work of a node: an append rings while the alarm is armed."""


class Alarm:
    """A flag that is armed while background work rests: then the next append is noted, which wakes that work.

    What comes to rest arms it first and looks at the partitions then; an append is written first and looks at the alarm
    then. So one of the two sees the other.
    """

    __slots__ = ("is_armed",)

    def __init__(self) -> None:
        self.is_armed = True
