"""The rights of the clients of a server.

    standard    StandardAuthorizer: the decision by ACLs

(Kafka: Authorizer, StandardAuthorizer.)
"""
