"""The table of verbs: the module, the one-line help, the exit codes and the help section of each.

The help of the application is written from this table, so that printing it imports no verb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from orchestrator.cli.common import (
    EXIT_ASKS,
    EXIT_COMPARES,
    EXIT_LAB_LIVE,
    EXIT_LAB_OFFLINE,
    EXIT_READS,
    EXIT_REPLAYS,
    EXIT_RUNS,
    EXIT_SERVES,
    Exit,
)


class Verb(NamedTuple):
    """One verb."""

    place: str
    """`MODULE:FUNCTION`, the module below `orchestrator.cli`."""
    help: str
    """The first sentence of the function's docstring."""
    codes: str
    """The sentence on its exit codes, at the end of its help."""
    usage: int = Exit.FAILED
    """The exit code of a usage error."""
    hidden: bool = False
    """True: the help of the application leaves it out."""


class Group(NamedTuple):
    """A word with verbs of its own, such as `lab`."""

    help: str
    sections: Mapping[str, Mapping[str, Verb | Group]]
    """Its verbs by section of its help."""
    usage: int = Exit.FAILED
    """The exit code if its verb is missing or unknown."""
    hidden: bool = False


Sections: TypeAlias = Mapping[str, Mapping[str, Verb | Group]]

LAB = Group(
    "Decision labs: run cases through decision flows, offline or against real backends.",
    {
        "Commands": {
            "check": Verb(
                "lab.check:check",
                "Check lab.yaml, the daemon configuration and every fixture without running anything.",
                EXIT_READS,
            ),
            "offline": Verb(
                "lab.offline:offline", "Run the fixtures from their replay or from cassettes.", EXIT_LAB_OFFLINE
            ),
            "record": Verb(
                "lab.record:record",
                "Run each fixture once against each target, and write the answers as cassettes.",
                EXIT_LAB_LIVE,
            ),
            "live": Verb(
                "lab.live:live",
                "Run fixtures x targets x repetitions against the real backends, and measure.",
                EXIT_LAB_LIVE,
            ),
        }
    },
)
HUB = Group(
    "Serve decisions over HTTP to programs on this machine.",
    {
        "Commands": {
            "serve": Verb(
                "lab.hub:serve",
                'Answer POST /v1/hub with {"capability": NAME, "input": ...} on this machine, until a signal ends it.',
                EXIT_SERVES,
            )
        }
    },
)
SECTIONS: Sections = {
    "Suites": {
        "list": Verb("suite.suites:list_suites", "List the bundled suites, and those in DIR.", EXIT_READS),
        "check": Verb("suite.suites:check", "Check suites and their scripts without running anything.", EXIT_READS),
        "gen-stress": Verb(
            "suite.gen_stress:gen_stress",
            "Write the suite long-context-stress with N instances of chain-walk-rules.",
            EXIT_READS,
            hidden=True,
        ),
        "run": Verb("suite.run:run", "Run SUITE k times per task and report what passed.", EXIT_RUNS),
        "variants": Verb(
            "suite.variants:variants",
            "Run SUITE under two or more variants of the configuration and compare them.",
            EXIT_ASKS,
        ),
        "record": Verb("suite.record:record", "Run each task of SUITE once, live, and write its cassette.", EXIT_ASKS),
        "verify": Verb(
            "suite.verify:verify",
            "Run the current verifiers of SWEEP's suite on the stored workspaces of its runs.",
            EXIT_READS,
        ),
        "ci": Verb(
            "suite.ci:ci", "Replay every cassette of the bundled suites, or of those in --suite-dir.", EXIT_REPLAYS
        ),
    },
    "Sweeps": {
        "resume": Verb(
            "sweeps.resume:resume", "Finish SWEEP: the runs that have no final result, and no others.", EXIT_RUNS
        ),
        "status": Verb("sweeps.status:status", "Show the state of SWEEP, also while it runs.", EXIT_READS),
        "show": Verb("sweeps.show:show", "Show a sweep's report, or one run.", EXIT_READS),
        "compare": Verb(
            "sweeps.compare:compare",
            "Compare two reports or sweeps of the same suite, or two targets of a lab (SWEEP:TARGET).",
            EXIT_COMPARES,
        ),
        "export": Verb(
            "suite.export:export",
            "Write SWEEP to one JSON file to share: its report, its runs and the report as Markdown.",
            EXIT_READS,
        ),
        "pause": Verb(
            "sweeps.commands:pause",
            "Pause SWEEP: nothing new starts, running attempts end, and its processes wait for `continue`.",
            EXIT_READS,
        ),
        "continue": Verb("sweeps.commands:continue_sweep", "Continue a paused SWEEP.", EXIT_READS),
        "cancel": Verb(
            "sweeps.commands:cancel",
            "Cancel SWEEP: end and record what runs, and skip the rest.",
            EXIT_READS,
        ),
    },
    "Decision labs": {"lab": LAB, "hub": HUB},
}
"""Every verb and group, by section and in the order of the help."""


def merge_sections(sections: Sections) -> dict[str, Verb | Group]:
    """Collect all verbs and groups of *sections* by name."""
    return {name: entry for entries in sections.values() for name, entry in entries.items()}


def usage_code_of(words: Sequence[str], sections: Sections = SECTIONS) -> int:
    """Return the exit code of a usage error in the command line *words*, which holds no global flags."""
    entries, code = merge_sections(sections), int(Exit.FAILED)
    for word in words:
        entry = entries.get(word)
        if entry is None:
            break
        code = entry.usage
        if isinstance(entry, Verb):
            break
        entries = merge_sections(entry.sections)
    return code
