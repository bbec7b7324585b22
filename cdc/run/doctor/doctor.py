"""`cdc doctor`: runs the checks, and writes the scripts for the source's administrator."""

from collections.abc import Iterator, Sequence

from cdc.config.settings import PipelineSettings
from cdc.core.table import TableName
from cdc.run.doctor.asking import SilentPartError
from cdc.run.doctor.check import Severity
from cdc.run.doctor.dba_script import make_dba_script
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.providers import OWN, Provider
from cdc.run.doctor.role_script import make_role_script
from cdc.run.doctor.runner import Diagnosis, Finding, examine, select_checks
from cdc.run.pipeline import Pipeline

_LOGIN = "source.login"
OF_SLOT_SERVER = frozenset(
    {
        *(f"postgres.{name}" for name in ("free_slots", "free_senders", "slot_room", "idle_slots", "sender_timeout")),
        *(f"slot.{name}" for name in ("ours", "room", "abandoned", "policy", "reader_is_ours")),
    }
)
"""Checks of the server where the slot lives."""


class Doctor:
    """Examines one pipeline. Changes nothing."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._parts = AskedParts(pipeline)

    def examine(self, names: Sequence[str] = ()) -> Diagnosis:
        """Run the checks of these names and categories, or all."""
        return examine(self._parts, select_checks(names))

    def write_fixes(self, diagnosis: Diagnosis) -> Iterator[str]:
        """The lines of SQL that an administrator has to run for what was found."""
        # a role that does not get in may not be there at all
        if any(finding.check == _LOGIN for finding in diagnosis.findings):
            yield from self.write_role()
        else:
            needed = [finding for finding in diagnosis.findings if self._is_for_source(finding)]
            yield from make_dba_script(needed, self._provider)

    def write_role(self) -> Iterator[str]:
        """The lines of SQL that make a role with the least rights, and what it may not make itself."""
        settings, superuser = self._parts.settings, self._is_superuser
        # a superuser stays what it is: the pipeline gets another role
        user = f"cdc_{settings.pipeline.name}" if superuser else settings.source.user
        names = self._name_tables(settings)
        triggers = self._provider.has_event_triggers
        yield from make_role_script(settings, names, self._provider, user, triggers=triggers)

    def _is_for_source(self, finding: Finding) -> bool:
        """Is there anything to run on the source? What is set where a slot lives on a standby is set there."""
        has_standby = self._parts.settings.source.standby_host is not None
        return finding.severity is not Severity.NOTE and not (has_standby and finding.check in OF_SLOT_SERVER)

    @property
    def _provider(self) -> Provider:
        try:
            return self._parts.provider
        except SilentPartError:
            return OWN

    @property
    def _is_superuser(self) -> bool:
        try:
            return bool(self._parts.source.role["rolsuper"])
        except SilentPartError:
            return False

    def _name_tables(self, settings: PipelineSettings) -> Sequence[TableName]:
        try:
            return self._parts.tables.names
        except SilentPartError:
            # a pattern names nothing without the source
            return settings.selection.names
