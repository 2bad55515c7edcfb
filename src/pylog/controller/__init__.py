"""The controller of a cluster as a pure machine: a request and the image of the metadata log go in, records come out.

It has no thread, no lock, no file and no clock. Ids, directories, and facts of the files come in with a request. The
records count once they are committed (`ReplicaManager.commit`), and the next decision is made from the image after
them. A refused request gives no records: its error is raised, or is a value in the answer.

    controller      Controller: all of these over one image
    roles           Lead and Follow, the requests by which roles are given by hand
    topics          topics made, grown and deleted, and the log directories of their partitions
    partitions      leaders, leader epochs, replicas and ISRs
    slots           epochs and producer ids that no two nodes take, where each is its own controller
    configs         configs set on topics, the node, all nodes and groups
    users           the credentials of users
    acls            ACLs made and deleted
    quotas          quotas of clients
    nodes           the followers that are known, by their log directories
    producer_ids    blocks of producer ids

(Kafka: QuorumController, and its control managers.)
"""
