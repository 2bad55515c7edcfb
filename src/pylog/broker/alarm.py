"""The alarm that wakes the background work of a node: an append rings while the alarm is armed."""


class Alarm:
    """Whether the next append has to be noted, as something rests that an append wakes.

    What comes to rest arms it first and looks at the partitions then; an append is written first and looks at the alarm
    then. So one of the two sees the other.
    """

    __slots__ = ("is_armed",)

    def __init__(self) -> None:
        self.is_armed = True
