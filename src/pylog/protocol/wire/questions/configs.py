"""Configs, as a client asks for them.

IncrementalAlterConfigs   for AlterConfigs, which names single configs
DescribeConfigs           types from 3 on
"""

from collections.abc import Iterable

from pylog.errors import PylogError, UnknownServer
from pylog.protocol.messages import (
    AlterConfigs,
    ConfigEntry,
    ConfigResource,
    ConfigsAltered,
    ConfigSource,
    ConfigSynonym,
    DescribeConfigs,
    DescribedConfigs,
)
from pylog.protocol.messages.configs import OPERATIONS
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import Question, error_in

__all__ = ["QUESTIONS"]


def _describe(message: DescribeConfigs, version: int) -> Body:
    return {
        "resources": [
            {"resourceType": kind, "resourceName": name, "configurationKeys": None} for kind, name in message.resources
        ],
        "includeSynonyms": message.with_synonyms,
    }


def _described(message: DescribeConfigs, body: Body, version: int) -> DescribedConfigs:
    found = _by_resource(body["results"])
    configs: list[dict[str, ConfigEntry] | PylogError] = []
    for resource in message.resources:
        result = found.get(resource)
        if result is None:
            configs.append(_untold(resource))
        else:
            configs.append(error_in(result) or {one["name"]: _entry(one) for one in result["configs"]})
    return DescribedConfigs(configs)


def _entry(body: Body) -> ConfigEntry:
    synonyms = [ConfigSynonym(one["name"], one["value"] or "", _source(one["source"])) for one in body["synonyms"]]
    return ConfigEntry(
        body["value"], _source(body["configSource"]), body["readOnly"], body.get("configType", 0), synonyms
    )


def _source(number: int) -> ConfigSource:
    """A source; one of a later Kafka is unknown."""
    return ConfigSource(number) if number in set(ConfigSource) else ConfigSource.UNKNOWN


def _alter(message: AlterConfigs, version: int) -> Body:
    return {
        "resources": [
            {
                "resourceType": one.resource.type,
                "resourceName": one.resource.name,
                "configs": [
                    {"name": change.name, "configOperation": OPERATIONS.index(change.operation), "value": change.value}
                    for change in one.changes
                ],
            }
            for one in message.resources
        ],
        "validateOnly": message.validate_only,
    }


def _altered(message: AlterConfigs, body: Body, version: int) -> ConfigsAltered:
    found = _by_resource(body["responses"])
    resources = [one.resource for one in message.resources]
    return ConfigsAltered([error_in(found[one]) if one in found else _untold(one) for one in resources])


def _by_resource(results: Iterable[Body]) -> dict[tuple[int, str], Body]:
    return {(one["resourceType"], one["resourceName"]): one for one in results}


def _untold(resource: ConfigResource) -> PylogError:
    return UnknownServer(f"the node has answered without a word of {resource.type.name.lower()} {resource.name!r}")


QUESTIONS: dict[type, Question] = {
    DescribeConfigs: Question(
        name="DescribeConfigs", body=_describe, answer=_described, versions=lambda _: (1, 1 << 15)
    ),
    AlterConfigs: Question(name="IncrementalAlterConfigs", body=_alter, answer=_altered),
}
