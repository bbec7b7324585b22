"""The dashboard for Grafana, `dashboard.json` beside this file: rows of panels over the metrics of the catalog."""

import json
from dataclasses import dataclass
from typing import Any, Final

_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_OF: Final = 'pipeline="$pipeline"'

_FRESHNESS: Final = "histogram_quantile(0.{}, sum by (follower, le) (rate(cdc_freshness_seconds_bucket{{$of}}[5m])))"
_STAGES: Final = "rate(cdc_follower_stage_seconds_total{$of}[5m])"
_APPLIED: Final = "rate(cdc_follower_changes_total{$of}[5m])"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: its queries by legend, in which `$of` stands for the chosen pipeline."""

    title: str
    unit: str
    queries: dict[str, str]
    kind: str = "timeseries"


PANELS: Final = (
    Panel("What needs somebody", "none", {"{{level}}": "cdc_problems{$of}"}, "stat"),
    Panel("Parts", "none", {"{{part}} {{state}}": "cdc_part_state{$of}"}, "stat"),
    Panel("Time until the slot is full", "s", {"full in": "cdc_slot_exhaustion_seconds{$of}"}, "stat"),
    Panel("Tables", "none", {"{{state}}": "cdc_tables{$of}"}, "stat"),
    Panel("How fresh", "s", {f"{{{{follower}}}} p{percent}": _FRESHNESS.format(percent) for percent in (50, 99)}),
    Panel("Lag", "s", {"{{follower}}": "cdc_follower_lag_seconds{$of}", "the log": "cdc_heartbeat_age_seconds{$of}"}),
    Panel("Changes that followers lack", "none", {"{{follower}}": "cdc_follower_lag_changes{$of}"}),
    Panel(
        "Changes a second",
        "none",
        {
            "committed": "sum(cdc_table_changes_per_minute{$of}) / 60",
            "lake: {{op}}": _APPLIED,
        },
    ),
    Panel("Slot", "bytes", {"kept": "cdc_slot_retained_bytes{$of}", "limit": "cdc_slot_limit_bytes{$of}"}),
    Panel(
        "Batches",
        "s",
        {
            "{{follower}} {{stage}}": _STAGES,
            "{{follower}}": "cdc_batch_seconds{$of}",
        },
    ),
    Panel("Copies", "none", {"{{table}}": "cdc_copy_rows{$of} / cdc_copy_rows_expected{$of}"}),
    Panel("Dead letters", "none", {"{{table}}: {{reason}}": "cdc_dead_letters{$of}"}),
    Panel("Lake", "none", {"files": "cdc_lake_files{$of}", "small": "cdc_lake_small_files{$of}"}),
    Panel("Views", "s", {"{{view}}": "cdc_view_lag_seconds{$of}"}),
    Panel("Since the last verification", "s", {"{{follower}}": "time() - cdc_verify_timestamp_seconds{$of}"}, "stat"),
    Panel("Keys that differ", "none", {"{{follower}}": "cdc_verify_differing_keys{$of}"}, "stat"),
    Panel("Log", "bytes", {"{{topic_kind}}": "cdc_log_bytes{$of}"}),
    Panel(
        "Until retention takes what the lake lacks", "s", {"left": "cdc_log_retention_headroom_seconds{$of}"}, "stat"
    ),
    Panel("Free on disk", "bytes", {"{{place}}": "cdc_disk_free_bytes{$of}"}),
    Panel(
        "Search, operations a second",
        "none",
        {kind: f"rate(cdc_search_{kind}_total{{$of}}[5m])" for kind in ("rejected", "stale", "failed")},
    ),
    Panel(
        "What happened in an hour",
        "none",
        {
            "schema {{kind}}": "increase(cdc_schema_changes_total{$of}[1h])",
            "commit conflicts": "increase(cdc_commit_conflicts_total{$of}[1h])",
            "connector restarts": "increase(cdc_connector_restarts_total{$of}[1h])",
        },
    ),
    Panel(
        "Upkeep, and views' rows computed anew",
        "none",
        {
            "share of time": "rate(cdc_upkeep_seconds_total{$of}[10m])",
            "{{view}} rows a second": "rate(cdc_view_recomputed_groups_total{$of}[5m])",
        },
    ),
    Panel("Retries", "none", {"{{follower}}": "rate(cdc_follower_retries_total{$of}[5m])"}),
)


def to_json() -> str:
    """The dashboard as Grafana reads it."""
    names = {"source": ("datasource", "prometheus"), "pipeline": ("query", "label_values(cdc_build_info, pipeline)")}
    variables = [
        {"name": name, "type": kind, "query": query, **({"datasource": _SOURCE} if kind == "query" else {})}
        for name, (kind, query) in names.items()
    ]
    dashboard = {
        "title": "cdc",
        "uid": "cdc-toolkit",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables},
        "panels": [_to_panel(place, panel) for place, panel in enumerate(PANELS)],
    }
    return json.dumps(dashboard, indent=1) + "\n"


def _to_panel(place: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": place + 1,
        "title": panel.title,
        "type": panel.kind,
        "datasource": _SOURCE,
        "gridPos": {"x": 6 * (place % 4), "y": 7 * (place // 4), "w": 6, "h": 7},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": query.replace("$of", _OF), "legendFormat": legend}
            for number, (legend, query) in enumerate(panel.queries.items())
        ],
    }
