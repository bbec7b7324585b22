"""What is wrong with the indexes that the settings describe: by the columns of their tables, and by the cluster."""

from collections.abc import Callable, Iterable

from cdc.config.errors import SettingsRefusedError
from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, ConfigurationError, UnreachableError
from cdc.core.table import Table
from cdc.run.pipeline import Pipeline
from cdc.sinks.owner import Owner
from cdc.sinks.search.settings import SearchSettings


def has_described(settings: PipelineSettings) -> bool:
    """Does any follower's block describe an index?"""
    return any(isinstance(each, SearchSettings) and each.indexes for each in settings.followers.values())


def check_indexes(pipeline: Pipeline, tables: Iterable[Table], say: Callable[[str], None]) -> None:
    """Raise SettingsRefusedError for indexes that their tables, or views that are filled, cannot have.

    `tables`: as they are followed. What is not tried, since its cluster does not answer, is said.
    """
    known, refused = [*tables], list[CdcError]()
    for name, settings in pipeline.settings.followers.items():
        if isinstance(settings, SearchSettings) and settings.indexes:
            refused += _check_one(pipeline, name, settings, [*known, *_find_filled(pipeline)], say)
    if refused:
        raise SettingsRefusedError(refused)


def _check_one(
    pipeline: Pipeline, name: str, settings: SearchSettings, tables: Iterable[Table], say: Callable[[str], None]
) -> list[ConfigurationError]:
    # only here: most pipelines describe no index, and the cluster's client takes a while to import
    from cdc.sinks.search.trial import find_refused

    found = list[ConfigurationError]()
    try:
        # one by one: what was found is told though the cluster does not answer then
        for refusal in find_refused(settings, Owner(pipeline.name, name), tables):
            found.append(refusal)
    except UnreachableError as error:
        say(f"{name}: its indexes were not tried: {error.what}")
    return found


def _find_filled(pipeline: Pipeline) -> list[Table]:
    """The views that are filled: what columns one has that is not is known once it is."""
    try:
        store = pipeline.views
        found = [store.find(view) for view in pipeline.settings.view_definitions]
    except CdcError:
        return []
    return [view.table for view in found if view]
