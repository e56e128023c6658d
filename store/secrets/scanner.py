"""The full secret scanner: keys by shape, credentials in headers and URLs, and values under a telling name.

It scans text that leaves the store or is kept long: blobs, reports, records of runs, log lines. On the hot path of
events the cheaper `Redactor` handles exact values and the shapes of keys. A match is replaced by a mark, as the
redactor does.

The time is linear in the length of any text: one pass with a possessive pattern finds words, plain searches for a fixed
text find everything else, and every repetition is bounded and unambiguous. No match contains a quote, and a backslash
only before `n`, `r` or `t` in a private key, so that JSON stays JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache, lru_cache
from hashlib import sha256

import attrs

from store.secrets.keys import PLACEHOLDER, SecretMatch, has_entropy, is_random_key, match_key_shapes
from store.secrets.redactor import MARK_PREFIX

MIN_NAMED_ENTROPY = 3.0
"""Smallest entropy of a value that only its name marks as a secret."""


def scan_text(text: str, *, allowed: Collection[str] = ()) -> list[SecretMatch]:
    """Find the secrets in *text*, in order and without overlaps.

    *allowed* holds SHA-256 digests (hexadecimal) of texts that are not secrets, such as a documented dummy key.
    """
    found = sorted(_match_all(text), key=lambda one: (one.start, -one.end))
    kept: list[SecretMatch] = []
    for one in found:
        if allowed and sha256(text[one.start : one.end].encode("utf-8", "surrogatepass")).hexdigest() in allowed:
            continue
        if kept and one.start < kept[-1].end:
            if one.end > kept[-1].end:
                kept[-1] = attrs.evolve(kept[-1], end=one.end)
            continue
        kept.append(one)
    return kept


class Cleaner:
    """Replaces secrets by marks and counts them; one instance per file or report gives that file's counts."""

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self.replaced: Counter[str] = Counter()
        """Number of secrets replaced so far, by shape."""
        self.marked: Counter[str] = Counter()
        """Number of marks that the texts already held, by name: of secrets replaced on their way into the store."""
        self._allowed = allowed

    def mask_text(self, text: str, *, count_marks: bool = True) -> str:
        """Replace every secret in *text* by a mark; JSON text stays JSON.

        Pass false for *count_marks* with a text whose parts this cleaner has already seen.
        """
        if len(text) < MIN_TEXT_CHARACTERS:
            return text
        if count_marks and MARK_PREFIX in text:
            self.marked.update(_MARK.findall(text))
        for _ in range(MAX_ROUNDS):
            found = scan_text(text, allowed=self._allowed)
            if not found:
                break
            pieces: list[str] = []
            at = 0
            for one in found:
                pieces += [text[at : one.start], f"{MARK_PREFIX}{one.shape}]"]
                at = one.end
                self.replaced[one.shape] += 1
            text = "".join([*pieces, text[at:]])
        return text


_MARK = re.compile(re.escape(MARK_PREFIX) + r"([A-Za-z0-9_.-]{1,128})\]")
MAX_ROUNDS = 4
"""Largest number of passes: of adjacent secrets, the second may match only after a mark replaced the first."""
MIN_TEXT_CHARACTERS = 8
"""Shortest text that is scanned; no secret is shorter."""
MAX_CACHED_CHARACTERS = 1 << 16
"""Longest text, in characters, whose result is cached; the texts that every run of a cell repeats are long."""


def mask_secrets(text: str) -> str:
    """Replace every secret in *text* by a mark, without counting; the results of recent texts are cached."""
    return _mask_cached(text) if len(text) <= MAX_CACHED_CHARACTERS else Cleaner().mask_text(text)


@lru_cache(maxsize=32)
def _mask_cached(text: str) -> str:
    return Cleaner().mask_text(text)


# --- credentials by what stands around them -----------------------------------------------------------------------


@attrs.frozen
class _ContextRule:
    """A rule for a credential that a fixed text, the anchor, precedes.

    `pattern` matches at the anchor, and its group `secret` is the match; `back` characters before the anchor belong to
    it. With `lower`, the anchor matches in any case.
    """

    name: str
    anchor: str
    pattern: str
    judge: Callable[[str], bool]
    lower: bool = False
    back: int = 0


def _is_password(body: str) -> bool:
    """Return whether the password part of a URL can be a real password."""
    return (
        len(set(body)) > 2
        and body.lower() not in _COMMON_WORDS
        and not PLACEHOLDER.search(body)
        and not _VARIABLE.search(body)
    )


