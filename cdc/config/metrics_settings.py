"""The `metrics` block: what is told to monitors beside the page, and where it is sent."""

from pydantic import Field

from cdc.core.settings import Settings


class MetricsSettings(Settings):
    by_table: bool = True
    """Whether there are metrics for each table; of thousands, they are most of what a scrape reads."""
    otlp: str | None = Field(default=None, pattern=r"^https?://[^\s@]+$")
    """Send the metrics to this OpenTelemetry collector, too, by OTLP over HTTP, as `http://collector:4318`."""
