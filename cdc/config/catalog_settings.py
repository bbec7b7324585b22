"""The `catalog` block: where the lake's tables are registered, so that others find them by name."""

import re
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, model_validator

from cdc.core.settings import Settings, finding_error

_THRIFT: Final = re.compile(r"thrift://[^\s/@]+:\d+(,thrift://[^\s/@]+:\d+)*")
_JDBC: Final = re.compile(r"jdbc:(postgresql://[^\s@]+|derby:\S+)")
_FORMS: Final = "thrift://host:9083, jdbc:postgresql://host/metastore, jdbc:derby:…"


class CatalogSettings(Settings):
    kind: Literal["hive"]
    """A Hive metastore, as Spark, Trino and Hive ask it."""
    url: str = Field(min_length=1)
    """Its address, `thrift://host:9083`, or its own database: `jdbc:postgresql://host/metastore`, or Spark's
    `jdbc:derby:…`, which lets one process in at a time."""
    username: str | None = Field(default=None, min_length=1)
    """The user of the metastore's database."""
    password: SecretStr | None = Field(default=None, min_length=1)
    """Its password, by reference: `${env:NAME}` or `${file:path}`."""
    prefix: str | None = Field(default=None, pattern=r"^[a-z0-9_]{0,63}$")
    """What stands before a schema's name in the name of its database; left out, the pipeline's name and `_`."""

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        if not (_THRIFT.fullmatch(self.url) or _JDBC.fullmatch(self.url)):
            raise finding_error(("url",), f"is none of {_FORMS}")
        if (self.username or self.password) and not self.is_database:
            raise finding_error((), "username and password are for a metastore's database (jdbc:)")
        return self

    @property
    def is_database(self) -> bool:
        """Is the metastore asked by its own database?"""
        return self.url.startswith("jdbc:")
