"""The table of second paths: what holds each feature after each thing that may happen to it.

A word of the table is one of `BY`: the test that runs that cell. `tests/unit/pages/test_cells.py` sees that it is
there.
"""

from dataclasses import dataclass
from typing import Final

FEATURES: Final = ("table", "view", "history", "windows", "percolator", "index", "latest", "changes", "tokens")
TABLE: Final = """
what happened          table  view   history  windows  percolator  index  latest  changes  tokens
join_later             here   here   here     here     here        here   here    here     here
rest                   here   here   here     here     here        here   here    here     here
recapture              here   here   here     here     here        here   here    here     here
copy_again             here   here   here     here     here        here   here    here     here
add_column             here   here   here     here     here        here   here    here     here
drop_column            here   here   here     here     here        here   here    here     here
rename_column          here   here   here     here     here        here   here    here     here
change_type            here   here   here     here     here        here   here    here     here
change_key             here   here   here     here     here        here   here    here     here
grow_topics            here   here   here     here     here        here   here    here     here
rename_in_the_file     here   here   here     here     here        here   here    here     here
take_out_and_put_back  here   here   here     here     here        here   here    here     here
take_away_our_jar      here   here   here     here     here        here   here    here     here
on_a_cluster           store  store  store    store    store       store  store   job      store
on_an_object_store     store  store  store    store    store       store  store   store    store
blank_in_the_path      here   here   here     here     here        here   here    here     here
"""


@dataclass(frozen=True, slots=True)
class Runs:
    """A test: its file below `tests/` and its function."""

    file: str
    function: str


BY: Final[dict[str, Runs]] = {
    "here": Runs("servers/second_paths/test_second_paths.py", "test_every_feature_holds_after"),
    "store": Runs("servers/cluster/test_object_store.py", "test_copied_followed_killed_and_verified"),
    "job": Runs("servers/cluster/test_own_job.py", "test_a_job_of_ones_own_over_changes_goes_on_from_its_checkpoint"),
}
ALWAYS: Final = ("blank_in_the_path",)
"""What holds for the shared pipeline all the time."""
ROUNDS: Final = {
    "joining": ("join_later", "rest"),
    "shapes": ("add_column", "drop_column", "rename_column", "change_type", "change_key", "grow_topics"),
    "copies": ("copy_again", "rename_in_the_file", "take_out_and_put_back"),
    "capture": ("take_away_our_jar", "recapture"),
}
"""What happens to the shared pipeline before all features are asked; `--further` asks after each thing alone."""

BY_ROWS: Final = ("shapes", "capture")
"""The rounds after which every row is compared; `--further` does it after each thing."""


def read_table() -> dict[str, dict[str, str]]:
    """The words of the table, by what happened and by feature."""
    head, *rows = TABLE.strip().splitlines()
    features = head.removeprefix("what happened").split()
    return {name: dict(zip(features, words, strict=True)) for name, *words in map(str.split, rows)}
