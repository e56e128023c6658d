"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from providers.system.sandbox import Kind

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
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


def usd(text: str) -> Decimal:
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
    return Decimal(money.usd(nusd))


def nusd(amount: Decimal | None) -> int | None:
    """A cap as it is stored: nano-USD."""
    from store import money

    return None if amount is None else money.to_nusd(amount)


def names(text: str | None) -> tuple[str, ...]:
    """Comma-separated names; none where the flag is not given.

    Raises:
        typer.BadParameter: it is given and names nothing, such as an unset variable of a shell.
    """
    found = tuple(name for part in (text or "").split(",") if (name := part.strip()))
    if text is not None and not found:
        raise typer.BadParameter(f"expected task ids, got {text!r}", param_hint="--tasks")
    return found


def finite(value: float | None) -> float | None:
    """A number that is one: NaN passes every bound, and with infinity a limit would not hold.

    Raises:
        typer.BadParameter: it is not.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"expected a number, got {value}")
    return value


def given(**flags: Any) -> dict[str, Any]:
    """The flags that were given; the others leave what they would set as it is."""
    return {name: value for name, value in flags.items() if value is not None}


def directory(text: str | None) -> str | None:
    """A directory as it stays meant when somebody resumes from elsewhere: absolute."""
    return str(Path(text).resolve()) if text else None


MaxCalls = Annotated[
    int | None, typer.Option("--max-calls", min=1, metavar="N", help="Requests the sweep may make in all.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Tokens the sweep may use in all.")
]
MaxCostUsd = Annotated[
    Decimal | None,
    typer.Option(
        "--max-cost-usd",
        parser=usd,
        metavar="USD",
        help="US dollars the sweep may cost in all (5, $5, 0.25); needs the model's price.",
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help="What models cost; beats the prices of configuration files."),
]
MaxWall = Annotated[
    float | None,
    typer.Option("--max-wall", parser=duration, metavar="TIME", help="Stop the sweep after TIME (90s, 15m, 8h)."),
]
Rpm = Annotated[
    float | None,
    typer.Option("--rpm", min=0.01, callback=finite, metavar="N", help="Requests per minute the account may be asked."),
]
Tpm = Annotated[
    float | None,
    typer.Option("--tpm", min=1, callback=finite, metavar="N", help="Tokens per minute, by upper bounds."),
]
MaxWait = Annotated[
    float | None,
    typer.Option("--max-wait", parser=duration, metavar="TIME", help="Longest Retry-After to obey. [default: 120s]"),
]
MaxStall = Annotated[
    float | None,
    typer.Option(
        "--max-stall",
        parser=duration,
        metavar="TIME",
        help="End what waits when nothing happens so long, and what could only come later. [default: 10m]",
    ),
]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", min=1, max=1000, metavar="N", help="Runs in flight at once. [default: 4]")
]
ProviderName = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help="anthropic, ollama, openai (chat completions), openai-responses, scripted, typesafe (decision labs only), "
        "or a plug-in's name.",
    ),
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="The provider's endpoint.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="VARIABLE", help="The variable that holds the credential.")
]
CassetteDir = Annotated[
    str | None,
    typer.Option("--cassette-dir", metavar="DIR", help="Cassettes to play or to write. [default: SUITE/cassettes]"),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep every run's workspace and print its path.")]
Out = Annotated[str | None, typer.Option("--out", metavar="DIR", help="Write the three report files here.")]
Sandbox = Annotated[
    str,
    typer.Option(
        "--sandbox",
        metavar="none|bwrap",
        help="Confine commands of the agent and of verifiers: bwrap needs bubblewrap.",
    ),
]


def kind_of_sandbox(text: str) -> Kind:
    """What confines commands.

    Raises:
        typer.BadParameter: there is no such thing.
    """
    from providers.system.sandbox import KINDS

    for kind in KINDS:
        if text == kind:
            return kind
    raise typer.BadParameter(f"expected {' or '.join(KINDS)}, got {text!r}", param_hint="--sandbox")
