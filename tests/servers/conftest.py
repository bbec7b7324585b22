"""The servers that these tests need."""

from tests.servers_fixture import kafka_bootstrap, search_url

__all__ = ["kafka_bootstrap", "search_url"]
