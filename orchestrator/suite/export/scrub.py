r"""Takes absolute paths and the endpoint out of text that is to be shared. Pure.

Paths are told by their look: POSIX (`/home/me/x`, also escaped as in `\/home\/me`, or percent-encoded), Windows
(`C:\Users\me`, `\\server\share`, escaped as in JSON or not) and `file:` URLs. What stands in a known directory keeps
its rest (`<home>/x`), every other path becomes `<path>` as a whole. URLs of other schemes stay, but for paths in their
query. It is pattern-based and no guarantee: a path whose name holds spaces loses only what comes before the first one.
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
"""A provider's id that names no host."""

_PLACEHOLDERS = ("<home>", "<data-dir>", "<run-dir>", "<tmp>", PATH)
_SLASH = r"(?:\\*/|%2[Ff])"
_CHAR = r"[^\s\"'`<>|\\/:;,*?(){}\[\]\x00-\x1f]"
"""Of a name within a path; a colon ends it, so that each path of a list is one."""
_BACK = r"\\+(?![\\\"'])"
"""A separator of Windows, in any number of escapes; what escapes a quote is none: JSON text stays JSON."""
_TAIL = rf"(?:{_CHAR}|/|{_BACK})"
_AFTER = r"(?<=\\[nrt])|(?<=\s-[A-Za-z])"
"""An escaped line end, or a flag such as `-I`: letters that are no part of what follows."""
_APART = r"(?:(?<![\w.~$}*?+\\/-])" + "".join(f"(?<!{mark})" for mark in _PLACEHOLDERS) + rf"|{_AFTER})"
"""What stands before an absolute path is no part of a name, a pattern or a variable."""
_FILE = rf"(?:(?<![\w+.-])|{_AFTER})(?i:file):(?:{_SLASH}|\\)+(?:[A-Za-z]:[\\/])?{_CHAR}{_TAIL}*"
_URL = r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}:(?:\\*/){2}(?=[\w\[])[^\s\"'`<>\\,;?#]*"
_DRIVE = rf"(?:(?<![A-Za-z0-9])|{_AFTER})[A-Za-z]:(?:/|{_BACK}){_TAIL}*"
_SHARE = rf"(?<![\w\\])\\\\+[?.\w][\w.$?-]*{_BACK}{_TAIL}*"
_POSIX = rf"{_APART}{_SLASH}+{_CHAR}(?:{_CHAR}|{_SLASH})*"
_PATHS = re.compile(rf"(?P<file>{_FILE})|(?P<drive>{_DRIVE})|(?P<url>{_URL})|(?P<share>{_SHARE})|(?P<posix>{_POSIX})")
_TAG = re.compile(r"/[A-Za-z][A-Za-z0-9-]*")
"""What follows `<` in a closing tag."""


class Scrubber:
    """Replaces paths and endpoints in text; scrubbing what was scrubbed changes nothing.

    Args:
        directories: known directories by their placeholder, such as `<home>`; each may have several spellings.
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
        # the longest first: what lies in the run directory lies in the home directory, too
        self._known = [
            (re.compile(rf"(?<!\\){form}(?![\w.-])"), mark)
            for form, mark in sorted(known.items(), key=lambda one: (-len(one[0]), one[0]))
        ]
        named = sorted({text for text in endpoints if text}, key=lambda text: (-len(text), text))
        self._endpoints = (
            re.compile("|".join(rf"(?<![\w.-]){re.escape(text)}(?![\w-])" for text in named), re.IGNORECASE)
            if named
            else None
        )

    def scrub_text(self, text: str) -> str:
        """*text* without absolute paths and without the endpoint."""
        if self._endpoints is not None:
            text = self._endpoints.sub(ENDPOINT, text)
        for path, mark in self._known:
            text = path.sub(mark, text)
        # what stood behind a path may be one of its own now that the path is gone; each round takes a separator away
        while (again := _PATHS.sub(_replace_match, text)) != text:
            text = again
        return text

    def scrub_json(self, value: Json) -> Json:
        """A copy of a JSON value with every string and every key scrubbed; keys that become equal stay apart."""
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
        found: dict[str, Json] = {}
        for name, item in value.items():
            clean = self.scrub_text(name)
            key, number = clean, 1
            while key in found:
                number += 1
                key = f"{clean}#{number}"
            found[key] = self.scrub_json(item)
        return found


def _replace_match(match: re.Match[str]) -> str:
    whole = match.group()
    if match["url"] is not None or (match["posix"] is not None and _is_tag(match)):
        return whole
    # a full stop or the like that ends a sentence is not of the path
    end = len(whole.rstrip(".!"))
    return PATH + whole[end:]


def _is_tag(match: re.Match[str]) -> bool:
    text, start, end = match.string, match.start(), match.end()
    return text[start - 1 : start] == "<" and text[end : end + 1] == ">" and bool(_TAG.fullmatch(match.group()))


def _make_path_patterns(path: str) -> Iterator[str]:
    """Patterns of a path: as it is, with escaped separators, and percent-encoded."""
    for form in dict.fromkeys((path, quote(path))):
        pieces = [re.escape(piece) for piece in re.split(r"[\\/]", form)]
        yield r"(?:\\*/|\\+|%2[Ff])".join(pieces)


def list_endpoint_names(base_url: str | None) -> list[str]:
    """The texts by which an error or a condition may name the endpoint at *base_url*."""
    if base_url is None:
        return []
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:
        return [base_url]
    place = parts.netloc.rpartition("@")[2]
    # a host without a dot is an everyday word, such as localhost
    return [base_url.rstrip("/"), f"{parts.scheme}://{place}", place, *([host] if "." in host or ":" in host else [])]
