"""The tool `fetch_url`: fetches text over HTTP, from public hosts only unless the user allows others.

A hostile page may have suggested the URL to the model (server-side request forgery), so the tool controls where it
connects: it resolves a name once, connects to the very address that it checked, and starts over at each redirect.
"""

from __future__ import annotations

import codecs
import ipaddress
import json
import re
import socket
from collections.abc import Mapping
from urllib.parse import SplitResult, urljoin, urlsplit

import attrs

from providers.agent.tools import Tool, ToolContext, ToolFailed, build_parameters, integer_up_to
from providers.base import ToolSpec
from providers.errors import ProviderError
from providers.system.http import HttpPool, HttpResponse, render_url
from store.errors import UsageError
from store.events import Json

DEFAULT_BYTES = 30_000
MAX_BYTES = 1 << 20
MAX_URL_CHARS = 2000
FETCH_TIMEOUT_S = 30.0
"""Seconds for the whole call: name resolution, redirects and body."""
MAX_REDIRECTS = 5
MAX_ADDRESSES = 4
"""Addresses of one host name that are tried in turn."""

_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TEXT_TYPES = re.compile(
    r"text/.*|application/([a-z0-9.+-]+\+)?(json|xml|javascript|x-ndjson|yaml|x-yaml)", re.IGNORECASE
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_CHARSET_CODEC = re.compile(
    r"utf-(8|8-sig|16|16-le|16-be|32|32-le|32-be)|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb2312|gbk|gb18030|big5"
    r"|big5hkscs|euc_\w+|shift_jis\w*|iso2022_\w+|johab|hz|tis-620"
)
"""Python codecs that are character sets; others, such as `zlib`, compute."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_LOCAL_NETWORKS = tuple(
    ipaddress.ip_network(net) for net in ("::/96", "64:ff9b:1::/48", "fec0::/10", "5f00::/16", "3fff::/20")
)
"""IPv6 networks that some Python versions call global: IPv4-compatible, local NAT64, site-local, SIDs, examples."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@attrs.frozen(kw_only=True)
class FetchTarget:
    """A URL that may be requested."""

    url: str
    host: str
    port: int
    scheme: str


@attrs.frozen
class Redirect:
    """The target of a redirect as the host sent it."""

    to: str


async def fetch_url(place: ToolContext, arguments: Mapping[str, Json]) -> str:
    """Fetch the text behind a URL. Any HTTP status is a result, not an error.

    Raises:
        ToolFailed: the URL is not allowed, cannot be reached in time, or does not lead to text.
    """
    import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

    limit = arguments.get("maxBytes", DEFAULT_BYTES)
    pool = HttpPool()
    try:
        with anyio.fail_after(FETCH_TIMEOUT_S):
            return await _follow_redirects(
                pool, parse_target(arguments["url"]), limit, allow_private=place.allow_private
            )
    except TimeoutError:
        raise ToolFailed(f"no whole answer within {FETCH_TIMEOUT_S:g} s") from None
    except (ProviderError, UsageError) as error:
        raise ToolFailed(error.message if isinstance(error, ProviderError) else str(error)) from error
    finally:
        await pool.aclose()


def parse_target(url: str) -> FetchTarget:
    """Parse a URL.

    Raises:
        ToolFailed: it is invalid or not allowed.
    """
    if len(url) > MAX_URL_CHARS or not url.isprintable() or any(letter in url for letter in ' \\"<>'):
        raise ToolFailed(
            f"url must be one URL of at most {MAX_URL_CHARS} characters, without spaces and quotation marks"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ToolFailed("url cannot be read") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ToolFailed("url must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ToolFailed("url must not hold a user or a password")
    return FetchTarget(
        url=_drop_fragment(parts), host=parts.hostname, port=port or _DEFAULT_PORTS[parts.scheme], scheme=parts.scheme
    )


def _drop_fragment(parts: SplitResult) -> str:
    return parts._replace(fragment="").geturl()


async def _follow_redirects(pool: HttpPool, target: FetchTarget, limit: int, *, allow_private: bool) -> str:
    for _ in range(MAX_REDIRECTS + 1):
        addresses = await resolve_host(target, allow_private=allow_private)
        answer = await _request_target(pool, target, addresses, limit)
        if isinstance(answer, str):
            return answer
        target = _require_same_host(target, answer)
    raise ToolFailed(f"more than {MAX_REDIRECTS} redirects")


async def resolve_host(target: FetchTarget, *, allow_private: bool) -> list[str]:
    """Resolve a host to addresses, all of which are allowed.

    Raises:
        ToolFailed: it has no address, or one of them is not public.
    """
    import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

    try:
        resolved = await anyio.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolFailed(f"the host {target.host[:100]} cannot be found") from error
    # an address with a scope is valid on its own link only
    addresses = [address for address in dict.fromkeys(str(place[4][0]) for place in resolved) if "%" not in address]
    if not addresses:
        raise ToolFailed(f"the host {target.host[:100]} has no address")
    if not allow_private and not all(map(is_public, addresses)):
        raise ToolFailed(
            f"the host {target.host[:100]} is on this machine or a private network, which tools may not connect to"
        )
    return addresses[:MAX_ADDRESSES]


def is_public(text: str) -> bool:
    """True if an address is global; an IPv4 address embedded in an IPv6 one must be global too."""
    address: Address = ipaddress.ip_address(text)
    inner: Address | None = None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            inner = address.teredo[1]
        elif address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if inner is not None:
        return is_public(str(inner))
    return address.is_global and not address.is_multicast and not any(address in net for net in _LOCAL_NETWORKS)


async def _request_target(pool: HttpPool, target: FetchTarget, addresses: list[str], limit: int) -> str | Redirect:
    """Request *target* at its addresses in turn; returns the text for the model, or a redirect."""
    for last, address in enumerate(addresses, start=1 - len(addresses)):
        headers = {
            "Accept": "text/*, application/json;q=0.9, */*;q=0.1",
            "Accept-Encoding": "gzip",
            "User-Agent": "evalctl",
        }
        try:
            async with pool.get(target.url, headers, address=address, first_byte_s=FETCH_TIMEOUT_S) as response:
                if response.status in _REDIRECT_STATUSES and "location" in response.headers:
                    return _resolve_redirect(target, response.headers["location"])
                return await _read_text_body(target, response, limit)
        except ProviderError as error:
            if error.kind != "network" or not last:
                raise
    raise AssertionError(addresses)  # not empty, and the last one returns or raises


def _resolve_redirect(target: FetchTarget, location: str) -> Redirect:
    try:
        return Redirect(urljoin(target.url, location))
    except ValueError:
        raise ToolFailed("it redirects to what is no URL") from None


def _require_same_host(target: FetchTarget, redirect: Redirect) -> FetchTarget:
    """The target of a redirect within the same host.

    Raises:
        ToolFailed: it leads to another host; following it is the model's decision.
    """
    there = parse_target(redirect.to)
    same_place = (there.scheme, there.port) == (target.scheme, target.port)
    upgraded = (target.scheme, target.port, there.scheme, there.port) == ("http", 80, "https", 443)
    if there.host != target.host or not (same_place or upgraded):
        raise ToolFailed(f"it redirects to another host, which is not followed: {there.url}")
    return there


async def _read_text_body(target: FetchTarget, response: HttpResponse, limit: int) -> str:
    kind = response.headers.get("content-type", "")
    if kind and _TEXT_TYPES.match(kind) is None:
        raise ToolFailed(f"{render_url(target.url)} is {kind.partition(';')[0][:100]}, not text")
    body = bytearray()
    async for piece in response.read_chunks():
        body += piece
        if len(body) > limit:
            break
    return json.dumps(
        {
            "url": target.url,
            "status": response.status,
            "contentType": kind[:200] or None,
            "text": decode_body(bytes(body[:limit]), kind),
            "truncated": len(body) > limit,
        },
        ensure_ascii=False,
    )


def decode_body(body: bytes, content_type: str) -> str:
    """Decode the body with its declared character set, else as UTF-8; invalid bytes are replaced."""
    charset = _CHARSET.search(content_type)
    name = "utf-8-sig"
    if charset is not None:
        try:
            codec = codecs.lookup(charset[1]).name
        except LookupError:
            codec = ""
        if _CHARSET_CODEC.fullmatch(codec) and codec != "utf-8":
            name = codec
    return body.decode(name, "replace")


FETCH_URL = Tool(
    spec=ToolSpec(
        name="fetch_url",
        description=(
            "Get the text behind an http or https URL: pages as their HTML source, JSON, plain text. Nothing is sent "
            "but the request. Redirects to another host are told, not followed. The answer holds status, contentType, "
            "text, and truncated, which says whether the text was cut."
        ),
        input_schema=build_parameters(
            required=("url",),
            url={"type": "string", "description": "http:// or https://, without user and password."},
            maxBytes=integer_up_to(MAX_BYTES, f"Read at most so many bytes; {DEFAULT_BYTES} unless given."),
        ),
    ),
    effect="external",
    run=fetch_url,
)
