"""Specialists: somebody else's program, started for each answer or posted to. They are asked like any provider.

The input is the request's last user text, JSON; the answer's text is what came back. Whether that is JSON, and of what
form, is for the flow to judge; what kept an answer from coming is a `ProviderError`. They ask once.
"""

from __future__ import annotations

import codecs
import json
import signal
from collections.abc import Callable
from pathlib import Path

from providers.base import Answer, Emit, Request, Responded, TextDelta, UserText
from providers.decisions.model import DEFAULT_TIMEOUT_MS, Exec
from providers.endpoints.credential import account_of, bearer, checked_key, headers_of_posts
from providers.endpoints.faults import MAX_ERROR_BODY, excerpt, refusal
from providers.errors import ErrorKind, ProviderError
from providers.system.http import HttpPool, HttpResponse, checked_base
from providers.system.marks import home_of
from providers.system.process import Finished, ProcessNotStarted, run_process, tool_environment
from store.documents.text import without_first_word

OUTPUT_LIMIT = 2**20
"""Bytes that a specialist may answer; a process on both of its streams together."""
GRACE_S = 1.0
"""How long a process that is out of time may take to end after SIGTERM."""
_TAIL = 160
"""Characters of whole lines at the end of stderr that go into a message; of its last line more."""
_READ = 8192
"""Bytes of the end of stderr that are looked at."""


