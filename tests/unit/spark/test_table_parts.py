"""How changes meet the rows of a part, without Spark's processes: against a dict that applies them one by one."""

import random

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pyarrow as pa

from pylog.spark.pipelines.changes import DELETED
from pylog.spark.pipelines.parts import merged

SCHEMA = pa.schema([
    ("_key", pa.string()), ("name", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()),
    ("_timestamp", pa.timestamp("us", "UTC")),
])  # fmt: skip
CHANGES = pa.schema([*SCHEMA, (DELETED, pa.bool_())])


@pytest.mark.parametrize("seed", range(20))
def test_merged_rows_are_those_of_a_dict(seed: int) -> None:
    chance = random.Random(seed)
    table, rows = SCHEMA.empty_table(), dict[str, dict[str, object]]()
    for offset in range(6):
        keys = chance.sample(range(12), chance.randrange(12))
        some = [
            {"_key": f"k{key}", "name": f"n{offset}", "_partition": chance.randrange(2), "_offset": offset,
             "_timestamp": chance.randrange(5), DELETED: chance.random() < 0.3}
            for key in keys
        ]  # fmt: skip
        for change in some:
            before = rows.get(str(change["_key"]), change)
            is_same = before["_partition"] == change["_partition"]
            if is_same or change["_timestamp"] >= before["_timestamp"]:  # type: ignore[operator]
                rows.pop(str(change["_key"]), None)
                if not change[DELETED]:
                    rows[str(change["_key"])] = {name: change[name] for name in SCHEMA.names}
        columns = {name: [change[name] for change in some] for name in CHANGES.names}
        table = merged(table, pa.table(columns, CHANGES))
        found = table.set_column(4, "_timestamp", table["_timestamp"].cast(pa.int64())).to_pylist()
        assert found == [rows[key] for key in sorted(rows)]


def test_a_change_that_is_applied_already_changes_nothing() -> None:
    change = {"_key": ["a"], "name": ["b"], "_partition": [0], "_offset": [5], "_timestamp": [1], DELETED: [False]}
    table = merged(SCHEMA.empty_table(), pa.table(change, CHANGES))
    older = {**change, "_offset": [4], DELETED: [True]}
    assert merged(table, pa.table(older, CHANGES)) == merged(table, pa.table(change, CHANGES)) == table
