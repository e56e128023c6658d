"""Fixed limits, which no setting changes, by name. `run --print-config` lists them beside the settings."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.engine.gate.gate import FALLBACK_OUTPUT_TOKENS
from orchestrator.engine.gate.retry import RetryPolicy
from providers.agent import calls, fetch, files, loop, search, searcher, shell
from providers.system.http import IDLE_TIMEOUT_S, MAX_BODY_BYTES
from providers.system.transport_errors import CONNECT_TIMEOUT_S
from store.events import Json

FIXED_LIMITS: Mapping[str, Json] = {
    "agent.callsPerTurn": loop.MAX_CALLS_PER_TURN,
    "agent.readsAtOnce": calls.MAX_PARALLEL_READS,
    "agent.toolOutputCharsShown": calls.MODEL_OUTPUT_CHARS,
    "agent.toolOutputCharsKept": calls.RECORDED_OUTPUT_CHARS,
    "read_file.bytes": files.MAX_READ_BYTES,
    "read_file.defaultLines": files.DEFAULT_LINES,
    "read_file.lines": files.MAX_LINES,
    "read_file.chars": files.MAX_CHARS,
    "list_files.entries": files.MAX_ENTRIES,
    "write_file.bytes": files.MAX_WRITE_BYTES,
    "search_text.defaultResults": search.DEFAULT_RESULTS,
    "search_text.results": search.MAX_RESULTS,
    "search_text.fileBytes": search.MAX_FILE_BYTES,
    "search_text.processorMs": searcher.CPU_LIMIT_S * 1000,
    "bash.defaultTimeoutMs": shell.DEFAULT_TIMEOUT_MS,
    "bash.timeoutMs": shell.MAX_TIMEOUT_MS,
    "bash.outputBytes": shell.MAX_OUTPUT_BYTES,
    "fetch_url.timeoutMs": round(fetch.FETCH_TIMEOUT_S * 1000),
    "fetch_url.defaultBytes": fetch.DEFAULT_BYTES,
    "fetch_url.bytes": fetch.MAX_BYTES,
    "fetch_url.redirects": fetch.MAX_REDIRECTS,
    "request.connectMs": round(CONNECT_TIMEOUT_S * 1000),
    "request.idleMs": round(IDLE_TIMEOUT_S * 1000),
    "request.bodyBytes": MAX_BODY_BYTES,
    "request.retries": RetryPolicy().retries,
    "request.outputTokensUnderCap": FALLBACK_OUTPUT_TOKENS,
}
