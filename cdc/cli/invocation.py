"""The global options of one run of the command line, and the settings that they name."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cdc.cli import output
from cdc.cli.privacy import allow

if TYPE_CHECKING:
    from cdc.config.file import LoadedSettings
    from cdc.config.settings import PipelineSettings

DEFAULT_CONFIG = Path("cdc.yaml")


class Invocation:
    """One run of the command line. Reads the configuration when it is first needed."""

    def __init__(self, config: Path = DEFAULT_CONFIG) -> None:
        self.config = config

    @classmethod
    def of(cls, context: typer.Context) -> "Invocation":
        return context.ensure_object(cls)

    @property
    def settings(self) -> "PipelineSettings":
        """The settings of the configuration file; see `loaded`."""
        return self.loaded.settings

    @cached_property
    def loaded(self) -> "LoadedSettings":
        """The configuration file, read once; warnings go to stderr.

        Raises ConfigurationError with everything that is wrong with the file.
        """
        from cdc.config.file import read

        loaded = read(self.config)
        for warning in loaded.warnings:
            output.warn(warning)
        allow(loaded.settings.pipeline.readable_by)
        return loaded
