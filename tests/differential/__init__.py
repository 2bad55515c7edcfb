"""The same requests to pylog and to a real Kafka, their answers compared field by field: `make differential`.

symbols       what each server numbers for itself: ids of topics, producers, members, sessions
vocabulary    what the fields of requests may hold
requests      one request drawn from its schema; the requests that a round begins with
server        one server: a request with its symbols resolved, the answer with symbols for numbers
known         differences that are meant, each with its reason; docs/compatibility.md repeats them
campaign      the rounds, the comparison, what is printed
"""
