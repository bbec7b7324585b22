"""`cdc plan`: what `cdc bootstrap` would do now, as a diff. It only reads, but for an object in the lake's store,
which goes again."""

from collections.abc import Sequence

from cdc.core.table import TableName
from cdc.run.copy.bootstrap_checks import check_bootstrap
from cdc.run.pipeline import Pipeline
from cdc.run.plan.capture_steps import CaptureSteps
from cdc.run.plan.copy_steps import list_copy_steps
from cdc.run.plan.step import Plan


def plan_bootstrap(pipeline: Pipeline, again: Sequence[TableName] = ()) -> Plan:
    """Compare what is there with what a bootstrap would make. Raises CdcError where it would refuse to begin."""
    with pipeline.open_source() as connection, pipeline.open_connect() as client:
        checks = check_bootstrap(pipeline, connection, again)
        capture = CaptureSteps(pipeline, connection, client, checks).list_all()
        return Plan([*capture, *list_copy_steps(pipeline, connection, checks)], checks.lines())
