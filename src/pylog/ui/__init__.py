"""A page to look at a log: HTML that is made on the server, for `pylog ui`. Needs the extra `ui`.

    serving        the server: where it listens, and how it ends
    application    the routes, and the pages of errors
    security       who is let in: host names, the token, forms of these pages alone
    source         the log that is shown, and how it is changed
    pages          templates, and what each page has
    parameters     words of an address or a form as values
    values         bytes and times of others, as text that is safe to show
    decoding       keys and values decoded: JSON, by a schema of the log, MessagePack
    decoded_rows   records that are decoded, as rows of a file
    avro_input     JSON that a visitor types, held to an Avro schema
    filters        filters that name a field
    sorting        tables that can be sorted
    sampling       a look at the whole log every few seconds
    history        numbers of the last hour, drawn
    rates          how quickly partitions grow
    topics  topic_changes  records  reading  follow  download  producing  groups  schemas  transactions  segments
    batch_bytes  damage
                   the pages, by noun

Read `source`, `pages` and `topics` first. Each page works without script; only following a topic live takes one. All
that waits runs in a thread: the event loop's own does nothing but hand requests on. Whatever a log or a visitor says is
text: templates escape it, and the policy of the pages lets no script in it run.
"""
