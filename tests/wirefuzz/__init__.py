"""Bytes and values that a server, and its clients, have to bear: `make wire-fuzz`.

values      boundary values of each field of each message, and damaged bytes
decodes     messages are decoded here: a value or a typed error, and no more memory than the bytes justify
sockets     frames go to a server of its own: each is answered, or ends its connection and no other one
campaign    both, as often as one wants
"""
