"""The context of TLS of a client, from its configs."""

import ssl

from pylog.config.connection import ConnectionConfig
from pylog.errors import InvalidConfig

__all__ = ["client_context"]


def client_context(config: ConnectionConfig) -> ssl.SSLContext | None:
    """The context; None where there is no TLS. Raises InvalidConfig (a file that is missing, or no PEM)."""
    if not config.uses_tls:
        return None
    where = "ssl.ca.location"
    try:
        context = ssl.create_default_context(cafile=config.ssl_ca_location)
        where = "ssl.certificate.location and ssl.key.location"
        if config.ssl_certificate_location is not None:
            context.load_cert_chain(config.ssl_certificate_location, config.ssl_key_location, config.ssl_key_password)
    except OSError as error:
        raise InvalidConfig(f"{where}: {error.strerror or error}; give files in PEM that can be read") from None
    if config.ssl_endpoint_identification_algorithm != "https" or not config.enable_ssl_certificate_verification:
        context.check_hostname = False
    if not config.enable_ssl_certificate_verification:
        context.verify_mode = ssl.CERT_NONE
    return context
