"""Runs one lab on the local parts."""

import time
from dataclasses import dataclass
from typing import Any

from cdc.cli import output
from cdc.cli.progress import open_progress
from cdc.config.init import TemplateValues
from cdc.lab.lesson import Findings
from cdc.lab.registry import Lab
from cdc.lab.workplace import Parts, open_workplace
from cdc.local import services
from cdc.local.endpoints import Endpoints
from cdc.local.state_dir import Home


@dataclass(frozen=True, slots=True)
class LabRun:
    """One run of a lab: its findings, and its seconds without those that the parts took to come up."""

    lab: Lab
    seed: int
    findings: Findings
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Everything but the figure; `rows` as objects by column."""
        found = self.findings
        return {
            "lab": self.lab.name,
            "seed": self.seed,
            "rows": [dict(zip(found.columns, row, strict=True)) for row in found.rows],
            "sentence": found.sentence,
            "book": list(self.lab.book),
            "files": list(self.lab.files),
            "seconds": round(self.seconds, 1),
        }


def run_lab(home: Home, lab: Lab, seed: int) -> LabRun:
    """Start the parts that the lab needs, if they are down, and run it. Raises CdcError as the toolkit does."""
    run = lab.load()
    with open_progress() as progress:
        endpoints = services.up(home, lab.parts, progress)
    began = time.monotonic()
    with open_workplace(_find_parts(endpoints), seed, output.say) as place:
        findings = run(place)
    return LabRun(lab, seed, findings, time.monotonic() - began)


def _find_parts(found: Endpoints) -> Parts:
    password = found.postgres_password
    values = TemplateValues(
        host=found.postgres_host,
        port=found.postgres_port,
        user=found.postgres_user,
        password=f"${{file:{password.file}}}",
        password_reference=password.reference,
        bootstrap=found.kafka_bootstrap,
        connect_url=found.connect_reference,
        search_url=found.search_url,
    )
    return Parts(values, password.read())
