import json
import re
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.suite.export.scrub import PATH, Scrubber, list_endpoint_names
from tests.growth import assert_in_proportion

SCRUBBER = Scrubber(
    {
        "<home>": [PurePosixPath("/home/mia"), PurePosixPath("/mnt/Mía Home")],
        "<data-dir>": [PurePosixPath("/home/mia/.local/state/evalctl")],
        "<run-dir>": [PurePosixPath("/home/mia/.local/state/evalctl/eval/s1")],
        "<tmp>": [PurePosixPath("/tmp")],
    },
    list_endpoint_names("https://models.corp.example:8443/v1"),
)

ABSOLUTE = re.compile(
    r"""(?:^|[\s"'=,(\[:])(?:\\*/)+[\w]|(?:^|[\s"'=,(])[A-Za-z]:[\\/]\w|(?:^|[\s"'])\\\\\w+\\+\w|\bfile:[\\/]"""
)
"""An independent look: what begins like an absolute path where a value begins. URLs are taken out first."""


def absolute(text: str) -> list[str]:
    return ABSOLUTE.findall(re.sub(r"(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}:(?:\\*/){2}(?=\w)", " ", text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cat /etc/passwd: no such file", "cat <path>: no such file"),
        ("/home/mia/work/x.py:3: error", "<home>/work/x.py:3: error"),
        ("/home/mia", "<home>"),
        ("/home/miaow/x", PATH),
        ("in /home/mia.", "in <path>."),
        ("/home/mia/.local/state/evalctl/runs.db", "<data-dir>/runs.db"),
        ("/home/mia/.local/state/evalctl/eval/s1/report.md", "<run-dir>/report.md"),
        ("/tmp/evalctl-3/a.txt", "<tmp>/evalctl-3/a.txt"),
        ("/mnt/Mía Home/a", "<home>/a"),
        ("PATH=/usr/bin:/bin", "PATH=<path>:<path>"),
        ("gcc -I/usr/include", "gcc -I<path>"),
        (r"C:\Users\Mia\x.txt is gone", "<path> is gone"),
        (r"C:\\Users\\Mia\\x.txt", PATH),
        ("D:/work/x", PATH),
        (r"at \\server\share\x", f"at {PATH}"),
        (r'{"path": "\\\\server\\share"}', f'{{"path": "{PATH}"}}'),
        ("file:///home/mia/a%20b", "file://<home>/a%20b"),
        ("see file:///etc/hosts", f"see {PATH}"),
        ("file://host/etc/hosts", PATH),
        ("file:/C:/Users/x", PATH),
        ('{"path": "/etc/x", "n": 1}', '{"path": "<path>", "n": 1}'),
        (r'{"a": "{\"path\": \"/etc/x\"}"}', r'{"a": "{\"path\": \"<path>\"}"}'),
        (r"\/etc\/x", PATH),
        (r"one\n/etc/x\n", r"one\n<path>\n"),
        ("p=%2Fetc%2Fx", f"p={PATH}"),
        ("%2Fhome%2Fmia%2Fx", "<home>%2Fx"),
        ("http://example.org/a/b?file=/etc/x", "http://example.org/a/b?file=<path>"),
        ("POST https://models.corp.example:8443/v1/chat failed", "POST custom-endpoint/chat failed"),
        ("MODELS.corp.example refused", "custom-endpoint refused"),
    ],
)
def test_absolute_paths_and_the_endpoint_become_placeholders(before: str, after: str) -> None:
    assert SCRUBBER.scrub_text(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "3/5 passed, pass / fail, and/or, src/a.py, ./a, ../b, ~/c, $HOME/x, ${D}/x, **/y",
        "<b>bold</b>",
        "https://example.org/a/b",
        "a // b",
        "profile: x, 12:30",
        r"first\nsecond\tthird",
        "sha256:0a/b+c/d==",
    ],
)
def test_what_is_no_absolute_path_stays(text: str) -> None:
    assert SCRUBBER.scrub_text(text) == text


FRAGMENTS = (
    *(
        "/",
        "//",
        "\\",
        "\\\\",
        ":",
        "C:",
        "file:",
        "http://",
        "a",
        "etc",
        ".",
        "..",
        "~",
        " ",
        "\n",
        '"',
        "'",
        "<",
        ">",
    ),
    *("=", "%2F", "<path>", "<home>", "/home/mia", "/tmp/x", "-I", "\\n", "é", "?", "(", "]", "models.corp.example"),
)
PIECES = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


@given(st.one_of(PIECES, st.text()))
def test_scrubbing_twice_changes_nothing(text: str) -> None:
    once = SCRUBBER.scrub_text(text)
    assert SCRUBBER.scrub_text(once) == once


NAMES = st.lists(st.from_regex(r"[\w.%@+~-]{1,8}", fullmatch=True), min_size=1, max_size=5)
PATHS = st.one_of(
    NAMES.map(lambda parts: str(PurePosixPath("/", *parts))),
    NAMES.map(lambda parts: str(PurePosixPath("/home/mia", *parts))),
    NAMES.map(lambda parts: str(PureWindowsPath("C:\\", *parts))),
    NAMES.map(lambda parts: PurePosixPath("/srv", *parts).as_uri()),
).filter(lambda path: len(path) > 4)
AROUND = st.sampled_from(["", " ", '"', "'", "=", ":", ", ", "\n", "(", "["])


@given(path=PATHS, before=AROUND, after=AROUND, depth=st.integers(0, 3))
@example(path="/home/mia/ª", before="", after='"', depth=2)
def test_nothing_absolute_is_left_whatever_it_stands_in(path: str, before: str, after: str, depth: int) -> None:
    text = before + path + after
    for _ in range(depth):
        text = json.dumps({"text": text})
    clean = SCRUBBER.scrub_text(text)
    assert absolute(clean) == []
    for _ in range(depth):
        clean = json.loads(clean)["text"]


@settings(max_examples=30)
@given(st.recursive(PATHS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(PATHS, inner)))
def test_every_string_and_key_of_a_document_is_scrubbed_and_none_is_lost(value: object) -> None:
    clean = SCRUBBER.scrub_json(value)
    assert absolute(json.dumps(clean, ensure_ascii=False)) == []
    assert _size(clean) == _size(value)


def _size(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(_size(item) for item in value.values())
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("unit", ["a", "\\", "/", "C:", "a.", "/a "])
def test_long_texts_take_time_in_proportion(unit: str) -> None:
    assert_in_proportion(SCRUBBER.scrub_text, unit * (60_000 // len(unit)))


def test_an_endpoint_is_told_by_its_address_host_and_port() -> None:
    assert list_endpoint_names("http://user@10.1.2.3:80/v1/") == [
        "http://user@10.1.2.3:80/v1",
        "http://10.1.2.3:80",
        "10.1.2.3:80",
        "10.1.2.3",
    ]
    assert "localhost" not in list_endpoint_names("http://localhost:1/v1")
    assert list_endpoint_names(None) == []
