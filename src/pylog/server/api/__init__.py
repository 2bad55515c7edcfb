"""The API keys that a server answers. A key with behaviour of its own has a file, which says what versions differ in.

    call           requests and the kinds of their outcome
    plain          the keys that go to the node as they are (`messages/requests`)
    replicas       keys that would change roles, which are given by hand
    security_off, telemetry, update_features
                   keys of what is not there
    table          all keys, by number, with the versions that are served

An answer is a response (a message, or a dict), a `Reply` (the future of a node's answer, and how it becomes one) or
`Later` (a call for the pool, as it may wait).
"""
