"""The decision of a lab's run and its trace, which `show` prints beside the assertions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.text import one_line
from store.secrets.scanner import mask_secrets

MAX_VALUE_CHARS = 2000
"""Characters of one value that are shown without `--full`."""


def decision_lines(decision: Any, *, full: bool) -> Iterator[str]:
    """Yield the stored decision, without control characters; nothing if there is none."""
    if not isinstance(decision, Mapping):
        return
    yield _decision_line(f"decided: {decision.get('status')}", decision.get("confidence"))
    for name in ("decision", "abstain", "error"):
        value = decision.get(name)
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            text = mask_secrets(text)
            yield f"{name}: {one_line(text, len(text) + MAX_VALUE_CHARS if full else MAX_VALUE_CHARS)}"
    trace = decision.get("trace")
    for step in trace if isinstance(trace, list) else ():
        if isinstance(step, Mapping):
            yield _step_line(step)


def _step_line(step: Mapping[str, Any]) -> str:
    """Describe a step of the trace: `node judge (model, ollama nimble): decided, confidence 0.9, 90 ms`."""
    backend = " ".join(str(step[name]) for name in ("backend", "model") if step.get(name) is not None)
    origin = f"{step.get('source')}, {backend}" if backend else f"{step.get('source')}"
    parts = [f"node {step.get('node')} ({origin}): {step.get('outcome')}"]
    if step.get("reason") is not None:
        parts.append(str(step["reason"]))
    if step.get("ms") is not None:
        parts.append(f"{step['ms']} ms")
    usage = step.get("usage")
    if isinstance(usage, Mapping):
        parts += [f"{name} {tokens}" for name, tokens in usage.items()]
    return _decision_line(", ".join(parts), step.get("confidence"))


def _decision_line(text: str, confidence: Any) -> str:
    suffix = "" if confidence is None else f", confidence {confidence}"
    return one_line(mask_secrets(f"{text}{suffix}"), MAX_VALUE_CHARS)
