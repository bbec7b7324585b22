"""The global options of one run of the command line, and the settings that they name."""

from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cdc.cli import output
from cdc.cli.privacy import allow
from cdc.progress import LineProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc.config.file import LoadedSettings
    from cdc.config.settings import PipelineSettings
    from cdc.run.pipeline import Pipeline

DEFAULT_CONFIG = Path("cdc.yaml")


class Invocation:
    """One run of the command line. Reads the configuration when it is first needed."""

    def __init__(self, config: Path = DEFAULT_CONFIG) -> None:
        self.config = config

    @classmethod
    def of(cls, context: typer.Context) -> "Invocation":
        return context.ensure_object(cls)

    @classmethod
    def read(cls, context: typer.Context) -> "Invocation":
        """The same, with the configuration read: what is wrong with it is told before any engine is imported."""
        invocation = cls.of(context)
        _ = invocation.loaded
        return invocation

    @property
    def settings(self) -> "PipelineSettings":
        """The settings of the configuration file; see `loaded`."""
        return self.loaded.settings

    def open_pipeline(self, verb: str = "") -> "Pipeline":
        """The pipeline of the configuration; `verb` names its Spark, whose slow steps are printed as it starts."""
        from cdc.run.pipeline import Pipeline

        return Pipeline(self.settings, partial(self._start_spark, verb))

    def _start_spark(self, verb: str) -> "SparkSession":
        from cdc.run.spark.pipeline_session import build_spark_session

        return build_spark_session(self.settings, verb, progress=LineProgress(output.say))

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
