"""A source with too low a `wal_level` is reported before anything is made; with a Postgres of the test's own."""

from pathlib import Path

import psycopg
import pytest

from cdc.__main__ import main
from cdc.config.init import TemplateValues, template
from cdc.local.services import Home, Service, down, up


def test_wal_level_replica(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(up(home, {Service.POSTGRES}).postgres_dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_level = replica")
        connection.execute("CREATE TABLE things (id int PRIMARY KEY)")
    down(home)
    found = up(home, {Service.POSTGRES})
    values = TemplateValues(port=found.postgres_port, dbname="postgres", user="postgres", tables=("public.things",))
    (tmp_path / "cdc.yaml").write_text(template(values))
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", found.postgres_password.read())
    assert main(["--config", str(tmp_path / "cdc.yaml"), "bootstrap"]) == 3
    # beside the parts that do not run here
    said = capsys.readouterr().err.splitlines()
    assert (
        "error: the source has wal_level=replica → ALTER SYSTEM SET wal_level = logical; then restart Postgres" in said
    )
    with psycopg.connect(found.postgres_dsn(), autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
