"""The client's direction of the mapping: a message becomes a request, and a response becomes its answer.

    question       an API key as a client asks it
    records        Fetch
    table          all of them, by the class of the message

A response comes from a socket: the schema has checked its lengths, and here a part that is missing in it is an error
of that part. Parts of an answer are in the order of the message, whatever order the response has.
"""
