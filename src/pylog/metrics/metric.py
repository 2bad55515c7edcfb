"""A metric: its name, which is Kafka's, its kind, and its tags. Each set of values of the tags has a number."""

import enum
import re
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Metric", "MetricKind", "MetricName"]


class MetricKind(enum.Enum):
    """The way in which a number changes."""

    COUNTER = "counter"
    """A number that rises, from 0 when the object that counts was made."""
    GAUGE = "gauge"
    """A number that rises and falls: how much there is now."""
    HISTOGRAM = "histogram"
    """How long calls took: a `Histogram`."""


class MetricName(NamedTuple):
    """The name of one number, as JMX has it in Kafka: `str` gives that."""

    group: str
    """The domain and the type of Kafka's MBean: "kafka.server:type=BrokerTopicMetrics"."""
    name: str
    tags: tuple[tuple[str, str], ...] = ()
    """(tag, value), in the order of the table."""

    def __str__(self) -> str:
        return ",".join([self.group, f"name={self.name}", *(f"{tag}={value}" for tag, value in self.tags)])


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of the table. Names that Kafka has have its meaning."""

    group: str
    name: str
    kind: MetricKind
    text: str
    """Its meaning, in one sentence."""
    tags: tuple[str, ...] = ()

    def named(self, tags: dict[str, str]) -> MetricName:
        """The name of the number with these tags."""
        return MetricName(self.group, self.name, tuple((tag, tags[tag]) for tag in self.tags))

    @property
    def exported_name(self) -> str:
        """The name that Prometheus' JMX exporter gives it, with the rules that Kafka's dashboards expect; that of a
        counter without `_total`.
        """
        domain, _, kind = self.group.partition(":type=")
        name = self.name.removesuffix("PerSec")
        if self.kind is MetricKind.COUNTER:
            name = name.removesuffix("-total")
        return re.sub("[^a-z0-9]+", "_", f"{domain}_{kind}_{name}".lower())

    @property
    def exported_tags(self) -> tuple[str, ...]:
        """The names of its labels: Prometheus allows no hyphen."""
        return tuple(tag.replace("-", "_") for tag in self.tags)
