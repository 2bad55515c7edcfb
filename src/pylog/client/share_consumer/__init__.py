"""A share consumer: records of topics, shared one by one with the other consumers of a share group (KIP-932).

share_consumer     the public face
client             the part that outlives a handle: a poll, round after round
membership         a member of a share group, as a machine
member             what carries the machine out
fetcher            the share sessions with the leaders: what is asked, and what their answers mean
session            one share session, as a machine
acknowledgements   what was given to the program, and what becomes of it
acquired           the acquired records in an answer
"""
