"""Specialists: external programs, started for each answer, and HTTP services, both as providers.

The input is the request's last user text, which is JSON; the answer's text is the raw output. The flow checks whether
it is JSON of the right form; a missing answer is a `ProviderError`. Each request is sent once.
"""

from __future__ import annotations

import codecs
import json
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from providers.base import Answer, Emit, Request, Responded, TextDelta, UserText
from providers.decisions.model import DEFAULT_ANSWER_TIMEOUT_MS, ExecNode
from providers.endpoints.credential import build_bearer_header, build_post_headers, check_key, derive_account
from providers.endpoints.faults import MAX_ERROR_BODY_BYTES, build_refusal, clean_excerpt
from providers.errors import ErrorKind, ProviderError
from providers.system.http import HttpPool, HttpResponse, check_base_url
from providers.system.marks import build_home_prefix
from providers.system.process import (
    FinishedProcess,
    ProcessNotStarted,
    ProcessStreams,
    build_tool_environment,
    run_process,
)
from providers.system.removal import remove_tree
from store.documents.text import drop_first_word

MAX_OUTPUT_BYTES = 2**20
"""Maximum bytes of an answer; of a process on both streams together."""
TERMINATION_GRACE_S = 1.0
"""Seconds that a process has to end after its timeout and SIGTERM."""
_STDERR_EXCERPT_CHARS = 160
"""Characters of complete lines at the end of stderr in a message; the last line may be longer."""
_STDERR_READ_BYTES = 8192
"""Bytes at the end of stderr that are searched."""


class ExecSpecialist:
    """A specialist as a process, started for each answer; implements `providers.base.Provider`.

    It runs in the configuration's directory with PATH, LANG, and a private HOME and TMPDIR that are removed afterwards;
    no other variable is passed on. It reads the input, one line of JSON, from stdin and answers on stdout with exit
    code 0. None of its processes is left after its answer, failure or timeout.

    Args:
        node: the node with the command.
        name: see `Capability.find_provider_name`.
        base: the configuration's directory as an absolute path.
    """

    def __init__(self, node: ExecNode, *, name: str, base: Path) -> None:
        program, *arguments = node.command
        self._argv = [str(base / program) if "/" in program else program, *arguments]
        self._shown = program
        self._name = name
        self._base = base

    def __repr__(self) -> str:
        return f"<ExecSpecialist {self._name}>"

    @property
    def name(self) -> str:
        """The name in flows; see `Capability.find_provider_name`."""
        return self._name

    @property
    def account(self) -> str:
        """The same name, as it uses no account of another service."""
        return self._name

    def size(self, request: Request) -> int:
        """Size of the input in bytes."""
        return len(_encode_input(request))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Run the process once and read its answer.

        Raises:
            ProviderError: it could not be started, or ended by a signal or with an exit code other than 0
                (`server_error`); its answer exceeds 1 MiB or is not UTF-8 (`bad_payload`); or it took longer than
                the request's `timeout_ms` (`timeout`).
        """
        allowed_ms = request.timeout_ms or DEFAULT_ANSWER_TIMEOUT_MS
        attempt = request.key.rpartition("/")[0]
        try:
            home = Path(tempfile.mkdtemp(prefix=build_home_prefix(attempt)))
        except OSError as error:
            raise self._build_start_error(f"a home for it: {error.strerror or 'failed'}") from error
        try:
            finished = await run_process(
                self._argv,
                cwd=self._base,
                environment=build_tool_environment(home),
                marker=attempt,
                timeout_s=allowed_ms / 1000,
                output_limit=MAX_OUTPUT_BYTES,
                grace_s=TERMINATION_GRACE_S,
                streams=ProcessStreams(stdin=_encode_input(request) + b"\n"),
            )
        except ProcessNotStarted as error:
            raise self._build_start_error(error.problem) from error
        finally:
            remove_tree(home)
        if finished.timed_out:
            raise _build_error("timeout", f"no whole answer within {allowed_ms} ms")
        if finished.exit_code != 0:
            raise _build_error("server_error", f"{self._shown} {_describe_exit(finished)}")
        if finished.truncated:
            raise _build_error("bad_payload", f"{self._shown} wrote more than {MAX_OUTPUT_BYTES >> 20} MiB")
        emit(Responded(status=200))
        try:
            text = finished.stdout.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _build_error("bad_payload", f"the answer of {self._shown} is not valid UTF-8") from error
        return _build_answer(text, emit)

    async def aclose(self) -> None:
        """Do nothing, as nothing is kept open."""

    def _build_start_error(self, problem: str) -> ProviderError:
        return _build_error("server_error", f"cannot start {self._shown}: {problem}", turned_away=True)


class HttpSpecialist:
    """A specialist as an HTTP endpoint that receives the input by POST; implements `providers.base.Provider`.

    Args:
        name: see `Capability.find_provider_name`.
        url: the endpoint; redirects are not followed.
        api_key: sent as a bearer token; None sends none.
        pool: closed together with this provider.
        wall: wall clock in microseconds since 1970 UTC, for Retry-After headers with a date.

    Raises:
        UsageError: the URL or the key is invalid.
    """

    def __init__(
        self,
        *,
        name: str,
        url: str,
        api_key: str | None,
        pool: HttpPool,
        wall: Callable[[], int] | None = None,
    ) -> None:
        check_base_url(url)
        check_key(api_key, called=f"the key of {name}")
        self._url = url.strip().partition("#")[0]
        self._secrets = (api_key,) if api_key is not None else ()
        self._headers = build_post_headers(accept="application/json") | build_bearer_header(api_key)
        self._account = derive_account(self._url, api_key)
        self._name = name
        self._pool = pool
        self._wall = wall

    def __repr__(self) -> str:
        return f"<HttpSpecialist {self._name} {self._account}>"

    @property
    def name(self) -> str:
        """The name in flows; see `Capability.find_provider_name`."""
        return self._name

    @property
    def account(self) -> str:
        """The endpoint and a digest of the key."""
        return self._account

    def size(self, request: Request) -> int:
        """Size of the input in bytes."""
        return len(_encode_input(request))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Post the input once.

        Raises:
            ProviderError: no complete answer arrived: see `providers/system/http.py` and `faults.build_refusal`; an
            answer
                of more than 1 MiB, or not in UTF-8, is a `bad_payload`; one without a length that is not JSON is
                `truncated`, as its end may be missing.
        """
        headers = self._headers | ({"Idempotency-Key": request.key} if request.key else {})
        # the caller limits the whole answer; one second more distinguishes that from a silent connection
        patience_s = (request.timeout_ms or DEFAULT_ANSWER_TIMEOUT_MS) / 1000 + 1
        posted = self._pool.post(self._url, headers, _encode_input(request), first_byte_s=patience_s, idle_s=patience_s)
        async with posted as response:
            emit(Responded(status=response.status))
            if not 200 <= response.status < 300:
                body = await response.read_start(MAX_ERROR_BODY_BYTES)
                raise build_refusal(response.status, response.headers, body, secrets=self._secrets, wall=self._wall)
            try:
                text = await _read_body(response, emit)
                stated = "content-length" in response.headers or "transfer-encoding" in response.headers
                if not stated and not _is_json(text):
                    raise _build_error(
                        "truncated", f"{response.where}: the answer may have been cut off: it is not JSON"
                    )
            except ProviderError as error:
                error.status = response.status
                raise
        return Answer(text=text, finish="stop")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()


