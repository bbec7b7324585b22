"""The settings of saved searches that are matched against the tables, in `cdc.yaml`."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from cdc.core.settings import Settings
from cdc.sinks.derived_settings import SettingPlace
from cdc.sinks.opensearch.settings import ClusterSettings


class QueriesSettings(Settings):
    table: str
    """The followed table or view with a query in each row, as `schema.table`; the row's key names its query."""
    column: str = Field(min_length=1)
    """Its column with the query: one of OpenSearch's as JSON, as text or jsonb. Null is no query."""
    scripts: bool = False
    """Whether queries may have scripts: who writes a row of this table then runs code in OpenSearch."""


class PercolatorSettings(ClusterSettings):
    kind: Literal["percolator"]
    """The kind of this follower."""
    queries: QueriesSettings
    """The saved searches."""
    tables: list[str] = Field(min_length=1)
    """The tables and views whose rows are matched, as `schema.table`."""
    prefix: str = Field(default="", pattern=r"^([a-z][a-z0-9_-]{0,99})?$")
    """First part of every index's name; `<pipeline>-<follower>` where it is left out."""
    topic: str = Field(default="", pattern=r"^[a-zA-Z0-9._-]{0,200}$")
    """The topic of matches and ends of matches; `<log.prefix>.<follower>-matches` where it is left out."""
    match_bytes: int = Field(default=512 * 1024 * 1024, ge=250)
    """Memory for the matches that there are in one table, 250 bytes each: to keep one, and for what was found of it
    while the table is matched as a whole. Beyond it, the queries with the most matches are refused."""
    documents_at_once: int = Field(default=5_000, ge=1)
    """Most rows in one request that matches them with the queries. A node looks at each query once a request: with 200
    ranges, 5,000 rows at once take a quarter of what they take 500 at a time."""

    def topic_names(self, prefix: str, follower: str) -> tuple[str, str, str]:
        """The topics of matches, of those that there are, and of the position; `prefix`: the log's."""
        # one dot only: a table's topic has two
        start = f"{prefix}.{follower}-matches"
        return self.topic or start, f"{start}-present", f"{start}-position"

    def named(self) -> Iterator[tuple[SettingPlace, str]]:
        yield from super().named()
        yield ("queries", "table"), self.queries.table
