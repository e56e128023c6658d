"""The file tools: read, list, write and edit files inside the workspace.

Writing requires the hash of the current content (optimistic locking), so that a model never overwrites content that it
has not seen. Files are replaced atomically. Small files are handled on the event loop, since a thread would cost more.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from providers.agent.tools import Tool, ToolContext, ToolFailed, build_parameters, integer_up_to
from providers.base import ToolSpec
from providers.system.paths import PathEscapes, check_relative, resolve_inside
from providers.system.tree import IGNORED_NAMES
from store.events import Json

T = TypeVar("T")

MAX_READ_BYTES = 16 << 20
"""Largest file that can be read."""
MAX_WRITE_BYTES = 1 << 20
"""Largest file that can be written or edited."""
MAX_INLINE_BYTES = 1 << 18
"""Largest file that is handled on the event loop instead of in a thread."""

DEFAULT_LINES = 200
MAX_LINES = 1000
MAX_CHARS = 28_000
"""Characters of returned lines with their numbers, or of a listing."""
MAX_ENTRIES = 1000


async def read_file(place: ToolContext, arguments: Mapping[str, Json]) -> str:
    """Read lines of a file with their numbers, and the hash of the whole file."""
    relative = arguments["path"]
    path = _resolve_path(place.workspace, relative)
    show = functools.partial(
        _render_lines, path, relative, first=arguments.get("startLine", 1), count=arguments.get("lines", DEFAULT_LINES)
    )
    return await _run_off_loop(_stat_size(path), show)


async def list_files(place: ToolContext, arguments: Mapping[str, Json]) -> str:
    """List every file below a directory, sorted; an empty directory is listed with a trailing slash."""
    relative = arguments.get("path", ".")
    path = _resolve_path(place.workspace, relative)
    if not path.is_dir():
        raise ToolFailed(f"{relative} is no directory" if path.exists() else f"{relative} does not exist")
    return await _run_off_loop(None, functools.partial(_render_listing, path, relative))


async def write_file(place: ToolContext, arguments: Mapping[str, Json]) -> str:
    """Create a file, or replace the one whose hash is given."""
    relative, expected = arguments["path"], arguments["expectedHash"]
    content = arguments["content"].encode()
    path = _resolve_write_path(place.workspace, relative)

    def write_content() -> None:
        if expected is None:
            if path.exists():
                raise ToolFailed(f"{relative} exists already: read it and give its sha256 as expectedHash")
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            _check_hash(_read_regular_file(path, relative, MAX_READ_BYTES), expected, relative)
        _replace_file(path, content, relative)

    await _run_off_loop(max(len(content), _stat_size(path)), write_content)
    return _render_written(relative, content)


async def edit_file(place: ToolContext, arguments: Mapping[str, Json]) -> str:
    """Replace the one occurrence of a text in a file whose hash is given."""
    relative = arguments["path"]
    old, new = arguments["oldText"].encode(), arguments["newText"].encode()
    if not old:
        raise ToolFailed("oldText is empty")
    path = _resolve_write_path(place.workspace, relative)

    def edit_content() -> bytes:
        content = _read_regular_file(path, relative, MAX_WRITE_BYTES)
        _check_hash(content, arguments["expectedHash"], relative)
        first = content.find(old)
        if first < 0 or first != content.rfind(old):
            number = "does not occur" if first < 0 else "occurs more than once"
            raise ToolFailed(f"oldText {number} in {relative}; it must occur exactly once")
        edited = content.replace(old, new)
        _replace_file(path, edited, relative)
        return edited

    return _render_written(relative, await _run_off_loop(_stat_size(path), edit_content))


# --- the disk -----------------------------------------------------------------------------------------------------


async def _run_off_loop(size: int | None, work: Callable[[], T]) -> T:
    """Do *work*, in a thread if *size* (bytes; None: unknown) is large."""
    if size is not None and size <= MAX_INLINE_BYTES:
        return work()
    import anyio.to_thread  # noqa: PLC0415 - start-up: only running needs an event loop

    return await anyio.to_thread.run_sync(work)


def _stat_size(path: Path) -> int:
    """Size of the file in bytes; 0 if it does not exist."""
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _resolve_path(workspace: Path, relative: str) -> Path:
    """Resolve *relative* in the workspace; refuse if a command has replaced the workspace itself by a link."""
    if workspace.is_symlink():
        raise PathEscapes(relative, "the workspace has become a symbolic link")
    return resolve_inside(workspace, relative)


def _resolve_write_path(workspace: Path, relative: str) -> Path:
    """Resolve a path to write to: no symbolic link itself; directories on the way may be links that stay inside."""
    problem = check_relative(relative)
    if problem is not None:
        raise PathEscapes(relative, problem)
    folder, _, name = relative.rstrip("/").rpartition("/")
    if name in ("", "."):
        raise ToolFailed(f"{relative} names a directory")
    path = _resolve_path(workspace, folder or ".") / name
    if path.is_symlink():
        raise ToolFailed(f"{relative} is a symbolic link; name the file it points to")
    return path


def _read_regular_file(path: Path, relative: str, limit: int) -> bytes:
    """Read a regular file; anything else is closed as soon as its type is known. A file
    with several hard links is refused, since another may lie outside.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ToolFailed(f"{relative} does not exist") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        problem = "has several hard links" if stat.S_ISREG(status.st_mode) else "is no regular file"
        raise ToolFailed(f"{relative} {problem}")
    with os.fdopen(handle, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ToolFailed(f"{relative} has more than {limit} bytes; use bash to work on it")
    return content


def _render_lines(path: Path, relative: str, *, first: int, count: int) -> str:
    content = _read_regular_file(path, relative, MAX_READ_BYTES)
    lines = content.decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    if first > max(len(lines), 1):
        raise ToolFailed(f"{relative} has {len(lines)} lines; startLine {first} is beyond its end")
    last = min(first - 1 + count, len(lines))
    text = "\n".join(f"{number}: {lines[number - 1]}" for number in range(first, last + 1))
    return json.dumps(
        {
            "path": relative,
            "sha256": hashlib.sha256(content).hexdigest(),
            "startLine": first,
            "content": text[:MAX_CHARS],
            "truncated": last < len(lines) or len(text) > MAX_CHARS,
        },
        ensure_ascii=False,
    )


def _check_hash(content: bytes, expected: str, relative: str) -> None:
    if hashlib.sha256(content).hexdigest() != expected.lower():
        raise ToolFailed(f"expectedHash is stale: {relative} has changed; read it again and give its current sha256")


def _replace_file(path: Path, content: bytes, relative: str) -> None:
    """Replace the file by *content* atomically and keep its mode."""
    if len(content) > MAX_WRITE_BYTES:
        raise ToolFailed(f"{relative} would have {len(content)} bytes; at most {MAX_WRITE_BYTES} can be written")
    interim = path.with_name(f".{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(interim, flags, 0o666), "wb") as file:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat(follow_symlinks=False).st_mode))
            file.write(content)
            file.flush()
            interim.replace(path)
        except OSError:
            interim.unlink(missing_ok=True)
            raise


def _render_written(relative: str, content: bytes) -> str:
    return json.dumps({"path": relative, "sha256": hashlib.sha256(content).hexdigest()}, ensure_ascii=False)


def _render_listing(path: Path, relative: str) -> str:
    entries: list[str] = []
    room = MAX_CHARS
    truncated = False
    prefix = "/".join(part for part in relative.split("/") if part not in ("", "."))
    for entry in _walk_below(path, prefix):
        room -= len(entry)
        truncated = room < 0 or len(entries) == MAX_ENTRIES
        if truncated:
            break
        entries.append(entry)
    return json.dumps({"path": relative, "files": entries, "truncated": truncated}, ensure_ascii=False)


def _walk_below(path: Path, prefix: str) -> Iterator[str]:
    """The entries below *path* in path order. Pending directories are kept on a list, so depth needs no stack."""
    waiting = [f"{prefix}/" if prefix else ""]
    while waiting:
        path_so_far = waiting.pop()
        if path_so_far and not path_so_far.endswith("/"):
            yield path_so_far
            continue
        try:
            with os.scandir(f"{path}/{path_so_far.removeprefix(prefix)}") as listing:
                names = (f"{item.name}/" if item.is_dir(follow_symlinks=False) else item.name for item in listing)
                # Every name gives an entry, so more of them could never be shown.
                first = heapq.nsmallest(
                    MAX_ENTRIES + 1, (name for name in names if name.rstrip("/") not in IGNORED_NAMES)
                )
        except OSError:  # not allowed, gone, or deeper than a path can be
            first = []
        waiting += [path_so_far + name for name in reversed(first)]
        if not first and path_so_far:
            yield path_so_far


# --- tool specs, as the model sees them ------------------------------------------------------------------------------

_PATH_SCHEMA = {"type": "string", "description": "Relative to the workspace, with /."}
_HASH_DESCRIPTION = "The sha256 that read_file, write_file or edit_file gave last for this file."

FILE_TOOLS = (
    Tool(
        spec=ToolSpec(
            name="read_file",
            description=(
                "Read lines of a text file. Returns the sha256 of the whole file and its lines, each after its number "
                f"and a colon. At most {MAX_CHARS} characters are returned; truncated says whether more follow."
            ),
            input_schema=build_parameters(
                required=("path",),
                path=_PATH_SCHEMA,
                startLine=integer_up_to(MAX_READ_BYTES, "First line; 1 unless given."),
                lines=integer_up_to(MAX_LINES, f"How many lines; {DEFAULT_LINES} unless given."),
            ),
        ),
        effect="read",
        run=read_file,
    ),
    Tool(
        spec=ToolSpec(
            name="list_files",
            description=(
                "List all files below a directory, sorted, without those in .git, node_modules and __pycache__. At "
                f"most {MAX_ENTRIES} are returned; truncated says whether there are more."
            ),
            input_schema=build_parameters(
                path={**_PATH_SCHEMA, "description": "A directory; the workspace unless given."}
            ),
        ),
        effect="read",
        run=list_files,
    ),
    Tool(
        spec=ToolSpec(
            name="write_file",
            description=(
                "Create a file, or replace a whole file that was read before. Missing directories are made. Returns "
                "the file's new sha256."
            ),
            input_schema=build_parameters(
                required=("path", "content", "expectedHash"),
                path=_PATH_SCHEMA,
                content={"type": "string", "description": f"The whole content, at most {MAX_WRITE_BYTES} bytes."},
                expectedHash={"type": ["string", "null"], "description": f"{_HASH_DESCRIPTION} null for a new file."},
            ),
        ),
        effect="write",
        run=write_file,
    ),
    Tool(
        spec=ToolSpec(
            name="edit_file",
            description="Replace a text that occurs exactly once in a file. Returns the file's new sha256.",
            input_schema=build_parameters(
                required=("path", "expectedHash", "oldText", "newText"),
                path=_PATH_SCHEMA,
                expectedHash={"type": "string", "description": _HASH_DESCRIPTION},
                oldText={"type": "string", "description": "The text to replace, as it is in the file."},
                newText={"type": "string", "description": "What to put in its place."},
            ),
        ),
        effect="write",
        run=edit_file,
    ),
)
