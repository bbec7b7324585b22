"""`python -m cdc.local.fetch`: fetch every locked file for this platform into the cache, or name the one that fails."""

import sys

from cdc.core.errors import CdcError
from cdc.local.fetch.artifacts import list_parts
from cdc.local.fetch.jars import fetch


def main() -> int:
    """0 if each file has its locked hash, else 1 and a line about the first that has not."""
    for part in list_parts():
        try:
            sys.stdout.write(f"{part}: {len(fetch(part))} files\n")
        except CdcError as failure:
            sys.stderr.write(f"{failure}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
