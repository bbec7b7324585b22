"""The kinds of followers; a new one is its own file and one line here."""

from typing import Annotated

from pydantic import Field

from sinks.delta_table import DeltaSettings
from sinks.latest import LatestSettings
from sinks.search import SearchSettings

FollowerSettings = Annotated[DeltaSettings | SearchSettings | LatestSettings, Field(discriminator="kind")]
