"""Cases that take a path of the product which another test takes, too: `pytest --further` runs them as well.

`further("stopped", "STOPPED")` is a parameter set of such a case; its test's docstring says of which kind it is. The
summary counts those that were left out.
"""

import os

import pytest

COUNTED = pytest.StashKey[int]()


def further(id: str, *values: object) -> "pytest.ParameterSet":
    """Parameters of a test that are tried only when asked for."""
    return pytest.param(*values, id=id, marks=pytest.mark.further)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--further",
        action="store_true",
        default=bool(os.environ.get("CDC_TEST_FURTHER")),
        help="also run further cases of kinds that other tests have",
    )


def deselect_further(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the further cases, unless they are asked for, and count them."""
    left_out = [item for item in items if item.get_closest_marker("further")]
    if config.getoption("further") or not left_out:
        return
    items[:] = [item for item in items if not item.get_closest_marker("further")]
    config.hook.pytest_deselected(items=left_out)
    config.stash[COUNTED] = len(left_out)
    if hasattr(config, "workeroutput"):
        config.workeroutput["further"] = len(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Each worker of xdist has collected all tests: one's count is that of the run."""
    config, output = getattr(node, "config", None), getattr(node, "workeroutput", {})
    if isinstance(config, pytest.Config) and "further" in output:
        config.stash[COUNTED] = output["further"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(COUNTED, 0):
        terminalreporter.write_line(f"{count} further cases of kinds that were tried were left out: pytest --further")
