"""The messages that are answered from the list of topics alone: by its owner, and by a reader in its absence."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from pylog.broker.describe import describe_log_dirs
from pylog.broker.describe_configs import describe_configs, list_config_resources
from pylog.broker.describe_quotas import describe_quotas
from pylog.broker.describe_users import describe_users
from pylog.broker.share_standing import Standings, with_standing
from pylog.config import DynamicBrokerConfig
from pylog.errors import PylogError
from pylog.files import Files
from pylog.protocol.messages.acls import DescribeAclsRequest, DescribeAclsResponse
from pylog.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
)
from pylog.protocol.messages.quotas import DescribeClientQuotasRequest
from pylog.protocol.messages.topics import DescribeLogDirsRequest
from pylog.protocol.messages.users import DescribeUserScramCredentialsRequest
from pylog.protocol.metadata_image import MetadataImage
from pylog.runtime.future import completed
from pylog.transport import Route

Routes = dict[type, Route]


def at_once(answer: Callable[[Any], object]) -> Route:
    """The route of a message that is answered without waiting, and the same to every session."""
    return lambda message, session: completed(answer(message))


def describe_acls(image: MetadataImage, asked: DescribeAclsRequest) -> DescribeAclsResponse:
    """The ACLs of an image that a filter means."""
    return DescribeAclsResponse.of(acl for _, acl in image.acls.matching(asked.filter()))


def descriptions(
    files: Files, paths: Iterable[str], failures: Mapping[str, PylogError], image: Callable[[], MetadataImage],
    configs: DynamicBrokerConfig, node_id: int, standings: Standings | None = None,
) -> Routes:  # fmt: skip
    """The routes of these messages. `image` gives the topics of now; see `describe_log_dirs` for `failures`, and
    `with_standing` for `standings`, which a reader does not know.
    """

    def described(asked: DescribeConfigsRequest) -> DescribeConfigsResponse:
        answer = describe_configs(image(), configs, node_id, asked)
        return answer if standings is None else with_standing(asked, answer, standings)

    return {
        DescribeLogDirsRequest: at_once(partial(describe_log_dirs, files, paths, failures)),
        DescribeUserScramCredentialsRequest: at_once(lambda message: describe_users(image(), message)),
        DescribeClientQuotasRequest: at_once(lambda message: describe_quotas(image(), message)),
        DescribeAclsRequest: at_once(lambda message: describe_acls(image(), message)),
        DescribeConfigsRequest: at_once(described),
        ListConfigResourcesRequest: at_once(lambda message: list_config_resources(image(), node_id, message)),
    }
