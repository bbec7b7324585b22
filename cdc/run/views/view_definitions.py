"""The views of a pipeline as they are computed: what they read of histories is known by the lake only."""

from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.history.epochs import Epoch, list_epochs
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.definition import ViewDefinition
from cdc.views.epoch_windows import define_over_epochs


def define_views(pipeline: Pipeline, cut: Cut | None) -> list[ViewDefinition]:
    """The views at a cut: windows that close read all epochs of a history that it names."""

    def find_epochs(tracked: TableName) -> list[Epoch]:
        found = list_epochs(pipeline.lake, tracked, cut)
        last = max((epoch.number for epoch in found if cut and str(epoch.name) in cut.versions), default=1)
        return found[:last]

    return define_over_epochs(pipeline.settings.view_definitions, find_epochs)


def define_present_views(pipeline: Pipeline) -> list[ViewDefinition]:
    """The same at the views' own newest cut."""
    if not any(view.final_after for view in pipeline.settings.views.values()):
        return pipeline.settings.view_definitions
    return define_views(pipeline, pipeline.views.cuts.last())