class ExecSpecialist:
    """A process that is started for each answer; implements `providers.base.Provider`.

    It runs in the configuration's directory, with PATH, LANG, and a HOME and TMPDIR of its own that are removed
    afterwards; no other variable gets through. It reads the input, one line of JSON, on stdin, and answers on stdout
    with exit code 0. Nothing that it started is left when it has answered, failed or run out of time.

    Args:
        node: whose command it is.
        name: see `Capability.asked`.
        base: the configuration's directory, absolute.
    """

    def __init__(self, node: Exec, *, name: str, base: Path) -> None:
        program, *arguments = node.command
        self._argv = [str(base / program) if "/" in program else program, *arguments]
        self._shown = program
        self._name = name
        self._base = base

    def __repr__(self) -> str:
        return f"<ExecSpecialist {self._name}>"

    @property
    def name(self) -> str:
        """As flows name it."""
        return self._name

    @property
    def account(self) -> str:
        """The same: nobody else is behind it."""
        return self._name

    def size(self, request: Request) -> int:
        """Bytes of the input."""
        return len(_input(request))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Start it, and read its answer when it has ended.

        Raises:
            ProviderError: it could not be started, ended by a signal or with another exit code than 0
                (`server_error`), answered more than 1 MiB or no UTF-8 (`bad_payload`), or took longer than the
                request's `timeout_ms` (`timeout`).
        """
        import tempfile

        from providers.system.removal import remove_tree

        allowed_ms = request.timeout_ms or DEFAULT_TIMEOUT_MS
        attempt = request.key.rpartition("/")[0]
        try:
            home = Path(tempfile.mkdtemp(prefix=home_of(attempt)))
        except OSError as error:
            raise self._unstarted(f"a home for it: {error.strerror or 'failed'}") from error
        try:
            finished = await run_process(
                self._argv,
                cwd=self._base,
                environment=tool_environment(home),
                marker=attempt,
                timeout_s=allowed_ms / 1000,
                output_limit=OUTPUT_LIMIT,
                grace_s=GRACE_S,
                stdin=_input(request) + b"\n",
            )
        except ProcessNotStarted as error:
            raise self._unstarted(error.problem) from error
        finally:
            remove_tree(home)
        if finished.timed_out:
            raise _failed("timeout", f"no whole answer within {allowed_ms} ms")
        if finished.exit_code != 0:
            raise _failed("server_error", f"{self._shown} {_ended(finished)}")
        if finished.truncated:
            raise _failed("bad_payload", f"{self._shown} wrote more than {OUTPUT_LIMIT >> 20} MiB")
        emit(Responded(status=200))
        try:
            text = finished.stdout.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _failed("bad_payload", f"the answer of {self._shown} is no UTF-8") from error
        return _answered(text, emit)

    async def aclose(self) -> None:
        """Nothing is kept open."""

    def _unstarted(self, problem: str) -> ProviderError:
        return _failed("server_error", f"cannot start {self._shown}: {problem}", turned_away=True)


class HttpSpecialist:
    """An endpoint that is posted the input and answers with JSON; implements `providers.base.Provider`.

    Args:
        name: see `Capability.asked`.
        url: where it is posted to; redirects are not followed.
        api_key: sent as a bearer token; None sends none.
        pool: closed with this provider.
        wall: microseconds since 1970, for waits given as a date.

    Raises:
        UsageError: the URL or the key cannot be used.
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
        checked_base(url)
        checked_key(api_key, called=f"the key of {name}")
        self._url = url.strip().partition("#")[0]
        self._secrets = (api_key,) if api_key is not None else ()
        self._headers = headers_of_posts(accept="application/json") | bearer(api_key)
        self._account = account_of(self._url, api_key)
        self._name = name
        self._pool = pool
        self._wall = wall

    def __repr__(self) -> str:
        return f"<HttpSpecialist {self._name} {self._account}>"

    @property
    def name(self) -> str:
        """As flows name it."""
        return self._name

    @property
    def account(self) -> str:
        """Endpoint and a digest of the key."""
        return self._account

    def size(self, request: Request) -> int:
        """Bytes of the input."""
        return len(_input(request))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Post the input once.

        Raises:
            ProviderError: no whole answer came: see `providers/system/http.py` and `faults.refusal`; an answer of more
                than 1 MiB or that is no UTF-8 is a `bad_payload`; one that is no JSON and had no stated length is
                `truncated`, as nobody can tell whether all of it came.
        """
        headers = self._headers | ({"Idempotency-Key": request.key} if request.key else {})
        # the whole is bounded by who asks; a second later, so that it is told from a connection that is silent
        patience_s = (request.timeout_ms or DEFAULT_TIMEOUT_MS) / 1000 + 1
        posted = self._pool.post(self._url, headers, _input(request), first_byte_s=patience_s, idle_s=patience_s)
        async with posted as response:
            emit(Responded(status=response.status))
            if not 200 <= response.status < 300:
                body = await response.start(MAX_ERROR_BODY)
                raise refusal(response.status, response.headers, body, secrets=self._secrets, wall=self._wall)
            try:
                text = await _read(response, emit)
                stated = "content-length" in response.headers or "transfer-encoding" in response.headers
                if not stated and not _is_json(text):
                    raise _failed("truncated", f"{response.where}: the answer may have been cut off: it is no JSON")
            except ProviderError as error:
                error.status = response.status
                raise
        return Answer(text=text, finish="stop")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()


async def _read(response: HttpResponse, emit: Emit) -> str:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    pieces: list[str] = []
    taken = 0

    def heard(data: bytes, *, final: bool = False) -> None:
        try:
            piece = decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise _failed("bad_payload", f"{response.where}: the answer is no UTF-8") from error
        if piece:
            pieces.append(piece)
            emit(TextDelta(piece))

    async for part in response.chunks():
        taken += len(part)
        if taken > OUTPUT_LIMIT:
            message = f"{response.where}: the answer is larger than {OUTPUT_LIMIT >> 20} MiB"
            raise _failed("bad_payload", message)
        heard(part)
    heard(b"", final=True)
    return "".join(pieces)


def _answered(text: str, emit: Emit) -> Answer:
    if text:
        emit(TextDelta(text))
    return Answer(text=text, finish="stop")


def _input(request: Request) -> bytes:
    last = request.messages[-1]
    assert isinstance(last, UserText), "a flow asks with the input"
    return last.text.encode("utf-8", "replace")


def _ended(finished: Finished) -> str:
    """How a process failed, with the end of what it had to say about it."""
    code = finished.exit_code or 0
    how = f"ended by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
    said = excerpt(_last_lines(finished.stderr))
    return f"{how}: {said}" if said else how


def _last_lines(stderr: bytes) -> str:
    """The end of *stderr*, from the beginning of a line on; from within it only where that is too far away."""
    text = stderr[-_READ:].decode("utf-8", "replace")
    if len(stderr) > _READ:
        _, _, text = text.partition("\n")
        if not text.strip():
            return without_first_word(stderr[-_TAIL:].decode("utf-8", "replace"))
    kept = ""
    for one in reversed(text.splitlines()):
        if kept and len(one) + 1 + len(kept) > _TAIL:
            break
        kept = f"{one}\n{kept}" if kept else one.rstrip()
    return kept


def _signal(number: int) -> str:
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


def _failed(kind: ErrorKind, message: str, *, turned_away: bool = False) -> ProviderError:
    """What a specialist does once it does again; only of what was cut off another try may bring more."""
    return ProviderError(kind=kind, message=message[:400], retryable=kind == "truncated", turned_away=turned_away)