def _is_cookie(body: str) -> bool:
    """Return whether the value of a cookie header holds a secret in any of its cookies."""
    values = (pair.partition("=")[2].strip() for pair in body.split(";")[:50])
    return any(len(value) >= MIN_TEXT_CHARACTERS and _is_secret_value(value) for value in values)


def _is_secret_value(body: str) -> bool:
    """Return whether a value under a telling name can be a secret: mixed and random, no name, path, number or call."""
    return (
        _MIXED.match(body) is not None
        and has_entropy(body, MIN_NAMED_ENTROPY)
        and not PLACEHOLDER.search(body)
        and not _VARIABLE.search(body)
        and not _HARMLESS_VALUE.fullmatch(body)
    )


_MIXED = re.compile(r"(?=[^0-9]*[0-9])[^A-Za-z]*[A-Za-z]")
_VARIABLE = re.compile(r"[$%]\{|\{\{|\$[A-Z(]|^<|%\(|^\{|^\$")
_COMMON_WORDS = frozenset(
    {"password", "passwd", "pass", "pwd", "secret", "token", "key", "user", "test", "guest", "port"}
)
# Words of letters with a few digits (utf8, sha256, token_2), versions, dates, times, dotted names.
_HARMLESS_VALUE = re.compile(
    r"[A-Za-z]+\d{0,4}(?:[_.-][A-Za-z]*\d{0,4})*|[\d.:,TZ+-]+|(?:[A-Za-z_]\w{0,40}\.){1,6}\w{1,40}"
)

