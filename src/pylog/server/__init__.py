"""A node's door for clients of Kafka's protocol: it is given a `handle(message, session)` and does not know a broker.

    server         Server: the thread, its addresses, and its end
    listeners      addresses to bind, and addresses to advertise
    binding        the sockets of listeners
    security       the options that keep a server safe
    door           a listening socket, and what its clients have to do before they are served
    tls, principals, authentication, users
                   TLS, the name in a certificate, SASL, and the users that are let in
    loop           one thread that waits for all sockets, and for the answers that other threads bring
    acceptor, admission
                   a listening socket, and how many connections are taken
    connection     one client: its frames in, its answers out, in order
    calls          requests, from a frame to the answer in the outgoing queue
    dispatch       from a frame to a call of an API key, and from its answer to bytes
    pool           a few threads for calls that may wait
    served_node    the node behind the server
    fetch_sessions the partitions that a client fetches, remembered between requests (KIP-227)
    api/           one file for each API key with behaviour of its own; `api/table` has them all

Read `server`, `loop` and `connection` for the way of the bytes, `dispatch` and `api/table` for their meaning.
"""
