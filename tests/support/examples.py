"""How many examples Hypothesis tries: few while one works, all in CI (`CDC_TEST_PROFILE=thorough`)."""

import os

from hypothesis import settings

# a test's time says more of the machine than of the code
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)


def load_profile() -> None:
    """Use the profile that CDC_TEST_PROFILE names."""
    settings.load_profile(os.environ.get("CDC_TEST_PROFILE", "quick"))


def examples(count: int) -> settings:
    """`count` examples in the thorough profile, a fifth of them in the quick one."""
    return settings(max_examples=max(count * settings().max_examples // 100, 1))
