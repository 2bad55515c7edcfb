"""How long tests wait."""

from pylog.client.network.transport import NetworkTransport

HANG_SECONDS = 240
"""A guard against what hangs. No test measures by it: the slowest machine is done long before."""

REQUEST_TIMEOUT_MS = 50


def give_up_early(transport: NetworkTransport) -> None:
    """Give up later requests after 50 ms, for a client whose servers a test has taken away. Those before may take their
    time, as on a busy machine.
    """
    # All parts of a client share the config, which nothing else may change.
    object.__setattr__(transport._config, "request_timeout_ms", REQUEST_TIMEOUT_MS)
