"""Runs one lab on the local parts."""

import time

from cdc.cli import output
from cdc.cli.progress import open_progress
from cdc.config.init import TemplateValues
from cdc.lab.lesson import Findings
from cdc.lab.registry import Lab
from cdc.lab.workplace import Parts, open_workplace
from cdc.local import services
from cdc.local.endpoints import Endpoints
from cdc.local.state_dir import Home


def run_lab(home: Home, lab: Lab, seed: int) -> tuple[Findings, float]:
    """Start the parts that the lab needs, if they are down, and run it. Raises CdcError as the toolkit does.

    Returns its findings, and its seconds without those that the parts took to come up.
    """
    run = lab.load()
    with open_progress() as progress:
        endpoints = services.up(home, lab.parts, progress)
    began = time.monotonic()
    with open_workplace(_find_parts(endpoints), seed, output.say) as place:
        return run(place), time.monotonic() - began


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
