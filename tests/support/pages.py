"""Examples of the pages, for the tests that run them."""

import re

from tests.support.cdc_subprocess import ROOT


def read_example(page: str, until: str = "") -> str:
    """The first block of YAML of a page, without what begins at the line `until`."""
    found = re.search(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found, page
    return found[1].split(f"{until}\n")[0] if until else found[1]
