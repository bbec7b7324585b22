"""An object store for a bench, whose requests are counted on their way."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.world.pipeline import LAKE, Pipeline, Settings, merge
from tests.support.lake.disturbance import Disturbance, run_disturbance
from tests.support.parts.object_store_fixture import S3Server, access_at, started


@dataclass
class Requests(Disturbance):
    """Hands everything on, and counts."""

    count: int = 0

    def begins(self, method: str, path: str) -> bool:
        self.count += 1
        return False


@dataclass(frozen=True, slots=True)
class CountedStore:
    """A bucket behind an address that counts."""

    server: S3Server
    bucket: str
    endpoint: str
    requests: Requests

    def settings(self, name: str, more: Settings) -> Settings:
        """Those of a pipeline whose lake lies here, below its own name, with further ones."""
        access = access_at(self.endpoint)
        assert access.access_key_id is not None
        assert access.secret_access_key is not None
        own: dict[str, Any] = {"followers": {LAKE: {"s3": access.model_dump(mode="json", exclude_none=True)}}}
        own["followers"][LAKE]["s3"] |= {
            "access_key_id": access.access_key_id.get_secret_value(),
            "secret_access_key": access.secret_access_key.get_secret_value(),
        }
        merge(own, copy.deepcopy(dict(more)))
        own["followers"][LAKE]["path"] = f"s3://{self.bucket}/{name}"
        return own

    def show(self, pipeline: Pipeline) -> None:
        """Let the pipeline's lake be seen in its folder: the server's objects are files."""
        own = self.server.folder / self.bucket / pipeline.name
        own.mkdir(parents=True, exist_ok=True)
        pipeline.lake.parent.mkdir(parents=True, exist_ok=True)
        pipeline.lake.symlink_to(own)


@contextmanager
def counted_store(folder: Path) -> Iterator[CountedStore]:
    """A server on a folder for as long as the context lasts."""
    folder.mkdir(parents=True)
    with started(folder) as server, run_disturbance(server.endpoint, Requests()) as (endpoint, what):
        assert isinstance(what, Requests)
        yield CountedStore(server, server.bucket(), endpoint, what)
