"""The `spark` block: the Spark that applies the changes, on this machine or on a cluster."""

import re
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from cdc.core.settings import SettingPath, Settings, finding_error, findings_error

PYTHON: Final = "spark.pyspark.python"
"""Spark's own name of the workers' Python."""
DECIDED: Final = {
    "spark.master": "is told by `spark.master` of this file, not below `conf`",
    "spark.submit.deployMode": "is always client: the driver reads this file, and runs where it is",
}
"""Settings that may not stand in `conf`, with the reason."""
SHOWN_TO_ALL: Final = (
    "has a reference, and options of Java are on a command line, which everybody can read; name a file"
)
_LOCAL: Final = re.compile(r"local(\[.*\])?")


class SparkSettings(Settings):
    master: str = Field(default="local[2]", min_length=1)
    """As Spark's `spark.master`."""
    python: str | None = Field(default=None, min_length=1)
    """The Python of a cluster's workers: its path on each of them. It is needed where `master` is no local one."""
    driver_memory: str = Field(default="2g", pattern=r"^[1-9][0-9]*[kmgtKMGT]$")
    """Memory of the driver's Java, as `spark.driver.memory`."""
    shuffle_partitions: int = Field(default=4, ge=1)
    """As `spark.sql.shuffle.partitions`."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Further settings of Spark, as Spark names them; they win."""

    @property
    def workers_python(self) -> str | None:
        """The Python of a cluster's workers, by either of its names."""
        return self.conf.get(PYTHON, self.python)

    @field_validator("conf")
    @classmethod
    def _nothing_decided(cls, conf: dict[str, str]) -> dict[str, str]:
        if found := sorted(DECIDED.keys() & conf.keys()):
            raise findings_error([((name,), DECIDED[name]) for name in found])
        return conf

    @model_validator(mode="after")
    def _cluster_has_python(self) -> Self:
        if not is_local(self.master) and self.workers_python is None:
            raise finding_error(("python",), "is required for a cluster: the path of Python on its workers")
        return self


def is_local(master: str) -> bool:
    """Does this master run its tasks in the driver's own Java? `local-cluster` does not."""
    return _LOCAL.fullmatch(master) is not None


def is_on_command_line(place: SettingPath) -> bool:
    """Is the setting at this path of the file part of a command line of Java, here or on a worker?"""
    return place[:2] == ("spark", "conf") and str(place[-1]).endswith("JavaOptions")
