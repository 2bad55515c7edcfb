"""A client that waits for servers as ever until a test has taken them away."""

from pylog.client.network.transport import NetworkTransport

REQUEST_TIMEOUT_MS = 50


def give_up_early(transport: NetworkTransport) -> None:
    """Give up later requests after 50 ms. Those before may take their time, as on a busy machine."""
    # All parts of a client share the config, which nothing else may change.
    object.__setattr__(transport._config, "request_timeout_ms", REQUEST_TIMEOUT_MS)
