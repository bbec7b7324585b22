"""Runs one lab on the local parts."""

import time
from dataclasses import dataclass
from typing import Any

from cdc.cli import output
from cdc.cli.progress import open_progress
from cdc.config.init import TemplateValues
from cdc.lab.lesson import Findings, Lab
from cdc.lab.registry import Listing
from cdc.lab.workplace import open_workplace
from cdc.local import services
from cdc.local.endpoints import Endpoints
from cdc.local.state_dir import Home


@dataclass(frozen=True, slots=True)
class LocalParts:
    """The parts of a home."""

    endpoints: Endpoints

    @property
    def kafka_bootstrap(self) -> str:
        return self.endpoints.kafka_bootstrap

    @property
    def search_url(self) -> str:
        return self.endpoints.search_url

    def postgres_dsn(self, database: str = "postgres") -> str:
        return self.endpoints.postgres_dsn(database)

    def template_values(self) -> TemplateValues:
        """What the file of a pipeline says of these parts."""
        found = self.endpoints
        return TemplateValues(
            host=found.postgres_host,
            port=found.postgres_port,
            user=found.postgres_user,
            password=f"${{file:{found.postgres_password.file}}}",
            password_reference=found.postgres_password.reference,
            bootstrap=found.kafka_bootstrap,
            connect_url=found.connect_reference,
            search_url=found.search_url,
        )


@dataclass(frozen=True, slots=True)
class LabRun:
    """One run of a lab: what it found, and its seconds without those that the parts took to come up."""

    listing: Listing
    lab: Lab
    seed: int
    findings: Findings
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Everything but the figure; `rows` as objects by column."""
        found = self.findings
        return {
            "lab": self.listing.name,
            "seed": self.seed,
            "rows": [dict(zip(found.columns, row, strict=True)) for row in found.rows],
            "sentence": found.sentence,
            "book": [str(passage) for passage in self.lab.passages],
            "files": list(self.lab.files),
            "seconds": round(self.seconds, 1),
        }


def run_lab(home: Home, listing: Listing, seed: int) -> LabRun:
    """Start the parts that the lab needs, if they are down, and run it. Raises CdcError as the toolkit does."""
    lab = listing.load()
    with open_progress() as progress:
        endpoints = services.up(home, lab.parts, progress)
    began = time.monotonic()
    with open_workplace(LocalParts(endpoints), seed, output.say) as place:
        findings = lab.run(place)
    return LabRun(listing, lab, seed, findings, time.monotonic() - began)
