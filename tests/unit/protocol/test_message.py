"""`message` makes what `dataclass(slots=True)` makes."""

import pickle
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from pylog.protocol.messages import Fetch, FetchPart
from pylog.protocol.messages.message import keyword_message, message


@message
class Made:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.third)


@dataclass(slots=True)
class Wanted:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list)


@message
class Empty:
    pass


@pytest.mark.parametrize("arguments", [(1,), (1, "b"), (1, "b", [3])])
def test_a_message_has_the_fields_equality_and_text_of_a_dataclass(arguments: tuple[Any, ...]) -> None:
    made, wanted = Made(*arguments), Wanted(*arguments)
    assert repr(made) == repr(wanted).replace("Wanted", "Made")
    assert [(one.name, getattr(made, one.name)) for one in fields(Made)] == [
        (one.name, getattr(wanted, one.name)) for one in fields(Wanted)
    ]
    assert made == Made(*arguments) and made != Made(2) and made != wanted
    assert replace(made, first=9) == Made(9, *arguments[1:])
    assert pickle.loads(pickle.dumps(Fetch([FetchPart("t", 0, 0)]))) == Fetch([FetchPart("t", 0, 0)])


def test_a_message_is_slotted_mutable_and_has_no_hash() -> None:
    made = Made(1, third=[1])
    made.first = 2
    assert (made.first, made.size, Made.__match_args__) == (2, 1, ("first", "second", "third"))
    assert not hasattr(made, "__dict__")
    with pytest.raises(AttributeError):
        made.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_a_default_factory_makes_a_value_for_each_message() -> None:
    one, two = Made(1), Made(1)
    one.third.append(1)
    assert two.third == []


def test_a_wrong_argument_is_a_type_error_that_names_the_class() -> None:
    with pytest.raises(TypeError, match=r"Made\.__init__\(\) missing 1 required positional argument: 'first'"):
        Made()  # type: ignore[call-arg]
    assert repr(Empty()) == "Empty()" and Empty() == Empty()


def test_a_constructor_by_names_is_compiled_when_it_is_called_first() -> None:
    @keyword_message
    class Named:
        first: int = 1
        second: str

    before = Named.__init__
    for _ in range(2):
        with pytest.raises(
            TypeError, match=r"Named\.__init__\(\) .*missing 1 required keyword-only argument: 'second'"
        ):
            Named()
        with pytest.raises(TypeError, match=r"Named\.__init__\(\) takes 1 positional argument"):
            Named(1, "b")
    assert Named.__init__ is not before
    assert Named(second="b") == Named(first=1, second="b")
