"""The full secret scanner: keys by shape, credentials in headers and URLs, and values under a telling name.

It scans text that leaves the store or is kept long: blobs, reports, records of runs, log lines. On the hot path of
events the cheaper `Redactor` handles exact values and the most common shapes. A match is replaced by a mark, as the
redactor does.

The time is linear in the length of any text: one pass with a possessive pattern finds words, plain searches for a fixed
text find everything else, and every repetition is bounded and unambiguous. No match contains a quote, and a backslash
only before `n`, `r` or `t` in a private key, so that JSON stays JSON.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, lru_cache
from hashlib import sha256

import attrs

from store.secrets.redactor import MARK_PREFIX

MIN_KEY_ENTROPY = 2.6
"""Smallest entropy of a key, in bits per character; 16 or more random hexadecimal digits have at least 3.3."""
MIN_NAMED_ENTROPY = 3.0
"""Smallest entropy of a value that only its name marks as a secret."""
MIN_WORD_CHARACTERS = 16
"""Length in characters of the shortest key that is recognised by its beginning."""


@attrs.frozen
class SecretMatch:
    """A secret found in a text: its shape and its offsets."""

    shape: str
    start: int
    end: int


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
        self._allowed = allowed

    def mask_text(self, text: str) -> str:
        """Replace every secret in *text* by a mark; JSON text stays JSON."""
        if len(text) < MIN_TEXT_CHARACTERS:
            return text
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


# --- keys by their beginning --------------------------------------------------------------------------------------

_N = "[A-Za-z0-9]"
_U = "[A-Za-z0-9_-]"
_X = "[0-9a-f]"
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("anthropic-key", "sk-ant-", _U + "{20,512}"),
    ("openai-key", "sk-proj-", _U + "{20,512}"),
    ("openai-key", "sk-svcacct-", _U + "{20,512}"),
    ("openai-key", "sk-admin-", _U + "{20,512}"),
    ("openrouter-key", "sk-or-", _U + "{20,512}"),
    ("langfuse-key", "sk-lf-", _X + "{8}(?:-" + _X + "{4}){3}-" + _X + "{12}"),
    ("sk-key", "sk-", _N + "{20,512}"),
    ("elevenlabs-key", "sk_", _X + "{48}"),
    ("github-token", "ghp_", _N + "{30,255}"),
    ("github-token", "gho_", _N + "{30,255}"),
    ("github-token", "ghu_", _N + "{30,255}"),
    ("github-token", "ghs_", _N + "{30,255}"),
    ("github-token", "ghr_", _N + "{30,255}"),
    ("github-token", "github_pat_", "[A-Za-z0-9_]{22,255}"),
    ("gitlab-token", "glpat-", _U + "{20,255}"),
    ("gitlab-token", "gldt-", _U + "{20,255}"),
    ("gitlab-token", "glrt-", _U + "{20,255}"),
    ("gitlab-token", "glptt-", _X + "{40}"),
    ("aws-key", "AKIA", "[A-Z0-9]{16}"),
    ("aws-key", "ASIA", "[A-Z0-9]{16}"),
    ("bedrock-key", "ABSK", "[A-Za-z0-9+/]{80,400}={0,2}"),
    ("slack-token", "xoxa-", "[A-Za-z0-9-]{10,255}"),
    ("slack-token", "xoxb-", "[A-Za-z0-9-]{10,255}"),
    ("slack-token", "xoxe-", "[A-Za-z0-9-]{10,255}"),
    ("slack-token", "xoxp-", "[A-Za-z0-9-]{10,255}"),
    ("slack-token", "xoxr-", "[A-Za-z0-9-]{10,255}"),
    ("slack-token", "xoxs-", "[A-Za-z0-9-]{10,255}"),
    ("slack-token", "xapp-", "[A-Za-z0-9-]{20,255}"),
    ("google-key", "AIza", _U + "{35}"),
    ("google-secret", "GOCSPX-", _U + "{28}"),
    ("google-token", "ya29.", _U + "{20,512}"),
    ("jwt", "eyJ", _U + "{8,4096}\\.eyJ" + _U + "{8,4096}\\." + _U + "{8,4096}"),
    ("stripe-key", "sk_live_", _N + "{16,255}"),
    ("stripe-key", "sk_test_", _N + "{16,255}"),
    ("stripe-key", "rk_live_", _N + "{16,255}"),
    ("stripe-secret", "whsec_", "[A-Za-z0-9+/]{32,64}={0,2}"),
    ("sendgrid-key", "SG.", _U + "{22}\\." + _U + "{43}"),
    ("mailgun-key", "key-", _X + "{32}"),
    ("twilio-key", "SK", _X + "{32}"),
    ("npm-token", "npm_", _N + "{36}"),
    ("pypi-token", "pypi-", "AgEI" + _U + "{50,512}"),
    ("rubygems-key", "rubygems_", _X + "{48}"),
    ("docker-token", "dckr_pat_", _U + "{27}"),
    ("hugging-face-token", "hf_", _N + "{34,64}"),
    ("replicate-token", "r8_", _N + "{37}"),
    ("groq-key", "gsk_", _N + "{40,64}"),
    ("xai-key", "xai-", _N + "{60,128}"),
    ("perplexity-key", "pplx-", _N + "{40,64}"),
    ("fireworks-key", "fw_", _N + "{22,40}"),
    ("cerebras-key", "csk-", _N + "{40,64}"),
    ("nvidia-key", "nvapi-", _U + "{60,80}"),
    ("tavily-key", "tvly-", _U + "{24,80}"),
    ("langsmith-key", "lsv2_pt_", _X + "{32}_" + _X + "{10}"),
    ("langsmith-key", "lsv2_sk_", _X + "{32}_" + _X + "{10}"),
    ("together-key", "tgp_v1_", _U + "{40,64}"),
    ("e2b-key", "e2b_", _X + "{40}"),
    ("jina-key", "jina_", _N + "{40,80}"),
    ("digitalocean-token", "dop_v1_", _X + "{64}"),
    ("digitalocean-token", "doo_v1_", _X + "{64}"),
    ("digitalocean-token", "dor_v1_", _X + "{64}"),
    ("databricks-token", "dapi", _X + "{32}(?:-\\d)?"),
    ("shopify-token", "shpat_", "[0-9A-Fa-f]{32}"),
    ("shopify-token", "shpss_", "[0-9A-Fa-f]{32}"),
    ("square-token", "sq0atp-", _U + "{22}"),
    ("square-token", "sq0csp-", _U + "{43}"),
    ("atlassian-token", "ATATT3", "[A-Za-z0-9_=-]{100,400}"),
    ("linear-key", "lin_api_", _N + "{40}"),
    ("notion-token", "ntn_", _N + "{40,60}"),
    ("notion-token", "secret_", _N + "{43}"),
    ("figma-token", "figd_", _U + "{40,80}"),
    ("postman-key", "PMAK-", _X + "{24}-" + _X + "{34}"),
    ("new-relic-key", "NRAK-", "[A-Z0-9]{27}"),
    ("grafana-token", "glsa_", _N + "{32}_[0-9A-Fa-f]{8}"),
    ("grafana-token", "glc_", "eyJ[A-Za-z0-9+/]{30,400}={0,2}"),
    ("sentry-token", "sntrys_", "eyJ[A-Za-z0-9+/]{30,400}={0,2}_" + _U + "{20,80}"),
    ("sentry-token", "sntryu_", _X + "{64}"),
    ("vault-token", "hvs.", _U + "{24,255}"),
    ("vault-token", "hvb.", _U + "{100,300}"),
    ("pulumi-token", "pul-", _X + "{40}"),
    ("age-key", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}"),
    ("planetscale-token", "pscale_tkn_", _U + "{32,64}"),
    ("planetscale-token", "pscale_pw_", _U + "{32,64}"),
    ("supabase-token", "sbp_", _X + "{40}"),
    ("supabase-token", "sb_secret_", _U + "{20,80}"),
    ("doppler-token", "dp.pt.", _N + "{40,44}"),
    ("dynatrace-token", "dt0c01.", "[A-Z0-9]{24}\\.[A-Z0-9]{64}"),
    ("artifactory-key", "AKCp", _N + "{60,80}"),
    ("contentful-token", "CFPAT-", _U + "{43}"),
    ("heroku-key", "HRKU-", _U + "{36,80}"),
    ("airtable-token", "pat", _N + "{14}\\." + _X + "{64}"),
)
"""(name, beginning, rest): the rest is a bounded pattern whose neighbouring parts share no character."""

_HEAD_CHARACTERS = 2
_SHORT_BEGINNINGS = tuple(sorted({head for _, head, _ in _SHAPES if "." in head}))


@cache
def _compile_word_pattern() -> re.Pattern[str]:
    """Compile the pattern for possible keys: a long enough word, or a short beginning with a dot before one."""
    short = "|".join(map(re.escape, _SHORT_BEGINNINGS))
    return re.compile(
        rf"(?P<short>{short})(?=[A-Za-z0-9_-]{{{MIN_WORD_CHARACTERS}}})|(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{{{MIN_WORD_CHARACTERS},}}+"
    )


_BOUNDARY = re.compile(r"(?:\A|[^A-Za-z0-9_-]|\\[bfnrt]|\\u[0-9a-f]{4}|%[0-9A-Fa-f]{2})\Z")


@cache
def _group_by_head() -> Mapping[str, tuple[tuple[str, str, str], ...]]:
    """Group the shapes by their first two characters, those with longer beginnings first."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for shape in _SHAPES:
        groups.setdefault(shape[1][:_HEAD_CHARACTERS], []).append(shape)
    return {head: tuple(sorted(group, key=lambda shape: -len(shape[1]))) for head, group in groups.items()}


