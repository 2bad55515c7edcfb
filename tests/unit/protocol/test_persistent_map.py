"""A persistent map equals a dict, is not changed by its successors, and makes one by few copies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.protocol.persistent_map import PersistentMap

KEYS = st.integers(0, 12)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers()),
        st.tuples(st.just("del"), KEYS, st.just(0)),
        st.tuples(st.just("successor"), KEYS, st.just(0)),
    ),
    max_size=60,
)


@given(st.dictionaries(KEYS, st.integers()), STEPS)
def test_each_map_of_a_row_of_successors_is_as_its_dict(
    content: dict[int, int], steps: list[tuple[str, int, int]]
) -> None:
    row = [(PersistentMap(content), dict(content))]
    for step, key, value in steps:
        map_, model = row[-1]
        if step == "successor":
            row.append((map_.successor(), dict(model)))
        elif step == "set":
            map_[key] = model[key] = value
        elif key in model:
            del map_[key], model[key]
        else:
            with pytest.raises(KeyError):
                del map_[key]
        assert (len(map_), key in map_, map_.get(key)) == (len(model), key in model, model.get(key))
    for map_, model in row:
        assert map_ == model and dict(map_.items()) == model and sorted(map_.values()) == sorted(model.values())
        assert len(map_) == len(model) and set(map_) == set(model) and eval(repr(map_)) == model
        for key in range(13):
            assert map_.get(key, -1) == model.get(key, -1) and (key in map_) is (key in model)
            if key not in model:
                with pytest.raises(KeyError):
                    map_[key]


def test_keys_stay_in_the_order_in_which_they_came() -> None:
    map_ = PersistentMap({"a": 1, "b": 2, "c": 3}).successor()
    map_["a"], map_["d"] = 4, 5
    del map_["b"]
    assert list(map_.items()) == [("a", 4), ("c", 3), ("d", 5)]
    assert list(map_) == list(map_.successor()) == ["a", "c", "d"]


def test_a_key_that_is_not_there_is_not_deleted() -> None:
    made = PersistentMap({"a": 1})
    for map_ in (made, made.successor()):
        with pytest.raises(KeyError):
            del map_["b"]
        assert dict(map_.items()) == {"a": 1}


def test_a_successor_copies_the_square_root_of_the_map() -> None:
    map_ = PersistentMap({number: number for number in range(10_000)})
    bases = {id(map_._base)}
    for number in range(1000):
        map_ = map_.successor()
        map_[10_000 + number] = number
        bases.add(id(map_._base))
        assert len(map_._changes) <= math.isqrt(len(map_)) + 2
    assert len(bases) <= 12
