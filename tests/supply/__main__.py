"""`python -m tests.supply SBOM`: the licences of a bill of materials as a table; exit code 1 if one is not allowed."""

import json
import sys
from pathlib import Path

from tests.supply.licences import find_refused, list_licences, to_markdown


def main(bill: Path) -> int:
    components = json.loads(bill.read_text(encoding="utf-8"))["components"]
    sys.stdout.write(to_markdown(components))
    refused = [*find_refused(components)]
    for component in refused:
        said = ", ".join(list_licences(component)) or "no licence"
        sys.stderr.write(f"{component['name']} {component.get('version', '')} has {said}, none that we may pass on\n")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
