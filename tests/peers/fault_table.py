"""`make faults`: every fault of the catalogue against the installed command, as a table.

    python -m tests.peers.fault_table [ROW...]

Exit codes: 0 everything came to what was expected; 1 something did not, and is told below the table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.peers.fault_runs import Case, Seen, cases, differences, meet

HEADINGS = ("ROW", "FAULT", "EXPECTED", "SEEN", "REQUESTS", "TOKENS", "OK")


def outcomes(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in sorted(found.items()))


def line(case: Case, seen: Seen, *, right: bool) -> tuple[str, ...]:
    """The cells of one case."""
    tokens = str(seen.tokens) + (f" + {seen.unknown} unknown" if seen.unknown else "")
    crowd = len(seen.outcomes) > 3
    came = f"{sum(seen.outcomes.values())} runs, {len(seen.outcomes)} outcomes" if crowd else outcomes(seen.outcomes)
    return (
        str(case.row),
        case.fault,
        outcomes(case.expect["outcomes"]),
        came,
        str(seen.calls),
        tokens,
        "ok" if right else "WRONG",
    )


def main() -> None:
    rows = {int(given) for given in sys.argv[1:]}
    wanted = [case for case in cases() if not rows or case.row in rows]
    with tempfile.TemporaryDirectory(prefix="evalctl-faults-") as folder:
        seen = meet(Path(folder), wanted)
    wrong = {case.id: differences(case, seen[case.id]) for case in wanted}
    table = [HEADINGS, *(line(case, seen[case.id], right=not wrong[case.id]) for case in wanted)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())  # noqa: T201
    for name, problems in wrong.items():
        for problem in problems:
            print(f"{name}: {problem}", file=sys.stderr)  # noqa: T201 - for the one who waits
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
