"""A small sound lab, whose files tests break one line at a time."""

from pathlib import Path

CONFIG = """\
schema: evalctl.hub/1
backends:
  house: { kind: openai, base_url: "http://127.0.0.1:8080/v1", api_key_env: HOUSE_KEY }
  typesafe:
capabilities:
  toolgate:
    description: "May it run?"
    input_schema:
      type: object
      required: [tool_name]
      properties: { tool_name: { type: string }, sure: { type: boolean } }
      additionalProperties: false
    output_schema:
      type: object
      properties: { verdict: { enum: [allow, deny] } }
    min_confidence: 0.6
    flow:
      - { id: guard, kind: rule, when: "input.tool_name == 'rm'", decision: { verdict: deny } }
      - { id: first, kind: model, backend: house, model: m, prompt: "{{ input }}", answer: {}, decides: false }
      - { id: gate, kind: exec, command: [python3, gate.py], timeout_ms: 2000, provider: gatekeeper, fallback: judge }
      - { id: vendor, kind: http, url: "https://vendor.example/v1", api_key_env: VENDOR_KEY, fallback: careful }
      - id: judge
        kind: model
        backend: house
        model: m
        system: "{{ answers.first.kind }}"
        prompt: |
          Tool: {{ input.tool_name }}
        answer:
          type: object
          required: [verdict]
          properties: { verdict: { enum: [allow, deny] } }
        fallback: vendor
      - { id: careful, kind: rule, when: "true", decision: { verdict: deny } }
  echo:
    input_schema: { type: object, required: [text] }
    flow:
      - { id: say, kind: rule, when: "true", decision: 1 }
"""

LAB = """\
id: small
version: 1.10
targets:
  a: { backend: house, model: m }
  b: { backend: ollama, model: n, local: true }
budget: { max_calls: 20, max_cost_usd: 0.10 }
repeat: 3
prices:
  m: { input_per_mtok: 1.0, output_per_mtok: 2.5, cached_per_mtok: 0.1 }
"""

FIXTURE = """\
id: rm-root
version: 2
description: "Deleting the root"
input: { tool_name: rm }
replay:
  judge: { answer: { verdict: deny }, confidence: 0.9 }
  gatekeeper: { anything: [1] }
expect:
  - cel: "status != 'error'"
    why: "A clear command must not break it"
  - { cel: decision.verdict == 'deny', why: "Nobody deletes the root" }
"""


def write_lab(root: Path, *, config: str = CONFIG, lab: str = LAB, fixture: str = FIXTURE) -> Path:
    """The lab in *root*, with one fixture."""
    (root / "fixtures" / "toolgate").mkdir(parents=True)
    (root / "config.yaml").write_text(config, encoding="utf-8")
    (root / "lab.yaml").write_text(lab, encoding="utf-8")
    (root / "fixtures" / "toolgate" / "rm-root.yaml").write_text(fixture, encoding="utf-8")
    return root


MARK = "‸"
"""Stands in a changed text before the place where a finding is expected."""


def changed(text: str, old: str, new: str) -> str:
    """*text* with its one *old* replaced."""
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    return text.replace(old, new)


def marked(text: str) -> tuple[str, str]:
    """*text* without its mark, and where that stood: `line:column`."""
    before, mark, after = text.partition(MARK)
    assert mark, "no mark"
    return before + after, f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
