"""Users: what a cluster keeps of their passwords, and what it answers about them."""

from pathlib import Path

import pytest

import pylog
from pylog.errors import ReadOnly, ResourceNotFound, UnacceptableCredential
from pylog.files import MemoryFiles
from pylog.logdirs.log_directories import Directories
from pylog.logdirs.metadata_log import MetadataLog
from pylog.protocol.messages import Session
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from pylog.protocol.metadata_changes import image_records, set_user
from pylog.protocol.metadata_image import MetadataImage, decode_record
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.sasl.exchange import sasl_client
from pylog.protocol.sasl.scram import ScramServer

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
UserName = DescribeUserScramCredentialsRequest.UserName
SALT, SALTED = b"salt" * 4, b"p" * 32


def altered(log: pylog.Log, deletions: list[Deletion], upsertions: list[Upsertion]) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    answer = log.broker.handle(request, Session()).result()
    return {one.user: 0 if one.error is None else one.error.code for one in answer.results}


def deletion(user: str, mechanism: int = 1) -> Deletion:
    return Deletion(name=user, mechanism=mechanism)


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=SALTED)


def test_a_user_is_let_in_with_the_password_that_was_set() -> None:
    with pylog.open(":memory:") as log:
        log.admin.set_password("alice", "secret")
        log.admin.set_password("alice", "other", mechanisms=["scram-sha-512"], iterations=8192)

        assert log.admin.users() == {"alice": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}}
        for mechanism, password in ((ScramMechanism.SHA_256, "secret"), (ScramMechanism.SHA_512, "other")):
            users = log.broker.image.users
            server = ScramServer(mechanism, lambda user, of=mechanism, users=users: users.get((user, of)))  # type: ignore[misc]
            client = sasl_client(mechanism.sasl_name, "alice", password)
            token = client.step()
            while token is not None:
                token = client.step(server.step(token))
            assert client.is_complete


def test_users_outlive_the_process_and_a_snapshot(tmp_path: Path) -> None:
    config = {"metadata.log.max.record.bytes.between.snapshots": 1}
    with pylog.open(tmp_path / "data", config=config) as log:
        log.admin.set_password("alice", "secret")
        log.admin.set_password("bob", "secret")
        log.admin.delete_user("bob")
        known = log.broker.image.users
    for _ in range(2):
        with pylog.open(tmp_path / "data", config=config) as log:
            assert log.broker.image.users == known
            log.create_topic("t", exist_ok=True)
    with pylog.open(tmp_path / "data", mode="read") as log:
        assert list(log.admin.users()) == ["alice"]
        with pytest.raises(ReadOnly):
            log.admin.delete_user("alice")


def test_no_other_user_can_read_the_keys_of_users(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "__cluster_metadata-0"
    with pylog.open(tmp_path / "data") as log:
        log.create_topic("t")
        assert folder.stat().st_mode & 0o077
        log.admin.set_password("alice", "secret")
        assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)  # a restored backup
    with pylog.open(tmp_path / "data"):
        assert folder.stat().st_mode & 0o777 == 0o700


class SharedFiles(MemoryFiles):
    """Files whose folder belongs to another user from some time on."""

    is_shared = True

    def make_private(self, path: str) -> None:
        if self.is_shared:
            raise ReadOnly(f"cannot keep other users out of {path}")


def test_no_user_is_set_where_others_could_read_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    files = SharedFiles()
    alice = set_user("alice", ScramCredential(ScramMechanism.SHA_256, b"salt", b"stored", b"server", 4096))
    for is_shared in (True, False):
        files.is_shared = is_shared
        directories = Directories(files, ["data"], None)
        metadata_log = MetadataLog(directories, lambda: 0)
        if is_shared:
            with pytest.raises(ReadOnly, match="keep other users out"):
                metadata_log.commit(alice)
            assert metadata_log.image.users == {}
        else:
            metadata_log.commit(alice)
        metadata_log.close()
        directories.release()
    files.is_shared = True
    assert len(MetadataLog(Directories(files, ["data"], None), lambda: 0).image.users) == 1
    assert "other users may read" in caplog.text


def test_the_records_of_an_image_give_its_users_again() -> None:
    with pylog.open(":memory:") as log:
        log.admin.set_password("alice", "secret")
        image = MetadataImage()
        for record in image_records(log.broker.image):
            image.apply(decode_record(record))

        assert image.users == log.broker.image.users
        assert len(image.users) == 2


def test_a_credential_that_cannot_be_is_refused_by_its_code() -> None:
    with pylog.open(":memory:") as log:
        deletions = [deletion("nobody"), deletion(""), deletion("strange", 3)]
        upsertions = [
            upsertion("few", iterations=4095), upsertion("many", iterations=16385), upsertion("third", 3),
            upsertion("most", iterations=16384),
        ]  # fmt: skip

        assert altered(log, deletions, upsertions) == {
            "nobody": 91, "": 93, "strange": 33, "few": 93, "many": 93, "third": 33, "most": 0,
        }  # fmt: skip
        assert log.admin.users() == {"most": {"SCRAM-SHA-256": 16384}}


def test_a_user_is_changed_once_in_a_request() -> None:
    with pylog.open(":memory:") as log:
        assert altered(log, [], [upsertion("alice"), upsertion("alice", 2)]) == {"alice": 92}
        assert altered(log, [], [upsertion("alice"), upsertion("bob", 2)]) == {
            "alice": 0, "bob": 0,
        }  # fmt: skip
        assert altered(log, [deletion("alice")], [upsertion("alice")]) == {"alice": 92}
        assert sorted(log.admin.users()) == ["alice", "bob"]


def test_the_first_error_of_a_user_is_told() -> None:
    with pylog.open(":memory:") as log:
        changes = [upsertion("alice", iterations=1), upsertion("alice"), upsertion("alice")]

        assert altered(log, [], changes) == {"alice": 93}


def test_users_are_described_by_name() -> None:
    with pylog.open(":memory:") as log:
        log.admin.set_password("alice", "secret", mechanisms=["SCRAM-SHA-512"])
        names = [UserName(name=name) for name in ("bob", "alice", "bob")]
        answer = log.broker.handle(DescribeUserScramCredentialsRequest(users=names), Session()).result()

        assert [
            (
                one.user,
                getattr(one.error, "code", 0),
                [(info.mechanism, info.iterations) for info in one.credential_infos],
            )
            for one in answer.results
        ] == [("bob", 92, []), ("alice", 0, [(2, 4096)])]


def test_bad_arguments_of_the_admin_are_refused() -> None:
    with pylog.open(":memory:") as log:
        with pytest.raises(UnacceptableCredential, match="Too many iterations"):
            log.admin.set_password("alice", "secret", iterations=1 << 30)
        with pytest.raises(UnacceptableCredential, match="not be empty"):
            log.admin.set_password("", "secret")
        with pytest.raises(ValueError, match="a password is not empty"):
            log.admin.set_password("alice", "")
        with pytest.raises(ValueError, match="PLAIN is none of SCRAM-SHA-256"):
            log.admin.set_password("alice", "secret", mechanisms=["PLAIN"])
        with pytest.raises(ResourceNotFound, match="no user 'alice'"):
            log.admin.delete_user("alice")


def test_a_message_does_not_show_what_it_has_of_a_password() -> None:
    told = "AlterUserScramCredentialsRequest.ScramCredentialUpsertion(name='alice', mechanism=1, iterations=4096)"
    assert repr(upsertion("alice")) == told
