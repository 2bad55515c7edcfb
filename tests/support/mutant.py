"""A fault that is planted into pylog's code on purpose, for as long as it is tried."""

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

__all__ = ["Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """In the function `name` of `place`, `old` becomes `new`."""

    title: str
    place: Any
    name: str
    old: str
    new: str

    @contextmanager
    def plant(self) -> Iterator[None]:
        """The code with the fault in it."""
        before: FunctionType = getattr(self.place, self.name)
        source = textwrap.dedent(inspect.getsource(before))
        assert source.count(self.old) == 1, f"{self.title}: {self.old!r} is not once in {self.name}, as the code is now"
        scope: dict[str, Any] = {}
        exec(source.replace(self.old, self.new), before.__globals__, scope)
        mutant, code = scope[self.name], before.__code__
        if isinstance(mutant, FunctionType) and not hasattr(mutant, "__wrapped__"):
            # Whoever holds the function itself runs the fault, too.
            before.__code__ = mutant.__code__
        else:
            setattr(self.place, self.name, mutant)
        try:
            yield
        finally:
            before.__code__ = code
            setattr(self.place, self.name, before)
