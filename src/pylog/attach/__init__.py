"""Several processes on one log directory: one owns it, the others are attached to it.

    owner       holds the lock, listens on a Unix socket, and says in `.lock` where
    attached    sends what changes something to the owner, and reads the files itself; its connection to the owner ends
                with the owner: then it takes over, or attaches to the one that has

    settings     what a caller asks for, and whether the owner goes by it
    notice       the facts that an owner publishes
    places       where its socket lies
    doorway      the owner's socket; the server behind it is made when the first process connects
    peers        the processes that are attached, watched until they end
    owned        a node with its door
    attachment   the log, as an attached process has it: a transport, and a node for its views
    succession   the thread that waits for the end of the owner
    opening      the way to one of the two

Read `opening` first. A process that is stopped is alive: its lock is never taken from it.
"""
