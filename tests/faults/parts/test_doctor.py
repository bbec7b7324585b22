"""Settings of a whole server that a doctor finds, and what `--fix-sql` prints for them, which is run."""

import pytest

from tests.servers.doctor.site import Site
from tests.support.parts.pipelines import MakePipeline
from tests.support.waiting import until

SETTINGS = {
    "postgres.sender_timeout": ("wal_sender_timeout", "0"),
    "postgres.slot_bound": ("max_slot_wal_keep_size", "-1"),
    "postgres.slot_room": ("max_slot_wal_keep_size", "'16MB'"),
    "postgres.durable": ("full_page_writes", "off"),
}


@pytest.fixture(scope="module")
def site(make_shared_pipeline: MakePipeline) -> Site:
    pipeline = make_shared_pipeline("CREATE TABLE t (id int PRIMARY KEY)", tables=("public.t",))
    return Site(pipeline, pipeline.settings)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_found_and_set_by_what_is_printed(site: Site, name: str) -> None:
    setting, value = SETTINGS[name]
    try:
        site.run(f"ALTER SYSTEM SET {setting} = {value}", "SELECT pg_reload_conf()")
        until(lambda: bool(site.find(name)), "the setting holds")
        site.run_script(site.find(name))
        until(lambda: not site.find(name), "the other setting holds")
    finally:
        site.run(f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()")
