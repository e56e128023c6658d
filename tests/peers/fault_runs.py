"""Meets the installed command with every fault, and holds what came of it against `data/faults.json`.

Cases that leave an account as it is share one sweep, one task each; those that pause, block or change it, or that need
flags or signals of their own, have a sweep for themselves.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time  # noqa: TID251 - a witness has a clock of its own
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs

from tests.peers.driver import Driver, Endpoint, Started, clean_environment, running_endpoint, until
from tests.peers.faults import DATA

Json = Any

KEY = "sk-planted-7f3a9c51e2d84b60"
"""The credential that must not be seen again."""
LIMITS = {"firstTokenTimeoutMs": 2000}
IDLE_S = "1"
SIDE_BY_SIDE = 3
BUDGET = {"maxTurns": 10, "maxWallMs": 600_000}


@attrs.frozen(kw_only=True)
class Case:
    """One fault, the sweep that meets it, and what has to come of it."""

    row: int
    number: int
    """Of its row's cases."""
    fault: str
    does: str
    expect: Mapping[str, Json]
    k: int = 1
    flags: tuple[str, ...] = ()
    config: Mapping[str, Json] = attrs.field(factory=dict[str, Json])
    task: Mapping[str, Json] = attrs.field(factory=dict[str, Json])
    alone: bool = False

    @property
    def id(self) -> str:
        """Names the case, and its task."""
        return f"{self.row:02}-{self.fault}" + (f"-{self.number}" if self.number else "")


@attrs.frozen(kw_only=True)
class Seen:
    """What came of a case: figures of the store, and what the server wrote down."""

    code: int
    outcomes: Mapping[str, int]
    calls: int
    tokens: int
    unknown: int
    measured: tuple[int | None, int | None]
    """Input and output tokens in the outcome."""
    wall_ms: int
    models: frozenset[str]
    incidents: Mapping[str, int]
    errors: tuple[str, ...]
    waits_ms: tuple[int, ...]
    messages: tuple[str, ...]
    texts: str
    tools: tuple[bool, ...]
    """Of each tool call whether it failed."""
    notices: frozenset[str]
    lines: tuple[Json, ...]
    """The server's books."""
    said: str
    """All that the command wrote."""
    leaked: tuple[str, ...]
    """Files in which the credential stands."""
    late_ms: float
    """How long after its end was called for the last request was let go."""


def cases() -> list[Case]:
    """Every case of the data file, in its order."""
    return [
        Case(row=row["row"], number=number, **(case | {"flags": tuple(case.get("flags", ()))}))
        for row in json.loads(DATA.read_bytes())["rows"]
        for number, case in enumerate(row["cases"])
    ]


def sweeps(wanted: Sequence[Case]) -> list[list[Case]]:
    """The cases by the sweep they belong to."""
    shared = [case for case in wanted if not case.alone]
    return ([shared] if shared else []) + [[case] for case in wanted if case.alone]


def meet(folder: Path, wanted: Sequence[Case]) -> dict[str, Seen]:
    """Run every case; what came of it by the case's id."""
    seen: dict[str, Seen] = {}
    crowd = [case for case in wanted if "peak" in case.expect]
    with (
        running_endpoint(folder / "ledger.jsonl", program="faults") as endpoint,
        ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
    ):
        alone = [one for one in sweeps(wanted) if one[0] not in crowd]
        for found in pool.map(lambda one: sweep(folder / one[0].id, endpoint, one), alone):
            seen |= found
    for case in crowd:  # a server for itself, whose peak is the sweep's
        with running_endpoint(folder / f"{case.id}.jsonl", program="faults") as endpoint:
            seen |= sweep(folder / case.id, endpoint, [case])
    return seen


def sweep(home: Path, endpoint: Endpoint, together: Sequence[Case]) -> dict[str, Seen]:
    """One sweep of these cases, and what it left."""
    home.mkdir(parents=True)
    suite(home / "faulty", together)
    first = together[0]
    evalctl = Driver(home, clean_environment(home, EVALCTL_IDLE_SECONDS=IDLE_S, OPENAI_API_KEY=KEY))
    config = {"schemaVersion": 1, **first.config, "limits": LIMITS | first.config.get("limits", {})}
    (home / "evalctl.json").write_text(json.dumps(config), encoding="utf-8")
    flags = ["--k", str(first.k), "--provider", "openai", "--model", "peer-1", *first.flags]
    if "--concurrency" not in flags:
        flags += ["--concurrency", str(len(together))]
    with contextlib.ExitStack() as stack:
        stack.callback(evalctl.close)
        url = stack.enter_context(closed_port()) if first.fault == "refused" else endpoint.url
        command = ["--json", "run", "faulty", "--suite-dir", str(home / "faulty"), "--yes", "--base-url", url, *flags]
        started = evalctl.start(*command)
        at = interrupt(evalctl, started) if first.expect.get("interrupted") else None
        done = started.finish()
        name = evalctl.sweep_names()[-1]
        until(lambda: let_go(endpoint, name), f"the requests of {name} to be let go")
        return {
            case.id: observe(
                evalctl, case, [line for line in endpoint.lines() if line["key"].startswith(f"{name}/")], at,
                code=done.code, said=done.stdout + done.stderr,
            )
            for case in together
        }  # fmt: skip