async def _read_body(response: HttpResponse, emit: Emit) -> str:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    pieces: list[str] = []
    taken = 0

    def decode_piece(data: bytes, *, final: bool = False) -> None:
        try:
            piece = decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise _build_error("bad_payload", f"{response.where}: the answer is not valid UTF-8") from error
        if piece:
            pieces.append(piece)
            emit(TextDelta(piece))

    async for chunk in response.read_chunks():
        taken += len(chunk)
        if taken > MAX_OUTPUT_BYTES:
            message = f"{response.where}: the answer is larger than {MAX_OUTPUT_BYTES >> 20} MiB"
            raise _build_error("bad_payload", message)
        decode_piece(chunk)
    decode_piece(b"", final=True)
    return "".join(pieces)


def _build_answer(text: str, emit: Emit) -> Answer:
    if text:
        emit(TextDelta(text))
    return Answer(text=text, finish="stop")


def _encode_input(request: Request) -> bytes:
    last = request.messages[-1]
    assert isinstance(last, UserText), "a flow asks with the input"
    return last.text.encode("utf-8", "replace")


def _describe_exit(finished: FinishedProcess) -> str:
    """Describe how a process failed, with the end of its stderr."""
    code = finished.exit_code or 0
    how = f"ended by {_name_signal(-code)}" if code < 0 else f"ended with exit code {code}"
    excerpt = clean_excerpt(_take_last_lines(finished.stderr))
    return f"{how}: {excerpt}" if excerpt else how


def _take_last_lines(stderr: bytes) -> str:
    """The last complete lines of *stderr*; the end of the last line if that is too long."""
    text = stderr[-_STDERR_READ_BYTES:].decode("utf-8", "replace")
    if len(stderr) > _STDERR_READ_BYTES:
        _, _, text = text.partition("\n")
        if not text.strip():
            return drop_first_word(stderr[-_STDERR_EXCERPT_CHARS:].decode("utf-8", "replace"))
    kept = ""
    for line in reversed(text.splitlines()):
        if kept and len(line) + 1 + len(kept) > _STDERR_EXCERPT_CHARS:
            break
        kept = f"{line}\n{kept}" if kept else line.rstrip()
    return kept


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _build_error(kind: ErrorKind, message: str, *, turned_away: bool = False) -> ProviderError:
    """Build an error; only a truncated answer is retryable, since a specialist repeats any other failure."""
    return ProviderError(kind=kind, message=message[:400], retryable=kind == "truncated", turned_away=turned_away)
