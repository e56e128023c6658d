"""The program behind `search_text`: searches files for a regular expression, and is killed if that takes too long.

It runs in an interpreter of its own (`python -I -S searcher.py ARGUMENTS`), because nothing inside a process can stop
`re` in a match with catastrophic backtracking. It therefore imports nothing of this project. Its one argument is a JSON
object; it prints JSON lines: one `[path, line, text]` per match and one object at the end.
"""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import sys
from collections.abc import Iterator
from typing import Any

CPU_LIMIT_S = 1
"""Seconds of processor time, after which the kernel ends the process."""
MEMORY_LIMIT_BYTES = 1 << 29
SNIFFED_BYTES = 8192
"""Bytes at the start of a file that are checked: a NUL byte among them makes it binary."""


def walk_files(root: str, display_name: str, ignored: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Every file at or below *root* in path order, as (path, displayed name); links are not followed."""
    waiting = [(root, display_name)]
    while waiting:
        path, name = waiting.pop()
        try:
            with os.scandir(path) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except NotADirectoryError:
            yield path, name
            continue
        except OSError:
            continue
        prefix = f"{name}/" if name else ""
        waiting += [
            (entry.path, prefix + entry.name)
            for entry in reversed(entries)
            if entry.name not in ignored and not entry.is_symlink()
        ]


def read_text_file(path: str, limit: int) -> bytes | None:
    """Read a file; None if it is unreadable, not regular, binary, larger than *limit* bytes, or has more hard links."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > limit:
            return None
        content = file.read(limit)
    return None if b"\0" in content[:SNIFFED_BYTES] else content


def search_files(wanted: dict[str, Any]) -> Iterator[Any]:
    """Yield one list per match and, at the end, one object about the search as a whole."""
    try:
        pattern = re.compile(wanted["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        yield {"error": str(error)[:300]}
        return
    matches = skipped = 0
    room = wanted["maxChars"]
    for path, name in walk_files(wanted["root"], wanted["shown"], frozenset(wanted["ignored"])):
        content = read_text_file(path, wanted["maxBytes"])
        if content is None:
            skipped += 1
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), start=1):
            if pattern.search(line.rstrip("\r")) is None:
                continue
            text = line.strip()[: wanted["maxLine"]]
            room -= len(name) + len(text)
            if matches == wanted["maxResults"] or room < 0:
                yield {"truncated": True, "skipped": skipped}
                return
            matches += 1
            yield [name, number, text]
    yield {"truncated": False, "skipped": skipped}


def limit_resource(kind: int, limit: int) -> None:
    """Set a resource limit of this process; a lower hard limit stays."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def main() -> None:
    """Run the search that the argument describes."""
    limit_resource(resource.RLIMIT_CPU, CPU_LIMIT_S)
    limit_resource(resource.RLIMIT_AS, MEMORY_LIMIT_BYTES)
    for item in search_files(json.loads(sys.argv[1])):
        print(json.dumps(item), flush=True)  # noqa: T201 - this program's own output


if __name__ == "__main__":
    main()
