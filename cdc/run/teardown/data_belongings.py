"""What the followers of a pipeline hold: indexes, compacted topics, and the lake."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree

from cdc.core.text.plural import format_bytes, format_count
from cdc.run.catalog.keeper import open_catalog
from cdc.run.pipeline import Pipeline
from cdc.run.rebuilds import Rebuilds
from cdc.run.scratch import delete_scratch
from cdc.run.status.stream_report import open_reports
from cdc.run.teardown.belonging import Belonging, Belongings
from cdc.run.teardown.capture_belongings import CaptureBelongings
from cdc.sinks.lake import removal as lake_removal
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.opensearch import removal as index_removal
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.owner import Owner
from cdc.sinks.percolator.settings import PercolatorSettings

MOST_SHOWN = 3
"""Files in one line that somebody else has in the lake's folder."""


def is_of_follower(pipeline: Pipeline, topic: str) -> bool:
    """Does a follower, not the capture, write to this topic?"""
    prefix = pipeline.settings.log.prefix
    starts = [f"{prefix}.latest.", f"{prefix}.latest-position"]
    kinds = pipeline.settings.followers.items()
    matches = [f.topic_names(prefix, name) for name, f in kinds if isinstance(f, PercolatorSettings)]
    return topic.startswith(tuple(starts)) or any(topic in names for names in matches)


def find_data(pipeline: Pipeline, capture: CaptureBelongings, all_of: Belongings) -> None:
    """What each follower holds; the lake last, from which the others could be filled again."""
    for name, follower in pipeline.settings.followers.items():
        if isinstance(follower, ClusterSettings):
            all_of.look(f"indexes of {name}", partial(_find_indexes, pipeline, name, follower))
        if isinstance(follower, LatestSettings | PercolatorSettings):
            all_of.look(f"topics of {name}", partial(_find_topics, pipeline, capture, follower, name))
    lake = next(f for f in pipeline.settings.followers.values() if isinstance(f, DeltaSettings))
    all_of.look(f"lake {lake.path}", partial(_find_lake, pipeline))
    if (caches := pipeline.indexes).exists():
        all_of.found.append(Belonging("key indexes", str(caches), partial(rmtree, caches, ignore_errors=True)))
    find_state(pipeline, all_of)


def find_state(pipeline: Pipeline, all_of: Belongings) -> None:
    """What this machine keeps of the pipeline, beside its parts."""
    if list_state(pipeline):
        detail = f"what this machine keeps of it in {pipeline.state}"
        all_of.last.append(Belonging("state of", pipeline.name, partial(_remove_state, pipeline), detail))


def list_state(pipeline: Pipeline) -> list[Path]:
    """Files and folders of the pipeline's own below the folder of state; logs, unless another pipeline's are in it."""
    state, name = pipeline.state, pipeline.name
    own = [
        pipeline.leases.folder,
        pipeline.requests.folder,
        open_reports(pipeline).folder,
        Rebuilds.of(pipeline).folder,
    ]
    own += (state / "serve").glob(f"{name}.sqlite*")
    if not any(other.name != name for other in pipeline.leases.folder.parent.glob("*")):
        own += [log for kind in ("follow", "spark", "trouble") for log in (state / "logs").glob(f"{kind}.log*")]
    return [path for path in own if path.exists()]


def _remove_state(pipeline: Pipeline) -> None:
    own = list_state(pipeline)
    for path in own:
        if path.is_dir():
            rmtree(path)
        else:
            path.unlink(missing_ok=True)
    delete_scratch(pipeline.state)
    for folder in {path.parent for path in own}:
        # another pipeline's things may be in it
        with suppress(OSError):
            folder.rmdir()


def find_registered(pipeline: Pipeline, all_of: Belongings) -> None:
    """The tables that the catalog has of this pipeline."""
    with open_catalog(pipeline) as catalog:
        places = sorted(catalog.list_own())

    def remove() -> None:
        with open_catalog(pipeline) as again:
            for place in places:
                again.remove(place)

    if places:
        shown = ", ".join(".".join(place) for place in places)
        all_of.found.append(Belonging("registered tables", shown, remove, "in the catalog"))


def _find_indexes(pipeline: Pipeline, name: str, settings: ClusterSettings, all_of: Belongings) -> None:
    cluster = Cluster.of(settings)
    prefix, owner = settings.prefix or pipeline.name, Owner(pipeline.name, name)
    with open_client(cluster) as client:
        names = index_removal.list_indexes(client, prefix, owner)
        has_state = index_removal.has_state(client, prefix, owner)

    def remove() -> None:
        with open_client(cluster) as again:
            index_removal.remove_indexes(again, prefix, owner, names)

    if names or has_state:
        shown = ", ".join(names) or "its position only"
        all_of.found.append(Belonging("indexes of", name, remove, shown))


def _find_topics(
    pipeline: Pipeline,
    capture: CaptureBelongings,
    settings: LatestSettings | PercolatorSettings,
    name: str,
    all_of: Belongings,
) -> None:
    prefix = pipeline.settings.log.prefix
    if isinstance(settings, LatestSettings):
        starts: tuple[str, ...] = (f"{prefix}.latest.", f"{prefix}.latest-position")
    else:
        starts = settings.topic_names(prefix, name)
    capture.find_topics_of(starts, all_of)


def _find_lake(pipeline: Pipeline, all_of: Belongings) -> None:
    lake = pipeline.lake
    found = lake_removal.find_files(lake)
    if found.files and pipeline.lake_follower.position() is None:
        all_of.kept.append(f"lake {lake.path}: it has no cut of this pipeline's")
        return
    if found.files:
        histories = f", with the history of {', '.join(found.histories)}" if found.histories else ""
        detail = f"{format_count(found.files, 'file')}, {format_bytes(found.bytes)}{histories}"
        all_of.last.append(Belonging("lake", lake.path, partial(lake_removal.remove, lake), detail))
    if found.foreign:
        shown = ", ".join(found.foreign[:MOST_SHOWN])
        all_of.kept.append(f"in {lake.path}: {format_count(len(found.foreign), 'file')} not of ours, such as {shown}")
