"""Options that several verbs share, the parsers of their values, and the panels of the help."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from providers.system.sandbox import SandboxKind

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class MissingParameter(typer.BadParameter):
    """A usage error: a parameter that is missing. The message names it, such as `argument SUITE`."""

    def format_message(self) -> str:
        """Return the sentence to print."""
        return f"Missing {self.message}."


def parse_duration(text: str) -> float:
    """Parse a duration such as `90`, `90s`, `15m`, `8h` or `500ms` into seconds.

    Raises:
        typer.BadParameter: *text* is no duration, or not above 0.
    """
    number, unit = text, "s"
    for name in ("ms", "s", "m", "h"):
        if text.endswith(name):
            number, unit = text.removesuffix(name), name
            break
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"expected a duration such as 90s, 15m or 8h, got {text!r}")
    return seconds


def parse_usd(text: str) -> Decimal:
    """Parse an amount such as `5`, `$5`, `5 USD` or `0.25` into US dollars.

    Raises:
        typer.BadParameter: *text* is no amount, or not above 0.
    """
    from store import money

    try:
        nusd = money.parse_usd(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if not nusd:
        raise typer.BadParameter(f"expected more than 0 US dollars, got {text!r}")
    return Decimal(money.format_nano_usd(nusd))


def to_nano_usd(amount: Decimal | None) -> int | None:
    """Convert US dollars to nano-USD, the unit of stored caps."""
    from store import money

    return None if amount is None else money.to_nusd(amount)


def split_names(text: str | None) -> tuple[str, ...]:
    """Split comma-separated names; empty if the flag is not given.

    Raises:
        typer.BadParameter: the flag is given but empty, for example from an unset shell variable.
    """
    names = tuple(name for item in (text or "").split(",") if (name := item.strip()))
    if text is not None and not names:
        raise typer.BadParameter(f"expected task ids, got {text!r}", param_hint="--tasks")
    return names


def check_finite(value: float | None) -> float | None:
    """Return *value* if it is finite: NaN passes every bound, and infinity is no limit.

    Raises:
        typer.BadParameter: it is NaN or infinite.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"expected a number, got {value}")
    return value


def drop_unset(**flags: Any) -> dict[str, Any]:
    """Return the flags that were given, that is, are not None."""
    return {name: value for name, value in flags.items() if value is not None}


def resolve_directory(text: str | None) -> str | None:
    """Make the path absolute, so that `resume` works from another directory."""
    return str(Path(text).resolve()) if text else None


RUN_PANEL = "What to run"
MODEL_PANEL = "Model"
LIMITS_PANEL = "Limits"
PERMISSIONS_PANEL = "Permissions"
OUTPUT_PANEL = "Output"

LARGEST_SEED = 2**53 - 1
"""The largest integer that every JSON reader represents exactly."""

