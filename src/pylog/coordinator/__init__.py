"""The coordinators of Kafka as pure machines: a message or an event and the time go in, effects come out.

They have no thread, no lock, no file and no clock, so that a simulation plays them. `broker.coordinator_host` carries
the effects out. A coordinator's state is what the replay of its log gives.

    effects         what a machine asks of its host: append these records, answer this ticket, wake me then
    group/          members of groups, by the classic and the consumer protocol, and committed offsets
    transaction/    transactional ids, their epochs, and the transactions they have open
    patterns        regular expressions of clients
"""
