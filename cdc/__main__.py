"""`cdc` and `python -m cdc`: the command line with all its verbs."""

import os
import sys
from collections.abc import Sequence

# read when pyarrow is imported first; see cdc/run/spark/arenas.py
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# cheap: each verb imports its engine in its own body
from cdc.cli import app
from cdc.cli.everyday import control, erase, errors, logs, plan, rebuild, repair, tables, teardown, trace
from cdc.cli.verbs import (
    catalog,
    configuration,
    dead_letters,
    doctor,
    pipeline,
    recapture,
    serve,
    status,
    top,
    types,
    verify,
    views,
    wait,
)
from cdc.cli.verbs import services as parts
from cdc.demo import verbs as demo_verbs
from cdc.lab import verbs as lab_verbs
from cdc.torture import verbs as torture_verbs

VERBS: tuple[app.Register, ...] = (
    configuration.register,
    parts.register,
    pipeline.register,
    verify.register,
    recapture.register,
    doctor.register,
    status.register,
    top.register,
    serve.register,
    plan.register,
    tables.register,
    control.register,
    teardown.register,
    trace.register,
    erase.register,
    rebuild.register,
    repair.register,
    logs.register,
    views.register,
    wait.register,
    catalog.register,
    dead_letters.register,
    types.register,
    errors.register,
    demo_verbs.register,
    lab_verbs.register,
    torture_verbs.register,
)
"""Each module of verbs has a `register`; a new one is one line here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit codes are those of `cdc.core.errors`, 0 for success, 1 for a bug, 130 for Ctrl-C."""
    return app.run(sys.argv[1:] if arguments is None else arguments, VERBS)


if __name__ == "__main__":
    sys.exit(main())
