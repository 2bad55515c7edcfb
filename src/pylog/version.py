"""The version of pylog: the package has it, and each client tells it to the nodes that it talks to."""

VERSION = "0.1.0"