@cache
def _compile_key_pattern(beginning: str, rest: str) -> re.Pattern[str]:
    """Compile a key's pattern on first use: compiling all hundred takes a while, and most are never needed.

    The key must end with its word: a longer word is something else.
    """
    return re.compile(f"{re.escape(beginning)}(?:{rest})(?![A-Za-z0-9_])")


def _match_key_shapes(text: str) -> Iterator[SecretMatch]:
    shapes = _group_by_head()
    for word in _compile_word_pattern().finditer(text):
        start = word.start()
        if word.lastgroup and start and not _BOUNDARY.search(text[max(0, start - 6) : start]):
            continue
        for at in _list_possible_starts(text, start):
            for name, beginning, rest in shapes.get(text[at : at + _HEAD_CHARACTERS], ()):
                if not text.startswith(beginning, at):
                    continue
                whole = _compile_key_pattern(beginning, rest).match(text, at)
                if whole and _is_random_key(whole.group()[len(beginning) :]):
                    yield SecretMatch(name, at, whole.end())
                    break


def _list_possible_starts(text: str, at: int) -> Iterator[int]:
    r"""Yield the possible starts of the word at *at*: there, or after the rest of an escape (`\n`, `%3D`) before it."""
    yield at
    before = text[at - 1] if at else ""
    if before == "\\":
        yield at + 5 if text[at] == "u" else at + 1
    elif before == "%":
        yield at + 2


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


