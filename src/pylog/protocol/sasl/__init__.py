"""SASL without I/O: how a client proves its name, and how a server checks that. (RFC 4422, KIP-12, KIP-84)

    credentials    what a server keeps of a password
    hashing        how that is made
    decoys         that of a user that does not exist
    plain          PLAIN: the password itself, in one message
    scram          SCRAM-SHA-256 and SCRAM-SHA-512: a proof of it, in two messages of each side
    exchange       the two sides by the name of a mechanism

Read `exchange` first. A caller carries the tokens, in SaslAuthenticate or as bare frames; errors are
SaslAuthentication, and end the exchange. The catalogue imports `credentials` alone: `hashing` and all that stand on it
load OpenSSL, at their first use.
"""
