"""What the full scanner finds, what it lets be, and that no text can make it slow.

Every key here is made up in the moment from the published look of its kind; none was ever issued.
"""

import base64
import hashlib
import json
import random
import sysconfig
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.secrets.keys import SecretMatch, measure_entropy
from store.secrets.redactor import MARK_PREFIX, Redactor
from store.secrets.scanner import Cleaner, scan_text
from tests.growth import assert_in_proportion

LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
DIGITS = "0123456789"
ALNUM = LOWER + UPPER + DIGITS
URL = ALNUM + "-_"
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"
UPNUM = UPPER + DIGITS

KEYS: dict[str, tuple[object, ...]] = {
    "anthropic": ("sk-ant-api03-", (URL, 93), "AA"),
    "openai project": ("sk-proj-", (ALNUM, 74), "T3BlbkFJ", (ALNUM, 40)),
    "openai legacy": ("sk-", (ALNUM, 20), "T3BlbkFJ", (ALNUM, 20)),
    "openai service account": ("sk-svcacct-", (URL, 60)),
    "openai admin": ("sk-admin-", (URL, 60)),
    "openrouter": ("sk-or-v1-", (HEX, 64)),
    "langfuse": ("sk-lf-", (HEX, 8), "-", (HEX, 4), "-", (HEX, 4), "-", (HEX, 4), "-", (HEX, 12)),
    "elevenlabs": ("sk_", (HEX, 48)),
    "github classic": ("ghp_", (ALNUM, 36)),
    "github oauth": ("gho_", (ALNUM, 36)),
    "github server": ("ghs_", (ALNUM, 36)),
    "github fine-grained": ("github_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "gitlab": ("glpat-", (URL, 20)),
    "gitlab trigger": ("glptt-", (HEX, 40)),
    "aws id": ("AKIA", (UPPER + "234567", 16)),
    "aws session id": ("ASIA", (UPPER + "234567", 16)),
    "bedrock": ("ABSK", (BASE64, 120), "="),
    "slack bot": ("xoxb-", (DIGITS, 12), "-", (DIGITS, 13), "-", (ALNUM, 24)),
    "slack user": ("xoxp-", (DIGITS, 12), "-", (DIGITS, 12), "-", (HEX, 32)),
    "slack app": ("xapp-1-A", (UPNUM, 10), "-", (DIGITS, 13), "-", (HEX, 64)),
    "slack webhook": ("https://hooks.slack.com/services/T", (UPNUM, 8), "/B", (UPNUM, 10), "/", (ALNUM, 24)),
    "discord webhook": ("https://discord.com/api/webhooks/", (DIGITS, 18), "/", (URL, 68)),
    "google": ("AIza", (URL, 35)),
    "google secret": ("GOCSPX-", (URL, 28)),
    "google access": ("ya29.", (URL, 80)),
    "jwt": ("eyJ", (URL, 33), ".eyJ", (URL, 60), ".", (URL, 43)),
    "private key": ("-----BEGIN PRIVATE KEY-----\n", (BASE64, 64), "\n", (BASE64, 64), "\n-----END PRIVATE KEY-----"),
    "stripe live": ("sk_live_", (ALNUM, 24)),
    "stripe test": ("sk_test_", (ALNUM, 24)),
    "stripe restricted": ("rk_live_", (ALNUM, 24)),
    "stripe webhook": ("whsec_", (BASE64, 32)),
    "sendgrid": ("SG.", (URL, 22), ".", (URL, 43)),
    "mailgun": ("key-", (HEX, 32)),
    "mailchimp": ((HEX, 32), "-us14"),
    "twilio": ("SK", (HEX, 32)),
    "npm": ("npm_", (ALNUM, 36)),
    "pypi": ("pypi-AgEIcHlwaS5vcmc", (URL, 120)),
    "rubygems": ("rubygems_", (HEX, 48)),
    "docker": ("dckr_pat_", (ALNUM, 27)),
    "hugging face": ("hf_", (LOWER + UPPER, 34)),
    "replicate": ("r8_", (ALNUM, 37)),
    "groq": ("gsk_", (ALNUM, 52)),
    "xai": ("xai-", (ALNUM, 80)),
    "perplexity": ("pplx-", (ALNUM, 48)),
    "fireworks": ("fw_", (ALNUM, 24)),
    "cerebras": ("csk-", (LOWER + DIGITS, 48)),
    "nvidia": ("nvapi-", (URL, 64)),
    "tavily": ("tvly-", (ALNUM, 32)),
    "langsmith": ("lsv2_pt_", (HEX, 32), "_", (HEX, 10)),
    "digitalocean": ("dop_v1_", (HEX, 64)),
    "databricks": ("dapi", (HEX, 32)),
    "shopify": ("shpat_", (HEX, 32)),
    "square": ("sq0atp-", (ALNUM, 22)),
    "atlassian": ("ATATT3", (URL, 180), "=", (UPNUM, 8)),
    "linear": ("lin_api_", (ALNUM, 40)),
    "notion": ("ntn_", (ALNUM, 46)),
    "figma": ("figd_", (ALNUM, 40)),
    "postman": ("PMAK-", (HEX, 24), "-", (HEX, 34)),
    "new relic": ("NRAK-", (UPNUM, 27)),
    "grafana": ("glsa_", (ALNUM, 32), "_", (HEX, 8)),
    "sentry": ("sntryu_", (HEX, 64)),
    "vault": ("hvs.", (URL, 90)),
    "terraform": ((ALNUM, 14), ".atlasv1.", (ALNUM, 64)),
    "pulumi": ("pul-", (HEX, 40)),
    "telegram": ((DIGITS, 10), ":AA", (URL, 33)),
    "azure storage": ("AccountKey=", (BASE64, 86), "=="),
    "azure application": ((ALNUM, 3), "8Q~", (ALNUM, 34)),
    "age": ("AGE-SECRET-KEY-1", (UPNUM, 58)),
    "planetscale": ("pscale_tkn_", (ALNUM, 43)),
    "supabase": ("sbp_", (HEX, 40)),
    "doppler": ("dp.pt.", (ALNUM, 43)),
    "dynatrace": ("dt0c01.", (UPNUM, 24), ".", (UPNUM, 64)),
    "airtable": ("pat", (ALNUM, 14), ".", (HEX, 64)),
    "auth header": ("Authorization: Bearer ", (ALNUM, 32)),
    "basic header": ("Authorization: Basic ", (ALNUM, 32), "=="),
    "url password": ("postgres://app:", (ALNUM, 16), "@db.internal:5432/app"),
    "named value": ("DB_PASSWORD=", (ALNUM, 20)),
    "named quoted value": ('"client_secret": "', (ALNUM, 32), '"'),
    "aws secret": ("AWS_SECRET_ACCESS_KEY=", (BASE64, 40)),
    "key header": ("x-api-key: ", (HEX, 32)),
}  # fmt: skip


def made(parts: tuple[object, ...], rng: random.Random) -> tuple[str, str]:
    """The key, and the part of it that must not be seen: the longest random one."""
    pieces = [part if isinstance(part, str) else "".join(rng.choices(part[0], k=part[1])) for part in parts]  # type: ignore[index]  # a pair
    drawn = [piece for piece, part in zip(pieces, parts, strict=True) if not isinstance(part, str)]
    return "".join(pieces), max(drawn, key=len)


def contexts(key: str) -> Iterator[str]:
    yield key
    yield f"The model said that it is {key} and went on.\nNothing else."
    yield json.dumps({"kind": "tool_completed", "output": f"first\n{key}\nlast"})


def test_there_are_enough_shapes() -> None:
    assert len(KEYS) >= 64 + 3


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_found_raw_in_prose_and_in_json(name: str) -> None:
    rng = random.Random(name)
    for _ in range(3):
        key, secret = made(KEYS[name], rng)
        for text in contexts(key):
            cleaner = Cleaner()
            clean = cleaner.mask_text(text)
            assert secret not in clean
            assert MARK_PREFIX in clean
            assert cleaner.replaced.total() == 1
            if text.startswith("{"):
                assert json.loads(clean)["output"].startswith("first\n")
                assert json.loads(clean)["output"].endswith("\nlast")


# --- what is none -------------------------------------------------------------------------------------------------

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def harmless(rng: random.Random) -> Iterator[str]:
    def drawn(alphabet: str, count: int) -> str:
        return "".join(rng.choices(alphabet, k=count))

    yield str(uuid.UUID(int=rng.getrandbits(128), version=4))
    yield hashlib.sha256(rng.randbytes(8)).hexdigest()
    yield hashlib.sha1(rng.randbytes(8)).hexdigest()
    yield f"toolu_{drawn(ALNUM, 24)}"
    yield f"call_{drawn(ALNUM, 24)}"
    yield f"chatcmpl-{drawn(ALNUM, 29)}"
    yield f"msg_{drawn(ALNUM, 24)}"
    yield f"resp_{drawn(HEX, 48)}"
    yield f"req_{drawn(ALNUM, 24)}"
    yield drawn(CROCKFORD, 26)
    yield f"sha512-{base64.b64encode(rng.randbytes(64)).decode()}"
    yield f'"signature": "{base64.b64encode(rng.randbytes(300)).decode()}"'
    yield f"data:image/png;base64,iVBORw0KGgo{base64.b64encode(rng.randbytes(600)).decode()}"
    yield f"20261130T104629Z-{drawn(HEX, 8)}/3/1"
    yield f'{{"inputTokens": {rng.randrange(10**6)}, "tokens_per_success": 6592.5, "maxTokens": 4096}}'


def test_ids_hashes_and_images_are_none() -> None:
    rng = random.Random(7)
    for _ in range(200):
        for text in harmless(rng):
            for shown in (text, f"See {text}, it is there.", json.dumps({"id": text, "text": f"a\n{text}"})):
                assert scan_text(shown) == [], shown


@pytest.mark.parametrize(
    "text",
    [
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-your-key-goes-here-and-nowhere-else",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_000000000000000000000000000000000000",
        "AIzaXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
        "password=${DB_PASSWORD_2026_MAIN}",
        "token = secrets.token_hex(16)",
        "api_key: <your api key goes here 123>",
        "password: changeme-changeme-1",
        "postgres://user:password@localhost/db",
        "https://$USER:${TOKEN_1}@example.org",
        "http://127.0.0.1:8000/v1",
        "Authorization: Bearer $OPENAI_API_KEY",
        'headers["Authorization"] = f"Bearer {token}"',
        "the secret: sha256_of_everything_else",
        "access_token=None, refresh_token=None",
        "-----BEGIN PRIVATE KEY-----",
        "[redacted:OPENAI_API_KEY] and password=[redacted:DB_PASSWORD]",
        "--api-key-env SOME_LONG_VARIABLE_NAME_1",
        "task-0-risk-free-and-desk-bound-but-long-enough",
    ],
)
def test_placeholders_code_and_marks_are_none(text: str) -> None:
    assert scan_text(text) == []


def test_the_standard_library_holds_none() -> None:
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-k]*.py"))
    assert len(files) >= 40
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        assert [text[found.start : found.end] for found in scan_text(text)] == [], file


