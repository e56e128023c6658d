"""Meets the installed command with every fault, and holds what came of it against `data/faults.json`.

Cases that leave an account as it is share one sweep, one task each; those that pause, block or change it, or that need
flags or signals of their own, have a sweep for themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import socket
import time  # noqa: TID251 - a witness has a clock of its own
import zlib
from collections import Counter, defaultdict
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
PATIENT_S = 45
"""First-byte and idle time of those whose fault is another one: a busy machine alone is not to reach them."""
SIDE_BY_SIDE = 3
CLOCKS_MS = 5
"""What rounding takes away where times of two processes, or of two clocks, are compared."""
RUN_S = 300.0
"""How long a sweep may take before it counts as hung."""
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
    idle_s: int = PATIENT_S
    """How long a begun answer may pause; of a case that is alone."""

    @property
    def id(self) -> str:
        """Names the case, and its task."""
        return f"{self.row:02}-{self.fault}" + (f"-{self.number}" if self.number else "")


@attrs.frozen(kw_only=True)
class Met:
    """One request as both ends have it in their books: what the command recorded, and the server's line."""

    call: Json
    line: Json
    at: float
    until: float
    """Until one of the two let go; a server learns of it late. Seconds since 1970, as `at` is."""

    @classmethod
    def of(cls, call: Json, line: Json, ended_at: float) -> Met:
        return cls(call=call, line=line, at=line["at"], until=min(line["until"], ended_at))


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
    unwaited_ms: int
    """The least that is left of a run's time when its work and its waits are both taken away; below 0 something counts
    twice."""
    waited_ms: int
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
    called: tuple[tuple[str, Json, float], ...]
    """The command's records of requests; see `pairs`."""
    met: tuple[Met, ...]
    """The requests that both ends know."""
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
    evalctl = Driver(home, clean_environment(home, EVALCTL_IDLE_SECONDS=str(first.idle_s), OPENAI_API_KEY=KEY))
    limits = {"firstTokenTimeoutMs": PATIENT_S * 1000} | first.config.get("limits", {})
    config = {"schemaVersion": 1, **first.config, "limits": limits}
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
        done = started.finish(RUN_S)
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
       outcome.model_resolved, outcome.detail, outcome.wall_ms, outcome.waited_ms,
       (outcome.ended_at - outcome.started_at) / 1000
FROM outcome JOIN attempt ON attempt.id = outcome.attempt_id JOIN run ON run.id = attempt.run_id
     JOIN cell ON cell.id = run.cell_id
WHERE cell.case_id = ? ORDER BY run.position
"""
EVENTS = """
SELECT event.kind, event.payload, run.position || '/' || attempt.number, attempt.claimed_at / 1e6 + event.at / 1e3,
       blob.codec, blob.data
FROM event LEFT JOIN blob ON blob.id = event.blob_id JOIN attempt ON attempt.id = event.attempt_id
       JOIN run ON run.id = attempt.run_id JOIN cell ON cell.id = run.cell_id
