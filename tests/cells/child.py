"""`python -m tests.cells.child`: a `cdc` as a process, which arms the fail points that it reads from its input."""

import sys
import threading

from cdc.__main__ import main
from cdc.core.fail_points import arm
from tests.cells.quick import quicken


def _listen() -> None:
    for line in sys.stdin:
        arm(line.strip())


if __name__ == "__main__":
    quicken()
    threading.Thread(target=_listen, daemon=True).start()
    sys.exit(main())