# --- how it behaves -----------------------------------------------------------------------------------------------

UNITS = (
    "sk-", "sk-ant-" + "a" * 20 + "-", "AKIA", "eyJ", "eyJaaaaaaaa.", "SG.", "hvs.", "dp.pt.", "://", "://a:",
    "token=", "token", "passw", "secret_", "api_key-a-b-c", "token:    ", "authorization: ",
    "bearer ", ":AA", "Q~", "-us1", ".atlasv1.", "hooks.slack.com/services/", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n", "\\n", "a.", "a1 ", "x" * 300 + "=", "é", "éToken:", "\ud800", "A" * 40 + " ",
)  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: ascii(unit[:20]))
def test_no_megabyte_takes_longer_than_its_length(unit: str) -> None:
    text = (unit * (2**20 // len(unit) + 1))[: 2**20]
    assert_in_proportion(scan_text, text)


def test_a_megabyte_of_nothing_but_secrets_takes_long_by_their_number() -> None:
    text = "token=a1b2c3d4e5f6 " * (2**20 // 19)
    assert len(scan_text(text)) == 2**20 // 19
    assert_in_proportion(scan_text, text)


def test_a_private_key_of_many_lines_is_one_finding() -> None:
    rng = random.Random(3)
    lines = "\n".join("".join(rng.choices(BASE64, k=64)) for _ in range(25))
    key = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}\n-----END OPENSSH PRIVATE KEY-----"
    text = f"before\n{key}\nafter"
    assert scan_text(text) == [SecretMatch("private-key", 7, 7 + len(key))]


def test_only_the_value_goes_not_what_names_it() -> None:
    assert Cleaner().mask_text("DB_PASSWORD=h7Gk2mQ9xZ4pL8wN") == "DB_PASSWORD=[redacted:named-secret]"
    assert Cleaner().mask_text("https://me:h7Gk2mQ9x@host/x") == "https://me:[redacted:url-password]@host/x"


def test_an_allowed_value_stays() -> None:
    key = "ghp_" + "".join(random.Random(5).choices(ALNUM, k=36))
    digest = hashlib.sha256(key.encode()).hexdigest()
    assert [found.shape for found in scan_text(f"x {key} y")] == ["github-token"]
    assert scan_text(f"x {key} y", allowed={digest}) == []


def test_what_the_scanner_leaves_the_redactor_leaves_too() -> None:
    """Marks of both pass both unchanged."""
    redactor = Redactor([("SOME_KEY", "correct-horse-battery")])
    key = "glpat-" + "".join(random.Random(6).choices(ALNUM, k=20))
    once = redactor.redact_text(Cleaner().mask_text(f"correct-horse-battery {key}"))
    assert Cleaner().mask_text(once) == once == redactor.redact_text(once)


def test_entropy_is_in_bits() -> None:
    assert measure_entropy("") == measure_entropy("aaaa") == 0
    assert measure_entropy("abcd") == pytest.approx(2)


fragments = st.one_of(
    st.text(max_size=12),
    st.sampled_from(['"', "\\", "\n", "\u202e", "\ud800", "token", "=", ":", " ", "-----BEGIN PRIVATE KEY-----"]),
    st.sampled_from(["named quoted value", "private key", "anthropic", "url password", "auth header"]).map(
        lambda name: made(KEYS[name], random.Random(1))[0]
    ),
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=8), st.lists(fragments, max_size=6).map("".join), max_size=3))
def test_json_stays_json_and_cleaning_twice_is_cleaning_once(document: dict[str, str]) -> None:
    text = json.dumps(document)
    once = Cleaner().mask_text(text)
    json.loads(once)
    again = Cleaner()
    assert again.mask_text(once) == once
    assert not again.replaced


def test_marks_from_the_way_into_the_store_are_counted_apart() -> None:
    cleaner = Cleaner()
    text = "[redacted:MY_KEY] and [redacted:github-token], [redacted:MY_KEY] DB_PASSWORD=h7Gk2mQ9xZ4pL8wN [redacted:"
    masked = cleaner.mask_text(text)
    assert cleaner.marked == {"MY_KEY": 2, "github-token": 1}
    assert cleaner.replaced == {"named-secret": 1}
    assert cleaner.mask_text(masked, count_marks=False) == masked
    assert (cleaner.marked.total(), cleaner.replaced.total()) == (3, 1)
