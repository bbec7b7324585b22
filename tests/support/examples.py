"""How many random examples are tried: a fifth usually, all each week (`--further`, or CDC_TEST_PROFILE=thorough)."""

import os

import pytest
from hypothesis import settings

# a test's time says more of the machine than of the code
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)


def load_profile(config: pytest.Config) -> None:
    """Use the profile that CDC_TEST_PROFILE names; else the thorough one with `--further`, the quick one without."""
    usual = "thorough" if config.getoption("further") else "quick"
    settings.load_profile(os.environ.get("CDC_TEST_PROFILE", usual))


def scaled(count: int) -> int:
    """`count` in the thorough profile, a fifth of it in the quick one."""
    return max(count * settings().max_examples // 100, 1)


def examples(count: int) -> settings:
    """So many examples, `scaled`."""
    return settings(max_examples=scaled(count))
