"""Options that several verbs share, how their values are read, and the panels of the help that they stand in."""

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
    """A usage error: a parameter that this command line needs was not given. Its message names it, `argument SUITE`."""

    def format_message(self) -> str:
        """The sentence that is printed."""
        return f"Missing {self.message}."


def parse_duration(text: str) -> float:
    """Seconds from `90`, `90s`, `15m`, `8h`, `500ms`.

    Raises:
        typer.BadParameter: it is none of these, or not above 0.
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
    """US dollars from `5`, `$5`, `5 USD`, `0.25`.

    Raises:
        typer.BadParameter: it is none of these, or not above 0.
    """
    from store import money

    try:
        nusd = money.parse_usd(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if not nusd:
        raise typer.BadParameter(f"expected more than 0 US dollars, got {text!r}")
    return Decimal(money.format_usd(nusd))


def to_nano_usd(amount: Decimal | None) -> int | None:
    """A cap as it is stored: nano-USD."""
    from store import money

    return None if amount is None else money.to_nusd(amount)


def split_names(text: str | None) -> tuple[str, ...]:
    """Comma-separated names; none where the flag is not given.

    Raises:
        typer.BadParameter: it is given and names nothing, such as an unset variable of a shell.
    """
    found = tuple(name for part in (text or "").split(",") if (name := part.strip()))
    if text is not None and not found:
        raise typer.BadParameter(f"expected task ids, got {text!r}", param_hint="--tasks")
    return found


def check_finite(value: float | None) -> float | None:
    """A number that is one: NaN passes every bound, and with infinity a limit would not hold.

    Raises:
        typer.BadParameter: it is not.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"expected a number, got {value}")
    return value


def drop_unset(**flags: Any) -> dict[str, Any]:
    """The flags that were given; the others leave what they would set as it is."""
    return {name: value for name, value in flags.items() if value is not None}


def resolve_directory(text: str | None) -> str | None:
    """A directory as it stays meant when somebody resumes from elsewhere: absolute."""
    return str(Path(text).resolve()) if text else None


WHAT = "What to run"
MODEL = "Model"
LIMITS = "Limits"
PERMISSIONS = "Permissions"
OUTPUT = "Output"

LARGEST_SEED = 2**53 - 1
"""The largest integer that every JSON reader represents exactly."""

