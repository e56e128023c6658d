"""The content of a request as plain JSON, for cassettes: its fingerprint, and the first difference between two.

It covers everything that a provider receives and the harness decides: instructions, messages, tools with their schemas,
output limit, model, native tools, reasoning effort. Fields that only steer (origin, purpose, keys, tries) are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

import attrs

from providers.base import AssistantTurn, Message, Request, ToolAnswer, ToolCall, ToolSpec, UserText
from store.events import Json

MATERIAL_FIELDS = ("model", "instructions", "tools", "maxOutputTokens", "reasoningEffort", "nativeTools", "messages")
"""Fields in the order of comparison: those that explain other differences come first."""
EXCERPT_LEAD_CHARS = 40
"""Characters of an excerpt before the difference."""
EXCERPT_CHARS = 120
"""Characters of an excerpt in total."""
ABSENT_MARK = "(absent)"


@attrs.frozen(kw_only=True)
class Difference:
    """The first difference between two requests."""

    field: str
    """Path of the field, such as `tools[edit_file].description` or `messages[3].tool.result`."""
    recorded: str
    """Excerpt around the difference, on one line."""
    asked: str


def build_material(request: Request) -> dict[str, Json]:
    """The request as plain JSON with the keys of `MATERIAL_FIELDS`. Parts may be shared: do not change them."""
    return {
        "model": request.model,
        "instructions": request.instructions,
        "tools": _render_tools(request.tools),
        "maxOutputTokens": request.max_output_tokens,
        "reasoningEffort": request.reasoning_effort,
        "nativeTools": list(request.native_tools),
        "messages": [render_message(message) for message in request.messages],
    }


def render_message(message: Message) -> dict[str, Json]:
    """A message as plain JSON under its role; empty fields are left out."""
    match message:
        case UserText():
            return {"user": {"text": message.text}}
        case AssistantTurn():
            turn: dict[str, Json] = {"text": message.text}
            if message.calls:
                turn["calls"] = [_render_call(call) for call in message.calls]
            if message.reasoning:
                turn["reasoning"] = message.reasoning
            if message.continuation is not None:
                turn["continuation"] = message.continuation
            return {"assistant": turn}
        case ToolAnswer():
            answer: dict[str, Json] = {"id": message.call_id, "name": message.name, "result": message.text}
            return {"tool": answer | ({"isError": True} if message.is_error else {})}


def compute_fingerprint(asked: Mapping[str, Json]) -> str:
    """SHA-256 (hex) over the canonical JSON of a request's material.

    Canonical as in `store/documents/` (sorted keys, no spaces, minimal escapes), with two exceptions for texts of
    models: lone surrogates are kept, and numbers are formatted as Python formats them.
    """
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def find_first_difference(recorded: Mapping[str, Json], asked: Mapping[str, Json]) -> Difference | None:
    """Find the first difference between the recorded request and *asked*; None if they are equal."""
    for name in MATERIAL_FIELDS:
        if recorded[name] != asked[name]:
            return next(_find_differences(name, recorded[name], asked[name]))
    return None


def _render_tools(specs: tuple[ToolSpec, ...]) -> list[Json]:
    return [
        {"name": spec.name, "description": spec.description, "inputSchema": dict(spec.input_schema)} for spec in specs
    ]


def _render_call(call: ToolCall) -> dict[str, Json]:
    return {"id": call.id, "name": call.name, "arguments": call.raw if call.arguments is None else dict(call.arguments)}


def _find_differences(path: str, recorded: Json, asked: Json) -> Iterator[Difference]:
    """Yield the differences below *path*, of which there is at least one."""
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in [*recorded, *(key for key in asked if key not in recorded)]:
            yield from _compare_key(f"{path}.{key}", recorded, asked, key)
    elif isinstance(recorded, list) and isinstance(asked, list):
        if path == "tools":
            yield from _compare_tools(path, recorded, asked)
            return
        for place in range(max(len(recorded), len(asked))):
            yield from _compare_key(f"{path}[{place}]", dict(enumerate(recorded)), dict(enumerate(asked)), place)
    else:
        yield _describe_difference(path, recorded, asked)


def _compare_key(
    path: str, recorded: Mapping[Json, Json], asked: Mapping[Json, Json], key: Json
) -> Iterator[Difference]:
    if key not in recorded:
        yield Difference(field=path, recorded=ABSENT_MARK, asked=_excerpt_start(asked[key]))
    elif key not in asked:
        yield Difference(field=path, recorded=_excerpt_start(recorded[key]), asked=ABSENT_MARK)
    elif recorded[key] != asked[key]:
        yield from _find_differences(path, recorded[key], asked[key])


def _compare_tools(path: str, recorded: Sequence[Json], asked: Sequence[Json]) -> Iterator[Difference]:
    """Compare tools by name, so that a tool added in front does not make all others look changed."""
    before, now = ({tool["name"]: tool for tool in tools} for tools in (recorded, asked))
    for name in [*before, *(name for name in now if name not in before)]:
        yield from _compare_key(f"{path}[{name}]", before, now, name)
    yield _describe_difference(f"{path} (their order)", ", ".join(before), ", ".join(now))


def _describe_difference(path: str, recorded: Json, asked: Json) -> Difference:
    if not (isinstance(recorded, str) and isinstance(asked, str)):
        return Difference(field=path, recorded=_excerpt_start(recorded), asked=_excerpt_start(asked))
    pairs = enumerate(zip(recorded, asked, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(recorded), len(asked)))
    return Difference(field=path, recorded=_cut_excerpt(recorded, at), asked=_cut_excerpt(asked, at))


def _excerpt_start(value: Json) -> str:
    return _cut_excerpt(value if isinstance(value, str) else json.dumps(value), 0)


def _cut_excerpt(text: str, at: int) -> str:
    """The text around *at* as a JSON string, in which line ends and control characters are visible and harmless."""
    start = max(0, at - EXCERPT_LEAD_CHARS)
    end = start + EXCERPT_CHARS
    excerpt = json.dumps(text[start:end])
    return f"{'…' if start else ''}{excerpt}{'…' if end < len(text) else ''}"
