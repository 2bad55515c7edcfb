"""Rows of a table to record batches, column by column. It stands on pyarrow, an extra.

sources          tables, data frames and files to Arrow record batches
record_columns   the columns that records are made of, checked and as bytes
column_encoder   such columns to the batches of a topic's partitions
append           the three in turn, and the rows that are in the log where one fails
"""
