"""The views of a pipeline as they are computed: what they read of histories is known by the lake only."""

from cdc.config.settings import PipelineSettings
from cdc.core.table import TableName
from cdc.run.pipeline import lake_of, view_store
from cdc.sinks.lake.history.epochs import Epoch, list_epochs
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.definition import ViewDefinition
from cdc.views.epoch_windows import define_over_epochs


def define_views(settings: PipelineSettings, cut: Cut | None) -> list[ViewDefinition]:
    """The views at a cut: windows that close read all epochs of a history that it names."""

    def find_epochs(tracked: TableName) -> list[Epoch]:
        found = list_epochs(lake_of(settings), tracked, cut)
        last = max((epoch.number for epoch in found if cut and str(epoch.name) in cut.versions), default=1)
        return found[:last]

    return define_over_epochs(settings.view_definitions, find_epochs)


def define_present_views(settings: PipelineSettings) -> list[ViewDefinition]:
    """The same at the views' own newest cut."""
    if not any(view.final_after for view in settings.views.values()):
        return settings.view_definitions
    return define_views(settings, view_store(settings).cuts.last())
