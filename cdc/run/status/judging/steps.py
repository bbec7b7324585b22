"""What a new user runs next, until there is a copy."""

from collections.abc import Mapping

from cdc.config.settings import PipelineSettings
from cdc.core.text.plural import format_count
from cdc.run.status.document import StatusStep
from cdc.run.status.judging.states import Judged
from cdc.run.status.things import State


def list_steps(settings: PipelineSettings, path: Mapping[str, Judged]) -> list[StatusStep]:
    """The steps to the first copy; none once the lake has one."""
    if path["lake"].state is not State.NEW:
        return []
    has_capture = path["capture"].state is not State.NEW
    copy = f"create slot, topics and connector, and copy {format_count(len(settings.selection.entries), 'table')}"
    return [
        StatusStep(command="cdc config check", text="list every error in the file", done=True),
        StatusStep(command="cdc doctor", text="check source, log, connector and followers"),
        StatusStep(command="cdc bootstrap", text=copy, done=has_capture),
        StatusStep(command="cdc follow", text="keep every follower in sync"),
    ]