def let_go(endpoint: Endpoint, name: str) -> bool:
    """Whether the endpoint holds no request of a sweep."""
    return not any(key.startswith(f"{name}/") for key in endpoint.counts()["open"])


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """A URL on which nobody listens, and on which nobody else will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


def interrupt(evalctl: Driver, started: Started) -> float:
    """Ctrl-C twice in mid-stream; when the second was sent."""
    responded = "SELECT count(*) FROM event WHERE kind = 'call_responded'"
    until(lambda: evalctl.number(responded), "the answer to begin")
    started.signal(signal.SIGINT)
    until(lambda: "Ctrl-C" in started.said(), "the first Ctrl-C to be told")
    started.signal(signal.SIGINT)
    return time.time()


def suite(root: Path, together: Sequence[Case]) -> None:
    """A suite with a task for each case."""
    (root / "fixtures" / "note").mkdir(parents=True)
    (root / "fixtures" / "note" / "note.txt").write_text("hello\n", encoding="ascii")
    common = {
        "fixture": "fixtures/note",
        "budget": BUDGET,
        "policy": {"mode": "auto", "allow": []},
        "verifiers": [{"kind": "file-contains", "id": "note", "path": "note.txt", "text": "hello"}],
    }
    tasks = [
        {"id": case.id, "prompt": f"Say that it is done. [[fault={case.fault}]]", **common, **case.task}
        for case in together
    ]
    document = {
        "schemaVersion": 1,
        "suiteId": "faulty",
        "suiteVersion": "1.0.0",
        "description": "Faults.",
        "tasks": tasks,
    }
    (root / "suite.json").write_text(json.dumps(document), encoding="utf-8")


RUNS = """
SELECT run.position, outcome.outcome, outcome.reason, outcome.calls, outcome.input_tokens, outcome.output_tokens,
       outcome.wall_ms, outcome.model_resolved, outcome.detail, outcome.attempt_id
FROM outcome JOIN attempt ON attempt.id = outcome.attempt_id JOIN run ON run.id = attempt.run_id
     JOIN cell ON cell.id = run.cell_id
WHERE cell.case_id = ? ORDER BY run.position
"""
EVENTS = """
SELECT event.kind, event.payload FROM event JOIN attempt ON attempt.id = event.attempt_id
       JOIN run ON run.id = attempt.run_id JOIN cell ON cell.id = run.cell_id
