"""A registry behind HTTP: the requests that Confluent's own client makes, answers kept, errors typed."""

import warnings
from collections.abc import Iterator

import pytest

import pylog
from pylog import serde
from pylog.errors import IncompatibleSchema, SchemaNotFound, SchemaRegistryError
from support.schema_server import served

TEXT = serde.Schema('"string"')
USING = serde.Schema('{"$ref": "a.json"}', "JSON", (serde.Reference("a.json", "a/b", 1),))


@pytest.fixture
def behind() -> Iterator[serde.LogRegistry]:
    with pylog.open(":memory:") as log:
        yield serde.LogRegistry(log)


def test_schemas_are_registered_and_found(behind: serde.LogRegistry) -> None:
    with served(behind) as url:
        registry = serde.HttpRegistry(f"{url}/")
        assert registry.register("a/b", TEXT) == 1 and registry.register("c", USING) == 2
        assert registry.by_id(1) == TEXT and registry.by_id(2) == USING
        assert registry.version("a/b") == serde.RegisteredSchema(1, "a/b", 1, TEXT) == registry.version("a/b", 1)
        assert repr(registry) == f"<HttpRegistry at {url}>"
        with pytest.raises(SchemaNotFound, match=r"/subjects/x/versions/7: 404 .*no schema of subject x"):
            registry.version("x", 7)
    assert registry.register("c", USING) == 2 and registry.by_id(2) == USING, "what was found is kept"
    with pytest.raises(SchemaRegistryError, match="/schemas/ids/3: "):
        registry.by_id(3)


def test_a_level_is_set_and_an_incompatible_schema_refused(behind: serde.LogRegistry) -> None:
    with served(behind) as url:
        registry = serde.HttpRegistry(url)
        registry.register("a/b", TEXT)
        with pytest.raises(IncompatibleSchema, match=r"/subjects/a%2Fb/versions: 409 .*string cannot be read as int"):
            registry.register("a/b", serde.Schema('"int"'))
        registry.set_compatibility("FULL")
        registry.set_compatibility("NONE", "a/b")
        with pytest.raises(ValueError, match="'SOME' is no level"):
            registry.set_compatibility("SOME")  # type: ignore[arg-type]
        assert (registry.compatibility(), registry.compatibility("a/b")) == ("FULL", "NONE")
        assert registry.register("a/b", serde.Schema('"int"')) == 2


def test_a_login_is_sent_and_its_refusal_told(behind: serde.LogRegistry) -> None:
    with served(behind, "Basic YWRhOnNlY3JldA==") as url:
        assert serde.HttpRegistry(url, username="ada", password="secret").register("a", TEXT) == 1
        for registry in (serde.HttpRegistry(url), serde.HttpRegistry(url, username="ada")):
            with pytest.raises(SchemaRegistryError, match="401"):
                registry.by_id(1)


def test_confluents_client_finds_what_this_one_registered_and_the_other_way_round(behind: serde.LogRegistry) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    with served(behind) as url, SchemaRegistryClient({"url": url}) as theirs:
        ours = serde.HttpRegistry(url)
        ours.register("a/b", TEXT)
        ours.register("c", USING)
        found = theirs.get_latest_version("c")
        assert (found.schema_id, found.version, found.schema.schema_type) == (2, 1, "JSON")
        assert found.schema.schema_str == USING.text and found.schema.references[0].subject == "a/b"
        assert theirs.get_schema(1).schema_type == "AVRO"
        assert theirs.register_schema("d", Schema('"long"', "AVRO")) == 3
        theirs.set_compatibility("d", "FORWARD")
        assert ours.compatibility("d") == theirs.get_compatibility("d") == "FORWARD"
        assert ours.by_id(3) == serde.Schema('"long"') and behind.version("d").id == 3