_EQUALS = r"""(?:\\{0,3}["'])?\s{0,4}+(?:=>|:=|[:=])\s{0,4}+(?:\\{0,3}["'`])?"""
_PAIR = (
    r"[a-z0-9]{0,12}+(?:[_-][a-z0-9]{1,12}+){0,3}+"
    + _EQUALS
    + r"(?P<secret>[^\s\"'`\\,;<>()\[\]{}|&]{12,256}+)(?![(\[])"
)
_HEADER = _EQUALS + r"(?:[A-Za-z]{1,12}\s{1,4}+)?(?P<secret>[A-Za-z0-9._~+/=-]{12,2048}+)"
_VALUE = r"(?P<secret>[^\s\"'`\\,;<>()\[\]{}|&]{12,256}+)(?![(\[])"
_GAP = r"(?:\s|\\[nrt]){1,8}+"
_WORD = r"(?P<secret>[^\s\"'\\:]{4,256}+)"
_CONTEXT_RULES = (
    *(
        _ContextRule("named-secret", anchor, re.escape(anchor) + _PAIR, _is_secret_value, lower=True)
        for anchor in (
            "passw", "passphrase", "secret", "token", "credential", "api_key", "api-key", "apikey", "access_key",
            "access-key", "accesskey", "private_key", "privatekey", "auth_key", "signing_key", "encryption_key",
        )
    ),
    *(
        _ContextRule("named-secret", anchor, re.escape(anchor) + _EQUALS + _VALUE, _is_secret_value)
        for anchor in ("_KEY", "-Key", "_PWD", "_PASS", "_DSN", "_CREDS", "_COOKIE")
    ),
    _ContextRule(
        "cookie", "cookie", "cookie2?" + _EQUALS + r"(?P<secret>[^\r\n\"'`\\]{8,4096}+)", _is_cookie, lower=True
    ),
    _ContextRule(
        "docker-auth", "auth",
        r"""(?<=["'])auth\\{0,3}["']\s{0,4}+[:=]\s{0,4}+\\{0,3}["'](?P<secret>[A-Za-z0-9+/_-]{12,2048}+={0,2})""",
        is_random_key,
    ),
    *(
        _ContextRule("netrc-password", anchor, re.escape(anchor) + pattern, judge)
        for anchor, pattern, judge in (
            ("login ", r"[^\s\"'\\]{1,128}+" + _GAP + "password" + _GAP + _WORD, _is_password),
            ("machine ", r"[^\s\"'\\]{1,128}+" + _GAP + "password" + _GAP + _WORD, _is_secret_value),
            ("password ", r"(?P<secret>[^\s\"'\\]{8,256}+)" + _GAP + r"(?:login|account|machine)\s", _is_secret_value),
        )
    ),
    *(
        _ContextRule(
            "pgpass-password", port, re.escape(port) + r"(?:[^:\s\"'\\]{1,64}+:){2}" + _WORD, _is_password
        )
        for port in (":5432:", ":5433:", ":5434:", ":6432:", ":26257:", ":*:")
    ),
    _ContextRule("azure-signature", "sig=", r"(?<=[?&])sig=(?P<secret>[A-Za-z0-9%+/_-]{40,120}+={0,2})", is_random_key),
    _ContextRule(
        "maxmind-key", "_mmk", r"(?<=[A-Za-z0-9]{6}_[A-Za-z0-9]{29})(?P<secret>_mmk)(?![A-Za-z0-9])", bool, back=36
    ),
    _ContextRule(
        "teams-webhook", ".webhook.office.com/webhookb2/",
        r"\.webhook\.office\.com/webhookb2/(?P<secret>[0-9a-z@-]{36,80}+/IncomingWebhook/[0-9a-z]{32}/[0-9a-z-]{36}+)",
        is_random_key,
    ),
    _ContextRule("auth-header", "authorization", "authorization" + _HEADER, _is_secret_value, lower=True),
    _ContextRule(
        "auth-header", "bearer",
        r"bearer\s{1,4}+(?P<secret>[A-Za-z0-9._~+/=-]{16,2048}+)",
        _is_secret_value,
        lower=True,
    ),
    _ContextRule(
        "url-password",
        "://",
        r"""://[^\s/@:"'`<>\\?#]{0,64}+:(?P<secret>[^\s/@"'`<>\\?#]{3,256}+)@[A-Za-z0-9\[]""",
        _is_password,
    ),
    _ContextRule("azure-key", "AccountKey=", r"AccountKey=(?P<secret>[A-Za-z0-9+/]{40,100}+={0,2})", is_random_key),
    _ContextRule(
        "telegram-token", ":AA",
        r"(?<=[0-9]{8}):(?P<secret>AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])",
        is_random_key,
    ),
    _ContextRule(
        "azure-secret",
        "Q~",
        r"(?<=[A-Za-z0-9_~.]{3}[0-9])(?P<secret>Q~[A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~.-])",
        is_random_key,
        back=4,
    ),
    _ContextRule(
        "terraform-token",
        ".atlasv1.",
        r"(?<=[A-Za-z0-9]{14})\.atlasv1\.(?P<secret>[A-Za-z0-9_=-]{60,70}+)",
        is_random_key,
    ),
    _ContextRule("mailchimp-key", "-us", r"(?<=[0-9a-f]{32})(?P<secret>-us[0-9]{1,2})(?![A-Za-z0-9])", bool, back=32),
    _ContextRule(
        "slack-webhook",
        "hooks.slack.com/services/",
        r"hooks\.slack\.com/services/(?P<secret>T[A-Z0-9]{6,12}/B[A-Z0-9]{6,12}/[A-Za-z0-9]{20,40}+)",
        is_random_key,
    ),
    _ContextRule(
        "discord-webhook",
        "/api/webhooks/",
        r"/api/webhooks/(?P<secret>[0-9]{16,20}+/[A-Za-z0-9_-]{50,90}+)",
        is_random_key,
    ),
    _ContextRule(
        "private-key",
        "-----BEGIN ",
        r"(?P<secret>-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\[nrt]){0,4}+[A-Z][A-Za-z-]{2,20}+: ?[A-Za-z0-9,.+ -]{1,80}+){0,3}+"
        r"(?:[A-Za-z0-9+/=\s]++|\\[nrt]){0,2000}+(?:-----END [A-Z0-9 ]{0,40}+-----)?)",
        lambda whole: len(whole) > 90 and is_random_key(whole[40:]),
    ),
)  # fmt: skip


@cache
def _compile_rule(one: _ContextRule) -> re.Pattern[str]:
    """Compile a rule's pattern, when its anchor first occurs."""
    return re.compile(one.pattern, re.IGNORECASE if one.lower else 0)


def _find_secrets_by_context(text: str) -> Iterator[SecretMatch]:
    lowered = text.lower() if text.isascii() else text.translate(_ASCII_LOWERCASE)
    for one in _CONTEXT_RULES:
        looked_at = lowered if one.lower else text
        at = looked_at.find(one.anchor)
        if at < 0:
            continue
        pattern = _compile_rule(one)
        while at >= 0:
            found = pattern.match(text, at)
            after = at + len(one.anchor)
            if found:
                start, end = found.span("secret")
                if one.judge(found["secret"]):
                    # Only behind a secret: a refused candidate may be another name, with the secret behind it.
                    after = max(after, end)
                    yield SecretMatch(one.name, start - one.back, end)
            at = looked_at.find(one.anchor, after)


_ASCII_LOWERCASE = {ord(upper): upper.lower() for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""For non-ASCII text, whose length `str.lower` could change."""


def _match_all(text: str) -> Iterator[SecretMatch]:
    yield from match_key_shapes(text)
    yield from _find_secrets_by_context(text)
