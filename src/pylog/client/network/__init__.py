"""A cluster that is reached by sockets: what `pylog.connect` gives its clients as a transport.

    address      where a node listens, as text
    call         a request on its way, and which connection it takes
    versions     what a node serves, and the version that a message is sent in
    dialogue     one connection without I/O: calls become bytes, bytes become answers
    lookup       FindCoordinator
    routes       which node a call goes to, and where that listens
    coordinators the calls that wait for theirs
    merging      batches of several partitions in one request
    prepared     a Produce that is like one before it
    selector     which sockets are ready
    link         one connection: a socket with a dialogue on it
    links        all connections, by node, client and lane
    dispatch     which link a call goes to, and what becomes of it when that is lost
    turn         whose turn it is: the network's thread's, or a caller's
    network      the one thread that waits for all links, and gives the answers
    transport    messages that take several requests
    tls          the context of TLS, from the configs

Read `transport`, then `network` and `dispatch`, then `link` and `dialogue`. (Kafka: NetworkClient,
ClusterConnectionStates, Metadata.)
"""
