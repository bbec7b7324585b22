"""The page about settings matches the code, and every setting has a meaning."""

import json
import re
from pathlib import Path

from cdc.config import settings_page as reference
from cdc.config.validation import PATTERNS, plain_schema

PAGE = Path(__file__).parents[3] / "cdc/config/SETTINGS.md"


def test_settings_page_matches_the_code() -> None:
    assert PAGE.read_text().endswith(f"\n\n{reference.to_markdown()}\n"), "run `cdc config schema --markdown`"


def test_every_setting_says_what_it_means() -> None:
    rows = [line for line in reference.to_markdown().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_pattern_of_the_settings_has_a_sentence() -> None:
    patterns = set(re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', json.dumps(plain_schema())))
    assert {json.loads(pattern) for pattern in patterns} <= PATTERNS.keys()
