"""The page of the node: where the log lies, and the configs that its node goes by."""

from starlette.requests import Request
from starlette.responses import Response

from pylog.errors import PylogError
from pylog.ui.pages import page, seen

__all__ = ["node"]


def node(request: Request) -> Response:
    """The log directories and what lies in them, and the node's configs, where they are known."""
    admin = seen(request).log.admin
    directories = [
        (one.path, one.error, len(one.partitions), sum(one.partitions.values())) for one in admin.describe_log_dirs()
    ]
    try:
        configs, why = admin.describe_node_config(), ""
    except PylogError as error:
        # A log that is only read does not know what its owner goes by.
        configs, why = {}, str(error)
    return page(request, "node.html", directories=directories, configs=configs, why=why)
