"""One client never stalls another: `make fair`.

attack        what one client does, and what it sends
requests      every array, text and blob of every served key's schema at its largest
batches       the worst that each codec can be sent in a Produce
connections   TLS and SASL states, slow readers and writers, idle and half-open connections, floods of small requests
answers       requests whose answers are large, to a log of many partitions
server        the server under attack, in a process of its own
victim        a client that only wants to work, in a process of its own, and how long it waits
trial         one attack: the waits of the victim, and the memory of the server
campaign      all of them, or as many as one wants
"""
