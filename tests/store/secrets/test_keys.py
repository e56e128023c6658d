"""Keys by their beginning, on the way of every event into the store: whole, in pieces, behind escapes.

Every key here is made up in the moment from the published look of its kind; none was ever issued.
"""

from __future__ import annotations

import json
import random
import re
import string
from base64 import b32encode, b64encode

import pytest

from store.secrets.key_table import KEY_SHAPES
from store.secrets.keys import find_open_key, match_key_shapes
from store.secrets.redactor import Redactor
from store.secrets.scanner import Cleaner, scan_text
from store.segments import Segmenter
from tests.growth import assert_in_proportion

RNG = random.Random(11)
ALNUM = string.ascii_letters + string.digits
URL = ALNUM + "-_"
HEX = "0123456789abcdef"
UPNUM = string.ascii_uppercase + string.digits


def make(length: int, letters: str = ALNUM) -> str:
    while True:
        body = "".join(RNG.choices(letters, k=length))
        if not re.search(r"x{4}|\*{3}|0{8}", body, re.IGNORECASE) and body[-1] not in "-_":
            return body


def make_uuid() -> str:
    return "-".join(make(length, HEX) for length in (8, 4, 4, 4, 12))


KEYS = {
    "google AQ": "AQ.Ab8RN6" + make(44, URL),
    "google AIza": "AIza" + make(35, URL),
    "anthropic": "sk-ant-api03-" + make(93, URL) + "AA",
    "langfuse": "sk-lf-" + make_uuid(),
    "openrouter": "sk-or-v1-" + make(64, HEX),
    "xai": "xai-" + make(80),
    "groq": "gsk_" + make(52),
    "hugging face": "hf_" + make(34),
    "hugging face organisation": "api_org_" + make(34),
    "nvidia": "nvapi-" + make(64, URL),
    "perplexity": "pplx-" + make(48),
    "replicate": "r8_" + make(37),
    "fireworks": "fw_" + make(24),
    "cerebras": "csk-" + make(48, string.ascii_lowercase + string.digits),
    "tavily": "tvly-dev-" + make(32),
    "voyage": "pa-" + make(43, URL),
    "elevenlabs": "sk_" + make(48, HEX),
    "pinecone": "pcsk_" + make(6) + "_" + make(63),
    "npm": "npm_" + make(36),
    "databricks": "dapi" + make(32, HEX),
    "stripe live": "sk_live_" + make(24),
    "stripe restricted test": "rk_test_" + make(24),
    "stripe restricted live": "rk_live_" + make(99),
    "aws": "AKIA" + make(16, UPNUM),
    "aws session": "ASIA" + make(16, UPNUM),
    "bedrock": "ABSK" + make(110) + "==",
    "bedrock for a day": "bedrock-api-key-" + make(200),
    "gitlab": "glpat-" + make(20, URL),
    "gitlab routable": "glpat-" + make(27, URL) + "." + make(2, HEX) + "." + make(9, HEX),
    "gitlab deploy": "gldt-" + make(20, URL),
    "gitlab feed": "glft-" + make(20, URL),
    "slack client": "xoxc-" + make(12, string.digits) + "-" + make(40),
    "slack configuration": "xoxe.xoxb-1-" + make(160),
    "doppler": "dp.st.dev." + make(43),
    "vault": "hvs." + make(95, URL),
    "dynatrace": "dt0c01." + make(24, UPNUM) + "." + make(64, UPNUM),
    "sendgrid": "SG." + make(22, URL) + "." + make(43, URL),
    "openshift": "sha256~" + make(43, URL),
    "1password": "A3-" + make(6, UPNUM) + "-" + make(11, UPNUM) + "".join("-" + make(5, UPNUM) for _ in range(3)),
    "postman": "PMAK-" + make(24, HEX) + "-" + make(34, HEX),
    "sourcegraph": "sgp_" + make(16, HEX) + "_" + make(40, HEX),
    "tailscale": "tskey-auth-" + make(14) + "-" + make(32),
    "shopify": "shpca_" + make(32, HEX),
    "fly": "fm2_" + make(200),
    "square": "EAAA" + make(60, URL),
    "circleci": "CCIPAT_" + make(22) + "_" + make(40, HEX),
    "cloudflare origin": "v1.0-" + make(24, HEX) + "-" + make(146, HEX),
    "docker organisation": "dckr_oat_" + make(32, URL),
    "hubspot": "pat-na1-" + make_uuid(),
    "airtable": "pat" + make(14) + "." + make(64, HEX),
    "trello": "ATTA" + make(72, HEX),
    "readme": "rdme_" + make(70, string.ascii_lowercase + string.digits),
}
REDACTOR = Redactor([("MY_KEY", "correct-horse-battery")])


