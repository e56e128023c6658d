"""Transport errors: translates errors of httpx, h11 and the system into `ProviderError`, without headers and URLs."""

from __future__ import annotations

from providers.errors import ErrorKind, ProviderError

CONNECT_TIMEOUT_S = 10.0


def build_transport_error(
    kind: ErrorKind, message: str, *, mid_stream: bool = False, retryable: bool = True, turned_away: bool = False
) -> ProviderError:
    """Build the error for a request that failed before or during its answer."""
    return ProviderError(
        kind=kind, message=message[:400], retryable=retryable, mid_stream=mid_stream, turned_away=turned_away
    )


def translate_error(error: Exception, where: str, *, mid_stream: bool) -> ProviderError:
    """Translate an error of httpx, h11 or the system into a `ProviderError`."""
    import httpx  # noqa: PLC0415, TID251 - this is the place, and only a request needs it

    match error:
        case httpx.ConnectTimeout():
            return build_transport_error(
                "network", f"{where}: no connection within {CONNECT_TIMEOUT_S:g} s", turned_away=True
            )
        case httpx.TimeoutException():
            return build_transport_error("timeout", f"{where}: timed out", mid_stream=mid_stream)
        case httpx.ConnectError():
            return _translate_connect_error(error, where)
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
            return build_transport_error("invalid_request", f"{where}: the request cannot be sent", retryable=False)
        case _ if mid_stream:
            return build_transport_error(
                "truncated", f"{where}: the connection broke: {_find_reason(error)}", mid_stream=True
            )
        case _:
            return build_transport_error("network", f"{where}: closed without an answer: {_find_reason(error)}")


def _translate_connect_error(error: Exception, where: str) -> ProviderError:
    reason = _find_certificate_fault(error)
    if reason is None:
        message = f"{where}: cannot connect: {_find_reason(error)}"
        return build_transport_error("network", message, turned_away=True)
    hint = "Is the URL right? An authority of your own is trusted with the variable SSL_CERT_FILE."
    message = f"{where}: the certificate is not trusted: {reason}. {hint}"
    return build_transport_error("network", message, retryable=False, turned_away=True)


def _find_certificate_fault(error: BaseException) -> str | None:
    """Why a certificate was refused; None if *error* has another cause."""
    link: BaseException | None = error
    for _ in range(10):
        if isinstance(link, BaseExceptionGroup):
            link = link.exceptions[0]
        if link is None:
            return None
        if "CERTIFICATE_VERIFY_FAILED" in str(link):
            return getattr(link, "verify_message", "") or "verification failed"
        link = link.__cause__ or link.__context__
    return None


def _find_reason(error: BaseException) -> str:
    """The most specific text in an error's chain: the system's, if any. It never contains headers or URLs."""
    link: BaseException | None = error
    seen = 0
    while link is not None and seen < 10:
        if isinstance(link, BaseExceptionGroup):
            link = link.exceptions[0]
        if isinstance(link, OSError) and link.strerror:
            return link.strerror
        link, seen = link.__cause__ or link.__context__, seen + 1
    return str(error).rstrip(".")[:120] or type(error).__name__
