"""The gate between the clients of a server and its node: what they may not do does not reach it.

    gate      Gate: the node behind its rules
    caller    Caller: one client, and what it may do by an authorizer
    needs     the kinds of rules: what a request needs as a whole, or for each of its parts
    topics    the rules of records, topics and configs
    groups    those of groups, share groups and transactions
    table     the rule of each message

A request is refused as a whole, or in parts: the node gets the rest, and the answers are joined. A topic that a client
may not describe is refused before anybody looks whether it is there. What a server answers without its node asks the
gate by `ServedNode.allows`. Without an authorizer there is no gate. (Kafka: KafkaApis, ControllerApis, AuthHelper.)
"""
