"""Runs labs on the parts of the tests."""

from dataclasses import dataclass

from psycopg.conninfo import make_conninfo

from cdc.config.init import TemplateValues
from cdc.lab.lesson import Findings
from cdc.lab.registry import find_lab
from cdc.lab.workplace import open_workplace
from tests.support.servers_fixture import Servers

SEED = 11


@dataclass(frozen=True)
class PartsOfTests:
    """Where the parts of the tests answer, as a workplace takes them."""

    servers: Servers

    @property
    def kafka_bootstrap(self) -> str:
        return self.servers.values.bootstrap

    @property
    def search_url(self) -> str:
        return self.servers.values.search_url

    def postgres_dsn(self, database: str = "postgres") -> str:
        v = self.servers.values
        return make_conninfo(host=v.host, port=v.port, user=v.user, password=self.servers.password, dbname=database)

    def template_values(self) -> TemplateValues:
        return self.servers.values


def watch(servers: Servers, name: str, seed: int = SEED) -> Findings:
    """Run a lab; its figure can be drawn."""
    with open_workplace(PartsOfTests(servers), seed, lambda _: None) as place:
        found = find_lab(name).load().run(place)
    assert found.figure.draw().startswith("<?xml")
    assert all(len(row) == len(found.columns) for row in found.rows)
    return found
