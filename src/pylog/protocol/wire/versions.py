"""The versions of API keys from which on a request has another meaning, each said once."""

__all__ = ["BY_ID_FROM", "SEVERAL_FROM"]

BY_ID_FROM = {"Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}
"""The version from which on topics are named by their ids."""

SEVERAL_FROM = 4
"""The version of FindCoordinator from which on a request asks for several keys."""
