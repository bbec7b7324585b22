"""The search index: one OpenSearch node on the loopback address, without its security plugin."""

import shutil
from typing import Final

import httpx

from cdc.https import tls_context
from cdc.local.endpoints import Endpoints, Service
from cdc.local.launch_context import LaunchContext
from cdc.local.running.processes import Launch
from cdc.local.servers import jvm
from cdc.local.state.files import write
from cdc.local.state.ports import LOOPBACK

TRANSPORT: Final = "search.transport"
PORTS: Final = (Service.SEARCH, TRANSPORT)
FILES: Final = ("opensearch",)
_RUNNER: Final = "org.codelibs.opensearch.runner.OpenSearchRunner"
_CLUSTER: Final = "cdc-local"


def launch(site: LaunchContext) -> Launch:
    """Write the node's settings; returns its launch."""
    folder = site.home.folder(Service.SEARCH)
    config = folder / "config"
    config.mkdir(mode=0o700, parents=True, exist_ok=True)
    write(config / "opensearch.yml", node_settings(site))
    shutil.copyfile(jvm.LOGGING, config / "log4j2.properties")
    # the runner takes the first free port above the one it is given
    arguments = {
        "-basePath": folder,
        "-confPath": config,
        "-dataPath": folder / "data",
        "-logsPath": site.home.logs,
        "-clusterName": _CLUSTER,
        "-numOfNode": 1,
        "-baseHttpPort": site.ports[Service.SEARCH] - 1,
    }
    words = [text for pair in arguments.items() for text in map(str, pair)]
    return jvm.launch(site, Service.SEARCH, jvm.Program(_RUNNER, words, "opensearch", "768m"))


def node_settings(site: LaunchContext) -> str:
    """The node's opensearch.yml. On a laptop's nearly full disk it would else make its indexes read-only."""
    return (
        f"network.host: {LOOPBACK}\n"
        f"transport.port: {site.ports[TRANSPORT]}\n"
        "discovery.type: single-node\n"
        "cluster.routing.allocation.disk.threshold_enabled: false\n"
    )


def answers(endpoints: Endpoints) -> bool:
    """Whether the node has its cluster's state and can serve its indexes."""
    try:
        health = httpx.get(f"{endpoints.search_url}/_cluster/health", timeout=5, trust_env=False, verify=tls_context())
    except httpx.TransportError:
        return False
    if health.status_code != 200:
        return False
    found = health.json()
    # yellow will do: replicas have no second node to be on
    return found["cluster_name"] == _CLUSTER and found["status"] in ("yellow", "green")