WHERE cell.case_id = ? AND event.kind IN ('call', 'text', 'tool_completed') ORDER BY event.attempt_id, event.seq
"""


def observe(
    evalctl: Driver, case: Case, lines: Sequence[Json], called_at: float | None, *, code: int, said: str
) -> Seen:
    """What came of one case of a sweep that has ended."""
    runs = evalctl.query(RUNS, case.id)
    events = [
        (kind, json.loads(text if data is None else zlib.decompress(data) if codec == "zlib" else data), attempt, at)
        for kind, text, attempt, at, codec, data in evalctl.query(EVENTS, case.id)
    ]
    details = [json.loads(row[7]) for row in runs]
    positions = {row[0] for row in runs}
    mine = tuple(line for line in lines if int(line["key"].split("/")[1]) in positions)
    incidents: Counter[str] = Counter()
    for detail in details:
        incidents.update(detail.get("incidents", {}))
    called = tuple((f"{of}/{call['request']}", call, at) for kind, call, of, at in events if kind == "call")
    wall_s = case.task.get("budget", BUDGET)["maxWallMs"] / 1000
    return Seen(
        code=code,
        outcomes=Counter(outcome + (f"({reason})" if reason else "") for _, outcome, reason, *_ in runs),
        calls=sum(row[3] or 0 for row in runs),
        tokens=sum(detail.get("spent", {}).get("tokens", 0) for detail in details),
        unknown=sum(detail.get("spent", {}).get("unknownUsage", 0) for detail in details),
        measured=(runs[0][4], runs[0][5]) if runs else (None, None),
        unwaited_ms=min((row[10] - row[8] - row[9] for row in runs if row[8] is not None), default=0),
        waited_ms=sum(row[9] or 0 for row in runs),
        models=frozenset(row[6] for row in runs if row[6]),
        incidents=incidents,
        errors=tuple(call["error"] for _, call, _ in called if "error" in call),
        waits_ms=tuple(call["retry_in_ms"] for _, call, _ in called if call.get("retry_in_ms") is not None),
        messages=tuple(detail["message"] for detail in details if "message" in detail),
        texts="".join(payload.get("text", "") for kind, payload, _, _ in events if kind == "text"),
        tools=tuple(payload["is_error"] for kind, payload, _, _ in events if kind == "tool_completed"),
        notices=frozenset(kind for (kind,) in evalctl.query("SELECT kind FROM notice")),
        lines=mine,
        called=called,
        met=tuple(pairs(called, mine)),
        said=said,
        leaked=tuple(
            str(file.relative_to(evalctl.home))
            for file in evalctl.home.rglob("*")
            if file.is_file() and KEY.encode() in file.read_bytes()
        ),
        late_ms=max(((line["until"] - (called_at or line["at"] + wall_s)) * 1000 for line in mine), default=0.0),
    )


def pairs(calls: Sequence[tuple[str, Json, float]], lines: Sequence[Json]) -> Iterator[Met]:
    """What command and server wrote of the same request.

    It is the one that the answer's headers name. Where none came, it is the n-th of those of the same key, provided
    that both have as many: on a busy machine a request may be given up before it has left.

    Args:
        calls: the part of the key below the sweep's name, the record, and when it was made; in their order.
        lines: the server's.
    """
    named = {f"req-{line['seq']}": line for line in lines}
    nameless: defaultdict[str, list[tuple[Json, float]]] = defaultdict(list)
    for key, call, ended_at in calls:
        if (name := call.get("provider_request_id")) is None:
            nameless[key].append((call, ended_at))
        elif name in named:
            yield Met.of(call, named.pop(name), ended_at)
    left: defaultdict[str, list[Json]] = defaultdict(list)
    for line in named.values():
        left[line["key"].partition("/")[2]].append(line)
    for key, unanswered in nameless.items():
        if len(unanswered) == len(left[key]):
            for (call, ended_at), line in zip(unanswered, left[key], strict=True):
                yield Met.of(call, line, ended_at)


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
        gaps = [1000 * (after.at - before.until) for before, after in itertools.pairwise(seen.met)]
        early = [f"{gap:.0f} < {ms}" for gap, ms in zip(gaps, seen.waits_ms, strict=False) if gap < ms - CLOCKS_MS]
        same("the server was asked again too early", [], early)
        holds(f"{seen.waited_ms} ms of waiting are recorded", true=seen.waited_ms >= sum(seen.waits_ms) - CLOCKS_MS)
        holds(f"{-seen.unwaited_ms} ms are both work and waiting", true=seen.unwaited_ms >= -CLOCKS_MS)
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
    if "gone_within_ms" in expect:
        holds(f"let go {seen.late_ms:.0f} ms late", true=seen.late_ms < expect["gone_within_ms"])
    missing = set(expect.get("notices", ())) - seen.notices
    same("notices missing", set(), missing)
    return wrong


def crowd_differences(expect: Mapping[str, Json], seen: Seen) -> list[str]:
    """The same for a crowd of requests that met anything: nothing is lost, doubled or unaccounted for.

    On a busy machine the command gives up on answers that the server has sent. It does not know what those cost, and
    says so; of all others both ends have the same figure.
    """
    wrong = []
    if sum(seen.outcomes.values()) != expect["outcomes"]["any"]:
        wrong.append(f"runs: expected {expect['outcomes']['any']}, saw {sum(seen.outcomes.values())}")
    if strange := {name for name in seen.outcomes if name.partition("(")[0] not in ("pass", "fail", "error")}:
        wrong.append(f"strange outcomes: {strange}")
    if seen.calls != len(seen.called):
        wrong.append(f"requests: the runs count {seen.calls}, their records {len(seen.called)}")
    if unheard := sum(not given_up(call) for _, call, _ in seen.called) - sum(not given_up(m.call) for m in seen.met):
        wrong.append(f"requests: {unheard} have ended, by the command's records, that the server never saw")
    asked = Counter(key for key, _, _ in seen.called)
    if unasked := Counter(line["key"].partition("/")[2] for line in seen.lines) - asked:
        wrong.append(f"requests that the command has no record of: {dict(unasked)}")
    for met in seen.met:
        told, sent = tokens_of(met.call), met.line["input_tokens"] + met.line["output_tokens"]
        if told != sent and not (told is None and (not sent or given_up(met.call))):
            wrong.append(f"tokens of {met.line['key']}: the command counts {told}, the server {sent}")
    if (told := sum(tokens_of(call) or 0 for _, call, _ in seen.called)) != seen.tokens:
        wrong.append(f"tokens: the runs came to {seen.tokens}, their requests to {told}")
    if (unsaid := sum(tokens_of(call) is None and call["tokens"] > 0 for _, call, _ in seen.called)) != seen.unknown:
        wrong.append(f"requests of unknown usage: the runs count {seen.unknown}, their requests {unsaid}")
    if (peak := at_once(seen.met)) > expect["peak"]:
        wrong.append(f"at once: {peak}, allowed {expect['peak']}")
    return wrong


def given_up(call: Json) -> bool:
    """Whether the command would not wait any longer."""
    return bool(call.get("error") == "timeout" and call.get("status") != 504)


def tokens_of(call: Json) -> int | None:
    """The tokens that the command took from an answer; None where it knows of no usage."""
    usage = call.get("usage") or {}
    return usage["input"] + usage["output"] if {"input", "output"} <= set(usage) else None


def at_once(met: Sequence[Met]) -> int:
    """The most requests that were in flight together."""
    steps = sorted([(one.at, 1) for one in met] + [(one.until - CLOCKS_MS / 1000, -1) for one in met])
    return max(itertools.accumulate(step for _, step in steps), default=0)
