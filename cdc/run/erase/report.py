"""The report of an erasure: what was found before and after, what was done, what is out of reach; signed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cdc.core.errors import CdcError, IncompleteError
from cdc.core.position import Lsn, format_lsn
from cdc.run.erase.progress import FOLDER, write_private
from cdc.run.erase.search import ByteSearch
from cdc.run.erase.target import ErasureTarget
from cdc.run.pipeline import Pipeline
from cdc.run.signatures import SigningKey

OUT_OF_REACH: Final = (
    "the source itself: dead rows until its VACUUM, WAL, its archives, standbys and backups, its server log",
    "backups and snapshots of lake, brokers, nodes and machines; older versions of objects in a bucket with versioning",
    "files of brokers and nodes that no --folder named: they delete what was deleted within"
    " log.retention.check.interval.ms and file.delete.delay.ms, and after their own merges",
    "replicas of topics on other clusters, Connect's own topics and those of others' connectors",
    "copies that readers of topics, tables, views, indexes and `cdc trace --values` have made",
    "views and tables that cdc.yaml names no more, as far as the search does not show them",
    "free blocks of disks",
)


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """`counts`: by step, how many things it touched. `values`: how many values were searched for."""

    name: str
    table: str
    lsn: Lsn
    done: Mapping[str, str]
    counts: Mapping[str, int]
    values: int
    before: Mapping[str, Any]
    after: ByteSearch

    def as_json(self) -> dict[str, Any]:
        return {
            "erasure": self.name,
            "table": self.table,
            "source_lsn": format_lsn(self.lsn),
            "values_searched_for": self.values,
            "steps": {step: {"at": at, "count": self.counts.get(step, 0)} for step, at in self.done.items()},
            "before": self.before,
            "after": self.after.as_json(),
            "out_of_reach": [*OUT_OF_REACH],
        }

    def check_gone(self) -> None:
        """Raise IncompleteError when something was found, or could not be searched."""
        left = [CdcError(str(place), _find_remedy(place.place)) for place in self.after.left]
        if left:
            raise IncompleteError(left)


def _find_remedy(place: str) -> str:
    if place.startswith("index"):
        return "`cdc erase` again merges anew"
    return "the report names files; remove them if nobody needs them, or run `cdc erase` again"


def write_report(pipeline: Pipeline, target: ErasureTarget, report: ErasureReport, signing: SigningKey) -> Path:
    """Write the report and, beside it, its signature (64 bytes) and the public key (PEM); returns the report's path.

    `openssl pkeyutl -verify -pubin -inkey X.pem -rawin -in X.json -sigfile X.sig` checks it.
    """
    content = json.dumps({**report.as_json(), "public_key": signing.public}, indent=2, ensure_ascii=False).encode()
    path = pipeline.state / FOLDER / f"{target.name}.json"
    write_private(path.with_suffix(".pem"), signing.public_pem())
    write_private(path.with_suffix(".sig"), bytes.fromhex(signing.sign(content)))
    write_private(path, content)
    return path


def summarize(before: Mapping[str, Any], after: ByteSearch) -> Sequence[tuple[str, object, object]]:
    """Each place with what was found before and after."""
    earlier = {place["place"]: place["found"] for place in before["places"]}
    later = {place.place: place.found if not place.unknown else "not searched" for place in after.places}
    return [(place, earlier.get(place), later.get(place)) for place in dict.fromkeys([*earlier, *later])]
