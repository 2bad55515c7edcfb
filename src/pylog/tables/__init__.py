"""Records as tables: for Arrow, pandas, Polars, DuckDB, Parquet and notebooks.

    tabular      `Tabular`: what topics, partitions and selections can be turned into
    topic_table  `TopicTable`, `PartitionTable`: topics and partitions as tables, wherever they lie
    selection    `Selection`: records of some partitions, by offset or time, and some of their columns
    schema       the columns that there are, and their Arrow types
    record_batches   batches of the log as Arrow record batches
    parquet      the export to a file, with its progress
    record_file  records that were decoded already as a Parquet file
    json_lines   records as lines of JSON
    csv_lines    records as lines of CSV
    decoded      the arguments of `select` that decode keys and values
    decoder      keys and values decoded into Arrow columns
    appended     the arguments and the result of `append_table`
    appending    rows of a table to record batches
    json_text    columns as JSON text

pyarrow does the work, and is loaded when it is first needed: it is an extra.
"""

from pylog.tables.appended import AppendedTable, ColumnSerde, RecordSource, TableInput
from pylog.tables.schema import COLUMNS
from pylog.tables.selection import Moment, Selection, TablePart
from pylog.tables.tabular import Tabular

__all__ = [
    "COLUMNS",
    "AppendedTable",
    "ColumnSerde",
    "Moment",
    "RecordSource",
    "Selection",
    "TableInput",
    "TablePart",
    "Tabular",
]
