"""Changes of configs, users, ACLs, quotas and producer ids. Each is in the metadata log before it takes effect."""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from pylog.broker.replica_manager.roles import CommitRecords
from pylog.controller.controller import Controller
from pylog.errors import PylogError
from pylog.protocol.messages import ResourceChange
from pylog.protocol.messages.acls import CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse
from pylog.protocol.messages.quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from pylog.runtime.signals import WholeLock

AT_ONCE = 1000
"""How many resources are changed by one batch of records."""


class ClusterChanges:
    """Commits the decisions of the controller. Thread-safe; `lock` is the node's."""

    def __init__(self, controller: Controller, commit: CommitRecords, lock: WholeLock) -> None:
        self._controller = controller
        self._commit = commit
        self._lock = lock
        self.producer_ids_from = 0
        """Ids below are not given any more, although they were taken for that."""

    def alter_configs(
        self, changes: Sequence[ResourceChange], *, validate_only: bool = False
    ) -> list[PylogError | None]:
        """Change what is set on some resources, each of them once, and give the error of each. The node goes by it at
        once. (IncrementalAlterConfigs, AlterConfigs)

        Errors are InvalidRequest, InvalidConfig, InvalidTopic, UnknownTopicOrPartition, and those of the metadata log:
        nothing is changed of that resource then.
        """
        errors: list[PylogError | None] = []
        for begin in range(0, len(changes), AT_ONCE):
            with self._lock:
                errors += self._alter_configs(changes[begin : begin + AT_ONCE], validate_only)
        return errors

    def _alter_configs(self, changes: Sequence[ResourceChange], validate_only: bool) -> list[PylogError | None]:
        records, errors = self._controller.configs.alter(changes)
        if validate_only:
            return errors
        try:
            self._commit(records)
        except PylogError as failure:
            return [error or failure for error in errors]
        return errors

    def take_topic_config(self, name: str, config: Mapping[str, str]) -> None:
        """Give a topic that is followed the overrides that its leader has, whatever they are.

        Raises UnknownTopicOrPartition.
        """
        with self._lock:
            self._commit(self._controller.configs.take_topic_config(name, config))

    def alter_users(self, asked: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
        """Set and remove credentials, all of them in one step but those of users with an error.

        Raises DiskFull, DurabilityUnknown.
        """
        with self._lock:
            records, answer = self._controller.users.alter(asked)
            self._commit(records)
            return answer

    def create_acls(self, asked: CreateAclsRequest) -> CreateAclsResponse:
        """Make ACLs, all of them in one step but those with an error.

        Raises PolicyViolation, DiskFull, DurabilityUnknown.
        """
        with self._lock:
            records, answer = self._controller.acls.create(asked, uuid4)
            self._commit(records)
            return answer

    def delete_acls(self, asked: DeleteAclsRequest) -> DeleteAclsResponse:
        """Delete the ACLs of some filters, all of them in one step.

        Raises PolicyViolation, DiskFull, DurabilityUnknown.
        """
        with self._lock:
            records, answer = self._controller.acls.delete(asked)
            self._commit(records)
            return answer

    def alter_quotas(self, asked: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        """Set and remove quotas, all of them in one step but those of entities with an error.

        Raises PolicyViolation, DiskFull, DurabilityUnknown.
        """
        with self._lock:
            records, answer = self._controller.quotas.alter(asked)
            self._commit(records)
            return answer

    def allocate_producer_ids(self) -> range:
        """Producer ids that were never given before: they are written down before they are used.

        Raises DiskFull, DurabilityUnknown.
        """
        with self._lock:
            records, ids = self._controller.producer_ids.allocate()
            self._commit(records)
            return ids

    def reserve_producer_ids(self, upto: int) -> None:
        """Never give a producer id below `upto`: some of them are in use. Raises DiskFull, DurabilityUnknown."""
        with self._lock:
            self._commit(self._controller.producer_ids.reserve(upto))

    def take_over_producer_ids(self, seen: int) -> None:
        """Give producer ids of a slot of this node's own from now on (`controller.slots`).

        Another node has led, and the ids that it has given are in use: up to `seen` in the logs.

        Raises DiskFull, DurabilityUnknown.
        """
        with self._lock:
            records, first = self._controller.producer_ids.take_over(seen)
            self._commit(records)
            self.producer_ids_from = first