def _is_random_key(body: str) -> bool:
    """Return whether a body can be a key: neither repetitive (`xxxx`, `0000`) nor a placeholder."""
    return _has_entropy(body, MIN_KEY_ENTROPY) and not _PLACEHOLDER.search(body)


def _is_password(body: str) -> bool:
    """Return whether the password part of a URL can be a real password."""
    return (
        len(set(body)) > 2
        and body.lower() not in _COMMON_WORDS
        and not _PLACEHOLDER.search(body)
        and not _VARIABLE.search(body)
    )


def _is_secret_value(body: str) -> bool:
    """Return whether a value under a telling name can be a secret: mixed and random, no name, path, number or call."""
    return (
        _MIXED.match(body) is not None
        and _has_entropy(body, MIN_NAMED_ENTROPY)
        and not _PLACEHOLDER.search(body)
        and not _VARIABLE.search(body)
        and not _HARMLESS_VALUE.fullmatch(body)
    )


def measure_entropy(text: str) -> float:
    """Compute the Shannon entropy of the first 256 characters, in bits per character."""
    if not text:
        return 0.0
    head = text[:256]
    weights = map(_N_LOG_N.__getitem__, map(head.count, set(head)))
    return math.log2(len(head)) - sum(weights) / len(head)


def _has_entropy(body: str, bits: float) -> bool:
    """Return whether the entropy is at least *bits*; the number of distinct characters usually decides."""
    head = body[:256]
    rest = len(head) - len(set(head)) + 1  # the largest share of one character
    return math.log2(len(head)) - _N_LOG_N[rest] / len(head) >= bits or measure_entropy(head) >= bits