SuiteName = Annotated[
    str | None,
    typer.Argument(metavar="SUITE", help="A suite's id or the name of its directory.", show_default=False),
]
Tasks = Annotated[str | None, typer.Option("--tasks", metavar="ID,ID", help="Only these tasks.", rich_help_panel=WHAT)]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=-LARGEST_SEED,
        max=LARGEST_SEED,
        metavar="N",
        help="Seed of the run order; never sent to the provider.",
        rich_help_panel=WHAT,
    ),
]
SuiteDir = Annotated[
    Path | None,
    typer.Option(
        "--suite-dir", metavar="DIR", help="A suite, or a directory of suites, of your own.", rich_help_panel=WHAT
    ),
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model to ask.", rich_help_panel=MODEL)
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Use this file instead of the project's.", rich_help_panel=MODEL),
]
TrustProject = Annotated[
    bool,
    typer.Option(
        "--trust-project",
        help="Let the project's file name provider, endpoint and key variable.",
        rich_help_panel=PERMISSIONS,
    ),
]
InputRate = Annotated[
    str | None,
    typer.Option(
        "--input-rate",
        metavar="USD",
        help="USD per million input tokens; for the estimate.",
        rich_help_panel=MODEL,
    ),
]
OutputRate = Annotated[
    str | None,
    typer.Option("--output-rate", metavar="USD", help="The same for output; both or neither.", rich_help_panel=MODEL),
]
AllowWrite = Annotated[bool, typer.Option("--allow-write", help="Grant the effect write.", rich_help_panel=PERMISSIONS)]
AllowProcess = Annotated[
    bool, typer.Option("--allow-process", help="Grant the effect process.", rich_help_panel=PERMISSIONS)
]
AllowExternal = Annotated[
    bool, typer.Option("--allow-external", help="Grant the effect external.", rich_help_panel=PERMISSIONS)
]
AllowAnalysis = Annotated[
    bool,
    typer.Option(
        "--allow-analysis",
        help="Grant the effect analysis; no built-in tool has it.",
        rich_help_panel=PERMISSIONS,
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Grant nothing but reading.", rich_help_panel=PERMISSIONS)]
AllowSuiteFull = Annotated[
    bool,
    typer.Option(
        "--allow-suite-full",
        help="Let tasks with mode full use all that is granted.",
        rich_help_panel=PERMISSIONS,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Run a --suite-dir suite without asking.", rich_help_panel=PERMISSIONS)
]
PrintConfig = Annotated[
    bool,
    typer.Option(
        "--print-config",
        help="Show every setting and where it comes from, with or without a SUITE; run nothing.",
        rich_help_panel=OUTPUT,
    ),
]
MaxCalls = Annotated[
    int | None,
    typer.Option("--max-calls", min=1, metavar="N", help="Requests the sweep may make in all.", rich_help_panel=LIMITS),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", min=1, metavar="N", help="Tokens the sweep may use in all.", rich_help_panel=LIMITS),
]
MaxCostUsd = Annotated[
    Decimal | None,
    typer.Option(
        "--max-cost-usd",
        parser=parse_usd,
        metavar="USD",
        help="US dollars the sweep may cost in all (5, $5, 0.25); needs the model's price.",
        rich_help_panel=LIMITS,
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="What models cost; beats the prices of configuration files.",
        rich_help_panel=MODEL,
    ),
]
MaxWall = Annotated[
    float | None,
    typer.Option(
        "--max-wall",
        parser=parse_duration,
        metavar="TIME",
        help="Stop the sweep after TIME (90s, 15m, 8h).",
        rich_help_panel=LIMITS,
    ),
]
Rpm = Annotated[
    float | None,
    typer.Option(
        "--rpm",
        min=0.01,
        callback=check_finite,
        metavar="N",
        help="Requests per minute the account may be asked.",
        rich_help_panel=LIMITS,
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
        rich_help_panel=LIMITS,
    ),
]
MaxWait = Annotated[
    float | None,
    typer.Option(
        "--max-wait",
        parser=parse_duration,
        metavar="TIME",
        help="Longest Retry-After to obey. [default: 120s]",
        rich_help_panel=LIMITS,
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
        rich_help_panel=LIMITS,
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
        rich_help_panel=LIMITS,
    ),
]
ProviderName = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help="anthropic, ollama, openai (chat completions), openai-responses, scripted, typesafe (decision labs only), "
        "or a plug-in's name.",
        rich_help_panel=MODEL,
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="The provider's endpoint.", rich_help_panel=MODEL)
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--api-key-env", metavar="VARIABLE", help="The variable that holds the credential.", rich_help_panel=MODEL
    ),
]
CassetteDir = Annotated[
    str | None,
    typer.Option(
        "--cassette-dir",
        metavar="DIR",
        help="Cassettes to play or to write. [default: SUITE/cassettes]",
        rich_help_panel=WHAT,
    ),
]
Keep = Annotated[
    bool, typer.Option("--keep", help="Keep every run's workspace and print its path.", rich_help_panel=OUTPUT)
]
Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="Write the three report files here.", rich_help_panel=OUTPUT)
]
Sandbox = Annotated[
    str,
    typer.Option(
        "--sandbox",
        metavar="none|bwrap",
        help="Confine commands of the agent and of verifiers: bwrap needs bubblewrap.",
        rich_help_panel=PERMISSIONS,
    ),
]


def kind_of_sandbox(text: str) -> SandboxKind:
    """What confines commands.

    Raises:
        typer.BadParameter: there is no such thing.
    """
    from providers.system.sandbox import SANDBOX_KINDS

    for kind in SANDBOX_KINDS:
        if text == kind:
            return kind
    raise typer.BadParameter(f"expected {' or '.join(SANDBOX_KINDS)}, got {text!r}", param_hint="--sandbox")
