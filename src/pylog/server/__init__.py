"""A node's door for clients of Kafka's protocol: it is given a `handle(message, session)` and does not know a broker.

    server         Server: the thread, what it listens on, and its end
    listeners      addresses: what is bound, and what clients are told
    loop           one thread that waits for all sockets, and for the answers that other threads bring
    connection     one client: its frames in, its answers out, in order
    outgoing       what is on its way to a socket: buffers and regions of files
    dispatch       from a frame to a call of an API key, and from its answer to bytes
    pool           a few threads for what may wait
    served_node    what requests are answered by
    fetch_sessions what clients have asked to fetch, so that they need not say it again (KIP-227)
    api/           one file for each API key with behaviour of its own; `api/table` has them all

Read `server`, `loop` and `connection` for the way of the bytes, `dispatch` and `api/table` for their meaning.
"""
