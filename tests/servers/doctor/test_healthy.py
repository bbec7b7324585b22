"""A healthy pipeline has one line, and a doctor changes nothing."""

import pytest

from cdc.__main__ import main
from tests.servers.doctor.site import Site, prepare
from tests.support.parts.pipelines import MakePipeline


@pytest.fixture(scope="module")
def site(make_shared_pipeline: MakePipeline) -> Site:
    return prepare(make_shared_pipeline("CREATE TABLE t (id int PRIMARY KEY, n int)", "ANALYZE", tables=("public.t",)))


def test_a_healthy_pipeline_is_one_line(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pipeline.set_environ(monkeypatch)
    assert main(["--config", str(site.pipeline.config), "doctor"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "all is well" in out