SuiteName = Annotated[
    str | None,
    typer.Argument(metavar="SUITE", help="A suite's id or the name of its directory.", show_default=False),
]
Tasks = Annotated[
    str | None, typer.Option("--tasks", metavar="ID,ID", help="Run only these tasks.", rich_help_panel=RUN_PANEL)
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=-LARGEST_SEED,
        max=LARGEST_SEED,
        metavar="N",
        help="Seed of the run order; never sent to the provider.",
        rich_help_panel=RUN_PANEL,
    ),
]
SuiteDir = Annotated[
    Path | None,
    typer.Option(
        "--suite-dir", metavar="DIR", help="Your own suite, or a directory of suites.", rich_help_panel=RUN_PANEL
    ),
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model that answers.", rich_help_panel=MODEL_PANEL)
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Use this configuration file instead of the project's.",
        rich_help_panel=MODEL_PANEL,
    ),
]
TrustProject = Annotated[
    bool,
    typer.Option(
        "--trust-project",
        help="Let the project's configuration file set provider, endpoint and key variable.",
        rich_help_panel=PERMISSIONS_PANEL,
    ),
]
InputRate = Annotated[
    str | None,
    typer.Option(
        "--input-rate",
        metavar="USD",
        help="USD per million input tokens, for the estimate in the report.",
        rich_help_panel=MODEL_PANEL,
    ),
]
OutputRate = Annotated[
    str | None,
    typer.Option(
        "--output-rate",
        metavar="USD",
        help="USD per million output tokens; give both rates or neither.",
        rich_help_panel=MODEL_PANEL,
    ),
]
AllowWrite = Annotated[
    bool, typer.Option("--allow-write", help="Grant the effect write.", rich_help_panel=PERMISSIONS_PANEL)
]
AllowProcess = Annotated[
    bool, typer.Option("--allow-process", help="Grant the effect process.", rich_help_panel=PERMISSIONS_PANEL)
]
AllowExternal = Annotated[
    bool, typer.Option("--allow-external", help="Grant the effect external.", rich_help_panel=PERMISSIONS_PANEL)
]
AllowAnalysis = Annotated[
    bool,
    typer.Option(
        "--allow-analysis",
        help="Grant the effect analysis; no built-in tool has it.",
        rich_help_panel=PERMISSIONS_PANEL,
    ),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Grant only the effect read.", rich_help_panel=PERMISSIONS_PANEL)
]
AllowSuiteFull = Annotated[
    bool,
    typer.Option(
        "--allow-suite-full",
        help="Let tasks with mode full use every granted effect.",
        rich_help_panel=PERMISSIONS_PANEL,
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes", help="Run a suite from --suite-dir without asking for confirmation.", rich_help_panel=PERMISSIONS_PANEL
    ),
]
PrintConfig = Annotated[
    bool,
    typer.Option(
        "--print-config",
        help="Print every setting and its origin, with or without a SUITE; run nothing.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls", min=1, metavar="N", help="Limit the requests of the whole sweep.", rich_help_panel=LIMITS_PANEL
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", min=1, metavar="N", help="Limit the tokens of the whole sweep.", rich_help_panel=LIMITS_PANEL
    ),
]
MaxCostUsd = Annotated[
    Decimal | None,
    typer.Option(
        "--max-cost-usd",
        parser=parse_usd,
        metavar="USD",
        help="Limit the cost of the whole sweep in US dollars (5, $5, 0.25); needs the model's price.",
        rich_help_panel=LIMITS_PANEL,
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="Prices of models; override those of configuration files.",
        rich_help_panel=MODEL_PANEL,
    ),
]
MaxWall = Annotated[
    float | None,
    typer.Option(
        "--max-wall",
        parser=parse_duration,
        metavar="TIME",
        help="Stop the sweep after TIME (90s, 15m, 8h).",
        rich_help_panel=LIMITS_PANEL,
    ),
]
Rpm = Annotated[
    float | None,
    typer.Option(
        "--rpm",
        min=0.01,
        callback=check_finite,
        metavar="N",
        help="Limit requests per minute to the account.",
        rich_help_panel=LIMITS_PANEL,
    ),
]
Tpm = Annotated[
    float | None,
    typer.Option(
        "--tpm",
        min=1,
        callback=check_finite,
        metavar="N",
        help="Limit tokens per minute (estimated before sending, corrected afterwards).",
        rich_help_panel=LIMITS_PANEL,
    ),
]
MaxWait = Annotated[
    float | None,
    typer.Option(
        "--max-wait",
        parser=parse_duration,
        metavar="TIME",
        help="Obey a Retry-After up to TIME. [default: 120s]",
        rich_help_panel=LIMITS_PANEL,
    ),
]
MaxStall = Annotated[
    float | None,
    typer.Option(
        "--max-stall",
        parser=parse_duration,
        metavar="TIME",
        help="Give up waiting after TIME without progress, or at once if the wait is known to be longer. "
        "[default: 10m]",
        rich_help_panel=LIMITS_PANEL,
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        min=1,
        max=1000,
        metavar="N",
        help="Runs in flight at once. [default: 4]",
        rich_help_panel=LIMITS_PANEL,
    ),
]
ProviderName = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help="anthropic, ollama, openai (chat completions), openai-responses, scripted, typesafe (decision labs only), "
        "or a plug-in's name.",
        rich_help_panel=MODEL_PANEL,
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="The provider's endpoint.", rich_help_panel=MODEL_PANEL)
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--api-key-env",
        metavar="VARIABLE",
        help="The environment variable that holds the credential.",
        rich_help_panel=MODEL_PANEL,
    ),
]
CassetteDir = Annotated[
    str | None,
    typer.Option(
        "--cassette-dir",
        metavar="DIR",
        help="Directory of the cassettes. [default: SUITE/cassettes]",
        rich_help_panel=RUN_PANEL,
    ),
]
Keep = Annotated[
    bool, typer.Option("--keep", help="Keep every run's workspace and print its path.", rich_help_panel=OUTPUT_PANEL)
]
Out = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", help="Write the report files to DIR.", rich_help_panel=OUTPUT_PANEL),
]
Sandbox = Annotated[
    str,
    typer.Option(
        "--sandbox",
        metavar="none|bwrap",
        help="Confine commands of the agent and of verifiers; bwrap needs bubblewrap installed.",
        rich_help_panel=PERMISSIONS_PANEL,
    ),
]


def parse_sandbox(text: str) -> SandboxKind:
    """Parse the kind of sandbox.

    Raises:
        typer.BadParameter: there is no such kind.
    """
    from providers.system.sandbox import SANDBOX_KINDS

    for kind in SANDBOX_KINDS:
        if text == kind:
            return kind
    raise typer.BadParameter(f"expected {' or '.join(SANDBOX_KINDS)}, got {text!r}", param_hint="--sandbox")