def stream(pieces: list[str]) -> str:
    segmenter = Segmenter(REDACTOR, lambda: 0)
    segments = [one for piece in pieces for one in segmenter.add_delta("text", 1, piece)]
    return "".join(str(one.payload["text"]) for one in [*segments, *segmenter.flush()])


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize(
    "around", ["{}", "item 3: {}", "KEY={} and more", '{{"key": "{}"}}', "line\n{}\n", "({}),", "a\\n{} b", "%3D{}&x=1"]
)
def test_key_is_found_whole_and_however_it_is_cut(key: str, around: str) -> None:
    text = around.format(key)
    once = REDACTOR.redact_text(text)
    assert key not in once
    assert "[redacted:" in once
    assert REDACTOR.redact_text(once) == once
    for at in (1, 2, 5, len(key) // 2, len(key) - 1):
        cut = around.index("{}") + at
        assert key not in stream([text[:cut], text[cut:]])
    assert stream(list(text)) == once
    assert key not in Cleaner().mask_text(text)


def test_every_beginning_of_the_table_is_open_until_its_key_is_whole() -> None:
    for _, beginning, _ in KEY_SHAPES:
        for length in range(1, len(beginning) + 1):
            text = f"word ({beginning[:length]}"
            assert find_open_key(text) == 6, text
        assert find_open_key(f"{beginning} ") == len(beginning) + 1


@pytest.mark.parametrize(
    "text",
    [
        "hf_hub_download_with_retries_and_backoff(model)",
        "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
        "pattern_matching_of_the_whole_repository",
        "data-testid-of-the-second-button-in-the-row",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
        "SKU0123456789 SG.example.com/path/to/something",
        "v1.0-beta.2 t1.micro.instances.of.the.region",
        "key-value-store-with-a-long-name",
    ],
)
def test_what_only_begins_like_a_key_stays(text: str) -> None:
    assert REDACTOR.redact_text(text) == text


def test_key_inside_a_longer_word_is_none() -> None:
    key = KEYS["hugging face"]
    assert list(match_key_shapes(f"x{key}")) == []
    assert list(match_key_shapes(f"{key}x{make(40)}")) == []


@pytest.mark.parametrize("text", ["pat", "a_", "sk-", "AQ.", "hf_" * 3, "\\n", "%3", "aaaaaaaaaaaaaaaaa.", "SG.a"])
def test_time_is_in_proportion_to_the_length(text: str) -> None:
    assert_in_proportion(lambda given: list(match_key_shapes(given)), text)


VALUE = "correct-horse-battery"
FORMS = {
    "hexadecimal": VALUE.encode().hex(),
    "hexadecimal in capitals": VALUE.encode().hex().upper(),
    "base32": b32encode(VALUE.encode()).decode(),
    "base32 without padding": b32encode(VALUE.encode()).decode().rstrip("="),
    "base32 in small letters": b32encode(VALUE.encode()).decode().lower(),
    **{
        f"base32 behind {length} bytes": b32encode(b"user:123"[:length] + VALUE.encode() + b"@host").decode()
        for length in range(1, 8)
    },
    "base64": b64encode(VALUE.encode()).decode(),
    "hexadecimal inside": (b"user:" + VALUE.encode() + b"@host").hex(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_value_of_the_environment_is_found_in_every_form(form: str) -> None:
    redacted = REDACTOR.redact_text(f"out: {form} end")
    assert "[redacted:MY_KEY]" in redacted
    rest = "".join(re.split(r"\[redacted:MY_KEY\]|out: | end", redacted))
    assert len(rest) <= len(form) - len(VALUE)


SECRET = make(20)
CONTEXTS = {
    "service key": f"X_SERVICE_KEY={SECRET}",
    "service key in YAML": f"X_SERVICE_KEY: '{SECRET}'",
    "header": f"X-Service-Key: {SECRET}",
    "cookie": f"Cookie: theme=dark; sessionid={SECRET}; lang=en",
    "set-cookie": f"Set-Cookie: sid={SECRET}; Path=/; HttpOnly",
    "cookie in JSON": json.dumps({"Cookie": f"a=1; sid={SECRET}"}),
    "docker": json.dumps({"auths": {"r.example": {"auth": b64encode(f"me:{SECRET}".encode()).decode()}}}),
    "docker in JSON": json.dumps({"file": json.dumps({"auth": b64encode(f"me:{SECRET}".encode()).decode()})}),
    "netrc": f"machine api.example.com login me password {SECRET}",
    "netrc in lines": f"machine api.example.com\n  login me\n  password {SECRET}\n",
    "netrc default": f"default login me password {SECRET}",
    "netrc without login": f"machine api.example.com password {SECRET}",
    "netrc, password first": f"machine api.example.com password {SECRET} login me",
    "pgpass": f"db.example.com:5432:orders:app:{SECRET}",
    "pgpass of any port": f"db.example.com:*:*:app:{SECRET}",
    "a name before the value": f"password: db_password: {SECRET}",
    "two names before the value": f"secret: token: api_key: {SECRET}",
    "a name with quotes": f'password = "DB_PASSWORD" # password = "{SECRET}"',
    "pwd": f"MYSQL_PWD={SECRET}",
    "signature": f"https://x.blob.core.windows.net/c/f?sv=2024&sig={make(43)}%3D&se=1".replace("%3D", ""),
}


@pytest.mark.parametrize("text", CONTEXTS.values(), ids=CONTEXTS)
def test_secret_by_what_stands_around_it(text: str) -> None:
    assert scan_text(text), text
    masked = Cleaner().mask_text(text)
    assert SECRET not in masked
    assert b64encode(f"me:{SECRET}".encode()).decode() not in masked
    if text.startswith("{"):
        json.loads(masked)


@pytest.mark.parametrize(
    "text",
    [
        "PRIMARY_KEY = user_id_and_tenant_id",
        "Accept cookies: yes",
        "Cookie: theme=dark; lang=en",
        "login with a password of at least eight characters",
        "machine learning password managers",
        "CACHE_KEY: str = 'orders-by-customer'",
        '{"auth": "none"}',
        "listens on :5432: see the docs",
        "password: see the manual; token: none",
    ],
)
def test_words_of_the_same_kind_stay(text: str) -> None:
    assert Cleaner().mask_text(text) == text