WHERE cell.case_id = ? AND event.kind IN ('call', 'text', 'tool_completed') ORDER BY event.attempt_id, event.seq
"""


def observe(
    evalctl: Driver, case: Case, lines: Sequence[Json], called_at: float | None, *, code: int, said: str
) -> Seen:
    """What came of one case of a sweep that has ended."""
    runs = evalctl.query(RUNS, case.id)
    events = [(kind, json.loads(text)) for kind, text in evalctl.query(EVENTS, case.id)]
    details = [json.loads(row[8]) for row in runs]
    positions = {row[0] for row in runs}
    mine = tuple(line for line in lines if int(line["key"].split("/")[1]) in positions)
    incidents: Counter[str] = Counter()
    for detail in details:
        incidents.update(detail.get("incidents", {}))
    called = [payload for kind, payload in events if kind == "call"]
    wall_s = case.task.get("budget", BUDGET)["maxWallMs"] / 1000
    return Seen(
        code=code,
        outcomes=Counter(outcome + (f"({reason})" if reason else "") for _, outcome, reason, *_ in runs),
        calls=sum(row[3] or 0 for row in runs),
        tokens=sum(detail.get("spent", {}).get("tokens", 0) for detail in details),
        unknown=sum(detail.get("spent", {}).get("unknownUsage", 0) for detail in details),
        measured=(runs[0][4], runs[0][5]) if runs else (None, None),
        wall_ms=max((row[6] or 0 for row in runs), default=0),
        models=frozenset(row[7] for row in runs if row[7]),
        incidents=incidents,
        errors=tuple(call["error"] for call in called if "error" in call),
        waits_ms=tuple(call["retry_in_ms"] for call in called if call.get("retry_in_ms") is not None),
        messages=tuple(detail["message"] for detail in details if "message" in detail),
        texts="".join(payload.get("text", "") for kind, payload in events if kind == "text"),
        tools=tuple(payload["is_error"] for kind, payload in events if kind == "tool_completed"),
        notices=frozenset(kind for (kind,) in evalctl.query("SELECT kind FROM notice")),
        lines=mine,
        said=said,
        leaked=tuple(
            str(file.relative_to(evalctl.home))
            for file in evalctl.home.rglob("*")
            if file.is_file() and KEY.encode() in file.read_bytes()
        ),
        late_ms=max(((line["until"] - (called_at or line["at"] + wall_s)) * 1000 for line in mine), default=0.0),
    )


def differences(case: Case, seen: Seen) -> list[str]:
    """In what a case did not come to what was expected; empty when all is well."""
    expect = case.expect
    wrong: list[str] = []

    def same(what: str, wanted: object, found: object) -> None:
        if wanted != found:
            wrong.append(f"{what}: expected {wanted}, saw {found}")

    def holds(what: str, *, true: bool) -> None:
        if not true:
            wrong.append(what)

    if case.alone:
        same("exit code", expect.get("exit", 0), seen.code)
    same("credential in", (), seen.leaked)
    if "any" in expect["outcomes"]:
        return wrong + crowd_differences(expect, seen)
    same("outcomes", expect["outcomes"], dict(seen.outcomes))
    same("requests", expect["requests"], len(seen.lines))
    same("calls", expect.get("calls", expect["requests"]), seen.calls)
    same("tokens", expect["tokens"], seen.tokens)
    same("requests of unknown usage", expect["unknown"], seen.unknown)
    same("errors", tuple(expect.get("errors", ())), seen.errors)
    for name, count in expect.get("incidents", {}).items():
        same(f"incident {name}", count, seen.incidents.get(name, 0))
    if "waits_ms" in expect:
        bounds = expect["waits_ms"]
        fits = len(bounds) == len(seen.waits_ms) and all(
            low <= ms <= high for ms, (low, high) in zip(seen.waits_ms, bounds, strict=True)
        )
        holds(f"waits: expected {bounds}, saw {seen.waits_ms}", true=fits)
    for index, name in enumerate(("input", "output")):
        if name in expect:
            same(f"measured {name}", expect[name], seen.measured[index])
    if "tool_calls" in expect:
        same("tools run", expect["tool_calls"], len(seen.tools))
    if "tool_errors" in expect:
        same("tools failed", expect["tool_errors"], sum(seen.tools))
    if "model" in expect:
        same("model", {expect["model"]}, seen.models)
    if "warned" in expect:
        same("told in the report", True, f"answered by {expect['warned']}" in seen.said)
    if "partial" in expect:
        holds(f"partial text {expect['partial']!r} is kept", true=expect["partial"] in seen.texts)
    if "message_below" in expect:
        holds("messages are short", true=all(len(text) < expect["message_below"] for text in seen.messages))
        holds("messages hold no tags", true=not any(expect["message_lacks"] in text for text in seen.messages))
    if "wall_ms_below" in expect:
        holds(f"the wait is not in {seen.wall_ms} ms of work", true=seen.wall_ms < expect["wall_ms_below"])
    if "gone_within_ms" in expect:
        holds(f"let go {seen.late_ms:.0f} ms late", true=seen.late_ms < expect["gone_within_ms"])
    missing = set(expect.get("notices", ())) - seen.notices
    same("notices missing", set(), missing)
    return wrong


def crowd_differences(expect: Mapping[str, Json], seen: Seen) -> list[str]:
    """The same for a crowd of requests that met anything: nothing is lost, doubled or unaccounted for."""
    wrong = []
    if sum(seen.outcomes.values()) != expect["outcomes"]["any"]:
        wrong.append(f"runs: expected {expect['outcomes']['any']}, saw {sum(seen.outcomes.values())}")
    if strange := {name for name in seen.outcomes if name.partition("(")[0] not in ("pass", "fail", "error")}:
        wrong.append(f"strange outcomes: {strange}")
    if seen.calls != len(seen.lines):
        wrong.append(f"requests: the command counts {seen.calls}, the server {len(seen.lines)}")
    if (told := sum(line["input_tokens"] + line["output_tokens"] for line in seen.lines)) != seen.tokens:
        wrong.append(f"tokens: the command counts {seen.tokens}, the server {told}")
    if (peak := max(line["peak"] for line in seen.lines)) > expect["peak"]:
        wrong.append(f"at once: {peak}, allowed {expect['peak']}")
    return wrong
