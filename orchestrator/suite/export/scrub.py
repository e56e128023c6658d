r"""Scrubber that removes absolute paths and the endpoint from text before it is shared. Pure.

Paths are recognized by their form: POSIX (`/home/me/x`, also escaped as in `\/home\/me`, or percent-encoded), Windows
(`C:\Users\me`, `\\server\share`, escaped as in JSON or not) and `file:` URLs. A path in a known directory keeps
its rest (`<home>/x`); every other path becomes `<path>` as a whole. URLs of other schemes stay, except for paths in
their query. Patterns give no guarantee: of a path with spaces, only the text before the first space is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote, urlsplit

from store.events import Json

PATH = "<path>"
ENDPOINT = "custom-endpoint"
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""A provider's id that does not name a host."""

_PLACEHOLDERS = ("<home>", "<data-dir>", "<run-dir>", "<tmp>", PATH)
_SLASH = r"(?:\\*/|%2[Ff])"
_CHAR = r"[^\s\"'`<>|\\/:;,*?(){}\[\]\x00-\x1f]"
"""A character of a name in a path. A colon ends the path, so that each path of a list is separate."""
_BACK = r"\\+(?![\\\"'])"
"""A Windows separator, escaped any number of times. A backslash before a quote is not one: JSON text stays JSON."""
_TAIL = rf"(?:{_CHAR}|/|{_BACK})"
_AFTER = r"(?<=\\[nrt])|(?<=\s-[A-Za-z])"
"""An escaped line end or a flag such as `-I`, whose letters do not belong to the path after it."""
_APART = r"(?:(?<![\w.~$}*?+\\/-])" + "".join(f"(?<!{mark})" for mark in _PLACEHOLDERS) + rf"|{_AFTER})"
"""The start of an absolute path: no name, pattern or variable comes directly before it."""
_FILE = rf"(?:(?<![\w+.-])|{_AFTER})(?i:file):(?:{_SLASH}|\\)+(?:[A-Za-z]:[\\/])?{_CHAR}{_TAIL}*"
_URL = r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}:(?:\\*/){2}(?=[\w\[])[^\s\"'`<>\\,;?#]*"
_DRIVE = rf"(?:(?<![A-Za-z0-9])|{_AFTER})[A-Za-z]:(?:/|{_BACK}){_TAIL}*"
_SHARE = rf"(?<![\w\\])\\\\+[?.\w][\w.$?-]*{_BACK}{_TAIL}*"
_POSIX = rf"{_APART}{_SLASH}+{_CHAR}(?:{_CHAR}|{_SLASH})*"
_PATHS = re.compile(rf"(?P<file>{_FILE})|(?P<drive>{_DRIVE})|(?P<url>{_URL})|(?P<share>{_SHARE})|(?P<posix>{_POSIX})")
_TAG = re.compile(r"/[A-Za-z][A-Za-z0-9-]*")
"""A closing tag without its brackets."""


class Scrubber:
    """Replaces paths and endpoints in text; scrubbing a second time changes nothing.

    Args:
        directories: known directories by placeholder, such as `<home>`; each may have several spellings.
        endpoints: texts that name the endpoint, such as its host.
    """

    def __init__(self, directories: Mapping[str, Iterable[PurePath]], endpoints: Iterable[str] = ()) -> None:
        known = {
            form: mark
            for mark, paths in directories.items()
            for path in paths
            if len(path.parts) > 1
            for form in _make_path_patterns(str(path))
        }
        # the longest first: the run directory may lie in the home directory
        self._known = [
            (re.compile(rf"(?<!\\){form}(?![\w.-])"), mark)
            for form, mark in sorted(known.items(), key=lambda item: (-len(item[0]), item[0]))
        ]
        named = sorted({text for text in endpoints if text}, key=lambda text: (-len(text), text))
        self._endpoints = (
            re.compile("|".join(rf"(?<![\w.-]){re.escape(text)}(?![\w-])" for text in named), re.IGNORECASE)
            if named
            else None
        )

    def scrub_text(self, text: str) -> str:
        """Return *text* without absolute paths and without the endpoint."""
        if self._endpoints is not None:
            text = self._endpoints.sub(ENDPOINT, text)
        for path, mark in self._known:
            text = path.sub(mark, text)
        # text after a removed path may now look like a path itself; each round removes a separator, so the loop ends
        while (again := _PATHS.sub(_replace_match, text)) != text:
            text = again
        return text

    def scrub_json(self, value: Json) -> Json:
        """Return a copy of a JSON value with all strings and keys scrubbed; keys that become equal get a number."""
        match value:
            case str():
                return self.scrub_text(value)
            case list() | tuple():
                return [self.scrub_json(item) for item in value]
            case dict():
                return self._scrub_object(value)
            case _:
                return value

    def _scrub_object(self, value: Mapping[str, Any]) -> dict[str, Json]:
        scrubbed: dict[str, Json] = {}
        for name, item in value.items():
            clean = self.scrub_text(name)
            key, number = clean, 1
            while key in scrubbed:
                number += 1
                key = f"{clean}#{number}"
            scrubbed[key] = self.scrub_json(item)
        return scrubbed


def _replace_match(match: re.Match[str]) -> str:
    whole = match.group()
    if match["url"] is not None or (match["posix"] is not None and _is_tag(match)):
        return whole
    # punctuation that ends a sentence does not belong to the path
    end = len(whole.rstrip(".!"))
    return PATH + whole[end:]


def _is_tag(match: re.Match[str]) -> bool:
    text, start, end = match.string, match.start(), match.end()
    return text[start - 1 : start] == "<" and text[end : end + 1] == ">" and bool(_TAG.fullmatch(match.group()))


def _make_path_patterns(path: str) -> Iterator[str]:
    """Yield patterns of a path: plain or with escaped separators, and percent-encoded."""
    for form in dict.fromkeys((path, quote(path))):
        pieces = [re.escape(piece) for piece in re.split(r"[\\/]", form)]
        yield r"(?:\\*/|\\+|%2[Ff])".join(pieces)


def list_endpoint_names(base_url: str | None) -> list[str]:
    """List the texts by which an error or a condition may name the endpoint at *base_url*."""
    if base_url is None:
        return []
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:
        return [base_url]
    address = parts.netloc.rpartition("@")[2]
    # a host without a dot is a common word, such as localhost
    return [
        base_url.rstrip("/"),
        f"{parts.scheme}://{address}",
        address,
        *([host] if "." in host or ":" in host else []),
    ]
