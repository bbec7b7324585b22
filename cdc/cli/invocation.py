"""The global options of one run of the command line, and the settings that they name."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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
        self._early_start: Callable[[], SparkSession] | None = None

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

        return Pipeline(self.settings, self._early_start or partial(self._start_spark, verb))

    @contextmanager
    def starting_spark(self, verb: str) -> Iterator[None]:
        """Start the Spark of `open_pipeline` at once, beside the caller's imports and checks.

        At the end of the context, a Spark that no pipeline has asked for is ended.
        """
        from cdc.run.spark.early_start import EarlyStart, HeldLines
        from cdc.run.spark.pipeline_session import may_start_early

        if not may_start_early(self.settings):
            yield
            return
        lines = HeldLines(output.say)
        with closing(EarlyStart(partial(self._start_spark, verb, lines), lines)) as self._early_start:
            yield
        self._early_start = None

    def _start_spark(self, verb: str, say: Callable[[str], None] = output.say) -> "SparkSession":
        from cdc.run.spark.pipeline_session import build_spark_session

        return build_spark_session(self.settings, verb, progress=LineProgress(say))

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
