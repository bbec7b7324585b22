"""The settings of one view in `cdc.yaml`."""

from pydantic import Field

from cdc.core.settings import Settings


class ViewSettings(Settings):
    sql: str = Field(min_length=1)
    """One SELECT in Spark's SQL over tables of `source.tables` and other views."""
    key: list[str] = Field(min_length=1)
    """The columns of the result that tell its rows apart: no two rows have the same, and none is null."""
    final_after: str = ""
    """How long after its end a `window()` closes, as in `10 minutes`: what is committed later is left out, and kept in
    the view `<name>_late`. The table's history has to be kept. Without this setting, a window is corrected for ever."""
    whole_seconds: float | None = Field(default=None, ge=1)
    """The least pause between two computations of the whole view, for changes that do not lead to keys. Without it: ten
    times what the last one took, from 1 second to 30."""
