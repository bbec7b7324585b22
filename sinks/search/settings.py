"""The settings of a search index in `cdc.yaml`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from cdc.core.settings import Finding, Settings, finding_error, findings_error
from cdc.core.table import TableName
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.search.templates import Template

_TAKEN: Final = (
    *("analysis", "similarity", "sort", "knn", "number_of_shards", "number_of_replicas", "codec", "query"),
    *("max_result_window", "max_inner_result_window", "max_ngram_diff", "max_shingle_diff", "max_terms_count"),
    *("max_docvalue_fields_search", "max_rescore_window", "highlight", "mapping.total_fields", "mapping.depth"),
    *("mapping.nested_fields", "mapping.nested_objects", "mapping.field_name_length", "mapping.coerce"),
    *("mapping.ignore_malformed", "routing.allocation", "merge", "translog", "store", "auto_expand_replicas"),
)
_PROPERTIES: Final = "properties"


class IndexSettings(Settings):
    columns: list[str] = Field(default_factory=list)
    """The columns that the index has; without any, all of them. Those of the key are always among them."""
    leave_out_columns: list[str] = Field(default_factory=list)
    """Columns that the index does not have."""
    names: dict[str, str] = Field(default_factory=dict)
    """Names of fields that are not those of their columns: `column: field`."""
    mappings: dict[str, Any] = Field(default_factory=dict)
    """`properties` as the cluster takes them, by field: each replaces what the field has by its column's type."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the index as the cluster takes them: `analysis`, `knn`, `sort` and their like."""
    routing: str | None = None
    """Of what a document's routing is made, `{tenant}`; without it, of its id."""
    id: str | None = None
    """Of what a document's id is made, `{tenant}:{id}`, with all columns of the key; without it, of the key as JSON."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_streams(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "data_stream" in values:
            raise finding_error(("data_stream",), "is not possible: a data stream takes neither updates nor deletions")
        return values

    @field_validator("routing", "id", mode="after")
    @classmethod
    def _check_template(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                Template.parse(text)
            except ValueError as error:
                raise finding_error((), str(error)) from error
        return text

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        if findings := [*self._find_wrong()]:
            raise findings_error(findings)
        return self

    def _find_wrong(self) -> Iterator[Finding]:
        if self.columns and self.leave_out_columns:
            yield ("leave_out_columns",), "stands beside columns, which says it already"
        for key in self.mappings.keys() - {_PROPERTIES}:
            yield ("mappings", key), f"is kept by the toolkit; only {_PROPERTIES} can be given"
        properties = self.mappings.get(_PROPERTIES, {})
        if not isinstance(properties, Mapping):
            yield ("mappings", _PROPERTIES), "is to be a block of fields"
            return
        for field, mapping in properties.items():
            if not isinstance(mapping, Mapping) or not {"type", _PROPERTIES} & mapping.keys():
                yield ("mappings", _PROPERTIES, field), "is to be a block with a type"
        for name in self.flat_settings:
            if not any(name == taken or name.startswith(f"{taken}.") for taken in _TAKEN):
                yield ("settings",), f"has {name}, which cannot be given: the toolkit needs its own, or knows it not"

    @property
    def properties(self) -> Mapping[str, Mapping[str, Any]]:
        """The mappings that are given, by field."""
        return dict(self.mappings.get(_PROPERTIES, {}))

    @property
    def flat_settings(self) -> Mapping[str, Any]:
        """The settings that are given, by whole names without `index.`."""
        return {name.removeprefix("index."): value for name, value in _flatten(self.settings)}


class SearchSettings(ClusterSettings):
    kind: Literal["search"]
    """The kind of this follower."""
    indexes: dict[str, IndexSettings] = Field(default_factory=dict)
    """Indexes that are to be otherwise than by their tables alone, by table or view, as `schema.table`."""

    def index_of(self, table: TableName) -> IndexSettings | None:
        """What is said of a table's index."""
        return next((each for name, each in self.indexes.items() if TableName.parse(name) == table), None)


def _flatten(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
