"""Kafka's configs that pylog lacks, and the ways round: the ends of the pages of the reference.

A * in a pattern stands for any letters. `tests/docs/test_site.py` compares with Kafka's own list: each config of Kafka
is one of pylog's, or stands here.
"""

from typing import NamedTuple


class Absent(NamedTuple):
    """Configs of Kafka's that pylog lacks, and the reason or the way round."""

    patterns: str
    reason: str


_OF_CLIENTS = [
    Absent("bootstrap.servers", "the first argument of `pylog.connect`; in process there is no server"),
    Absent("interceptor.classes", "wrap the call, or the loop over records"),
    Absent("config.providers", "the program reads secrets, and passes them"),
    Absent(
        "metric.reporters metrics.* enable.metrics.push", "`metrics()` and the exporters of [metrics](../metrics.md)"
    ),
    Absent(
        "client.dns.lookup metadata.recovery.*",
        "every address of a name is tried, and the first servers again where no other answers",
    ),
    Absent("receive.buffer.bytes send.buffer.bytes", "the system's own sizes"),
    Absent("socket.connection.setup.timeout.max.ms", "each attempt has `socket.connection.setup.timeout.ms`"),
    Absent("sasl.jaas.config", "`sasl.username` and `sasl.password`"),
    Absent(
        "sasl.oauthbearer.* sasl.kerberos.* sasl.login.* sasl.client.callback.handler.class",
        "there is SCRAM and PLAIN; no OAUTHBEARER and no Kerberos yet",
    ),
    Absent("ssl.keystore.*", "`ssl.certificate.location` and `ssl.key.location`, PEM files"),
    Absent("ssl.truststore.*", "`ssl.ca.location`, a PEM file"),
    Absent(
        "ssl.cipher.suites ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol "
        "ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm security.providers",
        "Python's own choice of TLS 1.2 and 1.3",
    ),
]

PRODUCER = [
    Absent("metadata.max.idle.ms", "topics stay known as long as the client"),
    Absent("partitioner.class", "`partitioner`, by librdkafka's names, or `partition=` of a `send`"),
    Absent(
        "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms",
        "records without a key stick to a partition for a batch",
    ),
    Absent("transaction.two.phase.commit.enable", "a transaction commits in one phase"),
    *_OF_CLIENTS,
]

CONSUMER = [
    Absent("share.*", "there are no share groups yet"),
    Absent("internal.*", "they are not for users"),
    *_OF_CLIENTS,
]

TOPIC = [
    Absent("remote.* local.*", "there is no tiered storage"),
    Absent("*.replication.throttled.replicas", "copies are not throttled"),
    Absent("internal.segment.bytes", "they are not for users"),
]

NODE = [
    Absent("node.id broker.id", "`node_id=` of `pylog.open`"),
    Absent("log.dir log.dirs", "the path, or the list of paths, that `pylog.open` is given"),
    Absent("listeners advertised.listeners", "`listen` and `advertise` of [`log.serve`](server.md)"),
    Absent("ssl.* principal.builder.class", "the options of a [server](server.md): PEM files"),
    Absent("sasl.*", "the users of the log, and those of a [server](server.md): SCRAM and PLAIN"),
    Absent(
        "controller.* process.roles metadata.* broker.heartbeat.interval.ms broker.rack broker.session.timeout.ms "
        "initial.broker.registration.timeout.ms inter.broker.listener.name security.inter.broker.protocol "
        "early.start.listeners auto.leader.rebalance.enable leader.imbalance.* unclean.leader.election.* "
        "controlled.shutdown.enable default.replication.factor server.max.startup.time.ms",
        "a node is a cluster of one, and a person says who leads ([hosts](../hosts.md))",
    ),
    Absent(
        "replica.* num.replica.* replication.quota.* alter.log.dirs.* cordoned.log.dirs",
        "a follower has one thread for each leader, and no quota",
    ),
    Absent(
        "group.share.*", "a coordinator works in the thread that calls, and assigns at once; the assignor is simple"
    ),
    Absent(
        "share.coordinator.*",
        "the topic of share groups' state is as durable as the log, and a coordinator needs no threads",
    ),
    Absent("group.streams.*", "there are no groups of the protocol of Kafka Streams"),
    Absent(
        "group.consumer.* group.coordinator.*",
        "a coordinator works in the thread that calls; the assignors are range and uniform",
    ),
    Absent("remote.* log.local.* follower.fetch.last.tiered.offset.enable", "there is no tiered storage"),
    Absent(
        "authorizer.class.name create.topic.policy.class.name alter.config.policy.class.name",
        "`authorizer` of `Log.serve`, or `pylog serve --acls`; there are no policies",
    ),
    Absent("client.quota.* quota.* max.connections.per.ip.overrides", "there are no quotas yet"),
    Absent("delegation.token.*", "there are no delegation tokens"),
    Absent(
        "*.reporters kafka.metrics.polling.interval.secs metrics.* telemetry.*",
        "`metrics()` and the exporters of [metrics](../metrics.md)",
    ),
    Absent("delete.topic.enable", "a topic can always be deleted"),
    Absent("config.providers", "the program reads secrets, and passes them"),
    Absent(
        "num.io.threads num.network.threads num.recovery.threads.per.data.dir background.threads queued.max.requests "
        "*.purgatory.* socket.* request.timeout.ms max.request.partition.size.limit security.providers log.cleaner.* "
        "log.dir.failure.timeout.ms log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms",
        "they set Kafka's threads, queues, buffers and sockets",
    ),
    Absent(
        "offsets.* transaction.* add.partitions.to.txn.*",
        "the topics of coordinators are as durable as the log, and have the followers of the others",
    ),
    Absent("internal.* unstable.*", "they are not for users"),
]

OTHER_DEFAULTS = {
    "Topic": {"retention.ms": "604800000"},
    "Node": {
        "group.initial.rebalance.delay.ms": "3000",
        "replica.fetch.max.bytes": "1048576",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.server.max.receive.size": "524288",
    },
    "Producer": {"batch.size": "16384"},
    "Consumer": {"allow.auto.create.topics": "true"},
    "Connection": {"sasl.mechanism": "GSSAPI"},
}
"""Kafka's defaults, where pylog's are others."""
