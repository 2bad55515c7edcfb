"""The configs of the connections to a cluster: `pylog.connect` and the `--command-config` of the command.

Names are Kafka's where Kafka has one. Certificates are files in PEM, and users have a name and a password, under the
names of librdkafka: Kafka's own for these are about Java (`ssl.truststore.location`, a JAAS text).
(Kafka: CommonClientConfigs, SslConfigs, SaslConfigs.)
"""

from dataclasses import dataclass

from pylog.config.options import Config, Secret, Switch, Words, integer, long, option
from pylog.config.protocol_map import SASL_MECHANISMS, SecurityProtocol
from pylog.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig(Config):
    """The configs of connections (Kafka: CommonClientConfigs)."""

    allow_auto_create_topics: bool = option(False, Switch())
    """The config of this name for all producers and consumers: what they send to or subscribe to is made if it is
    missing. The server has to allow it. By default a missing topic is an error, as in process. (Kafka: true; producers
    always ask for it.)
    """
    client_id: str = option("", Words())
    """A name for clients that have none of their own, sent along with each request."""
    connections_max_idle_ms: int = option(540_000, long(0))
    """How long a connection without requests is kept."""
    enable_ssl_certificate_verification: bool = option(True, Switch())
    """Whether the certificate of a node is checked at all. From librdkafka."""
    receive_message_max_bytes: int = option(100 << 20, integer(1000))
    """The largest answer that is taken; it has to be above `fetch_max_bytes` of consumers. From librdkafka."""
    reconnect_backoff_max_ms: int = option(1000, long(0))
    """The longest rest of an address that cannot be reached."""
    reconnect_backoff_ms: int = option(50, long(0))
    """The first rest of an address that cannot be reached; each further one is twice as long."""
    request_timeout_ms: int = option(30_000, integer(1))
    """How long a node may take for an answer, beyond what the request itself lets it wait."""
    retry_backoff_max_ms: int = option(1000, long(0))
    """The longest wait before a coordinator is asked again."""
    retry_backoff_ms: int = option(100, long(0))
    """The first wait before a coordinator that has moved, or begins, is asked again."""
    sasl_mechanism: str = option("", Words("", *SASL_MECHANISMS))
    """How to log in."""
    sasl_password: str | None = option(None, Secret())
    """The password of the user. From librdkafka; Kafka has it in `sasl.jaas.config`."""
    sasl_username: str | None = option(None, Words(optional=True))
    """The name of the user."""
    security_protocol: str = option("PLAINTEXT", Words(*(one.value for one in SecurityProtocol)))
    """Whether there is TLS ("SSL"), a login ("SASL_..."), or both."""
    socket_connection_setup_timeout_ms: int = option(10_000, long(1))
    """How long it may take to connect, with TLS and the login."""
    ssl_ca_location: str | None = option(None, Words(optional=True))
    """A PEM file of the authorities that are trusted; None: those of the system."""
    ssl_certificate_location: str | None = option(None, Words(optional=True))
    """A PEM file with the certificate of the client, and those that it stands on."""
    ssl_endpoint_identification_algorithm: str = option("https", Words("https", "none", ""))
    """Whether the certificate has to be for the host that was connected to; "" and "none": not."""
    ssl_key_location: str | None = option(None, Words(optional=True))
    """A PEM file with the key of the client."""
    ssl_key_password: str | None = option(None, Secret())
    """The password of that file."""

    def __repr__(self) -> str:
        return f"ConnectionConfig(security_protocol={self.security_protocol!r}, sasl_username={self.sasl_username!r})"

    @property
    def uses_tls(self) -> bool:
        """Whether there is TLS."""
        return SecurityProtocol(self.security_protocol).has_tls

    @property
    def uses_sasl(self) -> bool:
        """Whether there is a login."""
        return SecurityProtocol(self.security_protocol).has_sasl

    def _check_together(self) -> None:
        if self.uses_sasl and not (self.sasl_mechanism and self.sasl_username and self.sasl_password):
            raise InvalidConfig(
                f"security.protocol={self.security_protocol} needs sasl.mechanism, sasl.username and sasl.password"
            )
        if not self.uses_sasl and (self.sasl_mechanism or self.sasl_username):
            raise InvalidConfig(
                f"sasl.mechanism and sasl.username mean nothing with security.protocol={self.security_protocol}: give "
                "SASL_SSL or SASL_PLAINTEXT"
            )
        if not self.uses_tls and (self.ssl_ca_location or self.ssl_certificate_location):
            raise InvalidConfig(
                f"ssl.ca.location and ssl.certificate.location mean nothing with "
                f"security.protocol={self.security_protocol}: give SSL or SASL_SSL"
            )
        if (self.ssl_certificate_location is None) != (self.ssl_key_location is None):
            raise InvalidConfig("ssl.certificate.location and ssl.key.location are given together, or not at all")

    @classmethod
    def _elsewhere(cls) -> str:
        return "client.dns.lookup metadata. metric. receive.buffer.bytes sasl. security. send.buffer.bytes socket. ssl."