_N_LOG_N = (0.0, *(n * math.log2(n) for n in range(1, 257)))


_MIXED = re.compile(r"(?=[^0-9]*[0-9])[^A-Za-z]*[A-Za-z]")
_PLACEHOLDER = re.compile(
    r"x{4}|\*{3}|\.{3}|0{8}|example|your[_-]|placeholder|change[_-]?me|dummy|redacted|0123456789|1234567890|abcdefgh",
    re.IGNORECASE,
)
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
_CONTEXT_RULES = (
    *(
        _ContextRule("named-secret", anchor, re.escape(anchor) + _PAIR, _is_secret_value, lower=True)
        for anchor in (
            "passw", "passphrase", "secret", "token", "credential", "api_key", "api-key", "apikey", "access_key",
            "access-key", "accesskey", "private_key", "privatekey", "auth_key", "signing_key", "encryption_key",
        )
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
    _ContextRule("azure-key", "AccountKey=", r"AccountKey=(?P<secret>[A-Za-z0-9+/]{40,100}+={0,2})", _is_random_key),
    _ContextRule(
        "telegram-token", ":AA",
        r"(?<=[0-9]{8}):(?P<secret>AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])",
        _is_random_key,
    ),
    _ContextRule(
        "azure-secret",
        "Q~",
        r"(?<=[A-Za-z0-9_~.]{3}[0-9])(?P<secret>Q~[A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~.-])",
        _is_random_key,
        back=4,
    ),
    _ContextRule(
        "terraform-token",
        ".atlasv1.",
        r"(?<=[A-Za-z0-9]{14})\.atlasv1\.(?P<secret>[A-Za-z0-9_=-]{60,70}+)",
        _is_random_key,
    ),
    _ContextRule("mailchimp-key", "-us", r"(?<=[0-9a-f]{32})(?P<secret>-us[0-9]{1,2})(?![A-Za-z0-9])", bool, back=32),
    _ContextRule(
        "slack-webhook",
        "hooks.slack.com/services/",
        r"hooks\.slack\.com/services/(?P<secret>T[A-Z0-9]{6,12}/B[A-Z0-9]{6,12}/[A-Za-z0-9]{20,40}+)",
        _is_random_key,
    ),
    _ContextRule(
        "discord-webhook",
        "/api/webhooks/",
        r"/api/webhooks/(?P<secret>[0-9]{16,20}+/[A-Za-z0-9_-]{50,90}+)",
        _is_random_key,
    ),
    _ContextRule(
        "private-key",
        "-----BEGIN ",
        r"(?P<secret>-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\[nrt]){0,4}+[A-Z][A-Za-z-]{2,20}+: ?[A-Za-z0-9,.+ -]{1,80}+){0,3}+"
        r"(?:[A-Za-z0-9+/=\s]++|\\[nrt]){0,2000}+(?:-----END [A-Z0-9 ]{0,40}+-----)?)",
        lambda whole: len(whole) > 90 and _is_random_key(whole[40:]),
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
                after = max(after, end)
                if one.judge(found["secret"]):
                    yield SecretMatch(one.name, start - one.back, end)
            at = looked_at.find(one.anchor, after)


_ASCII_LOWERCASE = {ord(upper): upper.lower() for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""For non-ASCII text, whose length `str.lower` could change."""


def _match_all(text: str) -> Iterator[SecretMatch]:
    yield from _match_key_shapes(text)
    yield from _find_secrets_by_context(text)
