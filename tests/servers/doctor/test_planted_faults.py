"""Every fault that can be planted on real parts is found by its name, and gone once its remedy was followed."""

from collections.abc import Iterator

import pytest
from psycopg import sql

from cdc.__main__ import main
from tests.servers.doctor.log_faults import CONNECT, LOG
from tests.servers.doctor.search_faults import SEARCH
from tests.servers.doctor.site import Planted, Site, prepare, try_fault
from tests.servers.doctor.source_faults import PUBLICATION, ROLE, SLOT, SOURCE, TRIGGERS, weak
from tests.servers.doctor.table_faults import TABLES
from tests.support.parts.pipelines import MakePipeline

PLANTED = (*SOURCE, *ROLE, *PUBLICATION, *SLOT, *TRIGGERS, *TABLES, *LOG, *CONNECT, *SEARCH)


@pytest.fixture(scope="module")
def site(make_shared_pipeline: MakePipeline) -> Iterator[Site]:
    table = ("CREATE TABLE t (id int PRIMARY KEY, n int)", "ANALYZE")
    found = prepare(make_shared_pipeline(*table, tables=("public.t",)))
    role, password = sql.Identifier(weak(found)), sql.Literal(found.pipeline.environ["CDC_TEST_PASSWORD"])
    found.pipeline.connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, password))
    yield found
    found.run(f"DROP OWNED BY {weak(found)}", f"DROP ROLE {weak(found)}")


def test_a_healthy_pipeline_is_one_line(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pipeline.set_environ(monkeypatch)
    assert main(["--config", str(site.pipeline.config), "doctor"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "all is well" in out


def test_sixty_faults_are_planted() -> None:
    assert len(PLANTED) >= 60


@pytest.mark.parametrize("fault", PLANTED, ids=str)
def test_a_planted_fault_is_found_and_its_remedy_helps(site: Site, fault: Planted) -> None:
    try_fault(site, fault)
