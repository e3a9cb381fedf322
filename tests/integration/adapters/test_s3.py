"""Large artifacts in a bucket of moto, which proves nothing about a real service; and moves between the stores."""

import os
import time
import urllib.request
from datetime import timedelta

import obstore
import pytest
from moto.server import ThreadedMotoServer
from tests.support.catalogs import make_skill
from tests.support.opened import run_blocking

from skillwire import limits
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.s3 import S3Artifacts
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.errors import StorageError
from skillwire.model.digest import Digest
from skillwire.model.package import Change, PackageVersion

CHANGE = Change(1.0, "ann", "version.publish", "acme/notes")


@pytest.fixture(scope="module")
def moto():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(moto, monkeypatch):
    values = {"ENDPOINT_URL": moto, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}
    for name, value in {**values, "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    name = f"b{os.urandom(6).hex()}"
    urllib.request.urlopen(urllib.request.Request(f"{moto}/{name}", method="PUT")).close()  # noqa: S310  # of the test
    return f"{moto}/{name}"


@pytest.fixture
def store(bucket):
    return S3Artifacts(f"s3://{bucket.rpartition('/')[2]}/artifacts")


def overwrite(store, digest, content):
    """Do what nothing of ours does."""
    obstore.put(store._store, digest.hex, content, mode="overwrite")


def test_an_artifact_is_verified_and_stored_again_in_place_of_another(store):
    content = os.urandom(3_000_000)
    digest = store.put(content)
    assert (digest, store.read(digest), store.has(digest, len(content))) == (Digest.of(content), content, True)
    overwrite(store, digest, b"other")
    assert (store.read(digest), store.has(digest, len(content))) == (None, False)
    assert (store.put(content), store.read(digest), store.has(digest, len(content))) == (digest, content, True)
    absent = Digest.of(b"absent")
    assert (store.read(absent), store.has(absent, 6)) == (None, False)


def test_old_artifacts_are_listed_and_removed(store):
    digest = store.put(b"one")
    assert list(store.aged(time.time() - 60)) == []
    ((found, remove),) = store.aged(time.time() + 60)
    assert (found, remove(), remove(), store.read(digest)) == (digest, True, False, None)


def test_an_artifact_that_was_stored_again_after_it_was_listed_stays(store, monkeypatch):
    digest = store.put(b"one")
    ((_, remove),) = store.aged(time.time() + 60)
    later = obstore.head(store._store, digest.hex)["last_modified"] + timedelta(seconds=120)
    monkeypatch.setattr(obstore, "head", lambda *_: {"last_modified": later})
    assert (remove(), store.read(digest)) == (False, b"one")


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_is_not_there_is_an_error_of_storage():
    with pytest.raises(StorageError) as caught:
        S3Artifacts("s3://absent-bucket").put(b"x")
    assert caught.value.code == "STORAGE"


def test_large_artifacts_move_between_rows_and_the_bucket(store, postgres_url, monkeypatch):
    database = PostgresDatabase(postgres_url)
    content = os.urandom(limits.REGISTRY_ROW_BYTES + 1)
    skill = make_skill("notes", publisher="acme")
    artifact = skill.artifact._replace(digest=Digest.of(content), size=len(content))
    version = PackageVersion(skill._replace(version="1.0.0", artifact=artifact), 2.0, "ann", artifact.digest)
    rows, both = SqlPackages(database), SqlPackages(database, store)
    try:
        assert run_blocking(rows.publish(version, content, CHANGE)).how == "created"
        assert run_blocking(both.artifact(artifact.digest)) == content
        assert run_blocking(both.move_artifacts(to_rows=False)) == 1
        assert (run_blocking(rows.artifact(artifact.digest)), store.read(artifact.digest)) == (None, content)
        assert run_blocking(both.artifact(artifact.digest)) == content
        assert run_blocking(both.remove_unowned(time.time() + 60)) == 0
        assert run_blocking(both.move_artifacts(to_rows=True)) == 1
        assert run_blocking(rows.artifact(artifact.digest)) == content
        overwrite(store, artifact.digest, b"other")
        with monkeypatch.context() as fault:
            fault.setattr(store, "put", Digest.of)
            with pytest.raises(StorageError, match="lost or damaged"):
                run_blocking(both.move_artifacts(to_rows=False))
        assert run_blocking(rows.artifact(artifact.digest)) == content
        assert run_blocking(both.move_artifacts(to_rows=False)) == 1
        assert store.read(artifact.digest) == content
    finally:
        run_blocking(database.close())
