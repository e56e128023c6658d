"""A gate for tool calls that asks no model: it judges what is plain, and abstains where it cannot see what would run.

One JSON object on stdin, `{"tool_name": ..., "tool_input": {...}}`; one on stdout, `{"verdict": "allow|ask|deny",
"reason": ..., "source": "specialist"}`, or `{"abstain": REASON}`. Needs nothing but Python.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

SIGNS = re.compile(r"[();<>|&]+")
REDIRECTIONS = {"<", ">", ">>", "<<", "<<<", "<>", ">&", "<&", "&>", "&>>", ">|"}
WRAPPERS = {"sudo", "doas", "env", "command", "exec", "nohup", "time", "nice", "builtin"}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby", "node"}
FETCHERS = {"curl", "wget", "base64", "xxd"}
LOOKING = {"cat", "cd", "df", "du", "echo", "grep", "head", "ls", "pwd", "tail", "true", "wc", "which"}
GIT_LOOKING = {"status", "log", "diff", "show", "blame"}
PRECIOUS = {"/", "~", ".", "..", "*", "$HOME", "${HOME}"}
SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/sbin", "/sys", "/usr", "/var")
HOMES = ("/home", "/root")
CREDENTIALS = re.compile(r"(^|/)(\.ssh|\.aws|\.gnupg)(/|$)|(^|/)\.(netrc|pgpass)$")
UNSEEN = re.compile(r"[$`]|<[<(]|\beval\b|\bxargs\b|\bsource\b|(^|[\s;&|(])\w+=")
"""What makes of a command something else than it says."""


def main() -> None:
    """Answer the one call on stdin."""
    call = json.load(sys.stdin)
    json.dump(judged(call["tool_name"], call["tool_input"]), sys.stdout, ensure_ascii=False)


def judged(tool: str, given: dict[str, Any]) -> dict[str, str]:
    """What is to be done with one call."""
    if tool == "Bash":
        return of_command(given["command"])
    path = given.get("file_path")
    if tool in {"Write", "Edit"} and isinstance(path, str):
        return of_write(path)
    return {"abstain": "not a tool that this gate knows"}


def of_write(path: str) -> dict[str, str]:
    """What is to be done with writing to *path*."""
    where = tidy(path)
    if where in PRECIOUS or any(f"{where}/".startswith(f"{system}/") for system in SYSTEM):
        return verdict("deny", "writes to the system")
    parts = where.split("/")
    if where.startswith(("/", "~")) or ".." in parts:
        return {"abstain": "writes outside the working directory"}
    if ".git" in parts:
        return verdict("ask", "writes into the repository's own files")
    return verdict("allow", "writes within the working directory")


def of_command(text: str) -> dict[str, str]:
    """The gravest word about any of the commands in *text*; it takes all of them to allow."""
    if not text.strip():
        return {"abstain": "there is no command"}
    if unicodedata.normalize("NFKC", text) != text or any(unicodedata.category(sign) == "Cf" for sign in text):
        return {"abstain": "holds signs that look like others"}
    try:
        commands = list(simple_commands(text))
    except ValueError:
        return {"abstain": "its quotes do not match"}
    found = [of_simple(words, before, where) for words, before, where in commands]
    for word in ("deny", "ask"):
        if grave := [one for one in found if one.get("verdict") == word]:
            return grave[0]
    if UNSEEN.search(text):
        return {"abstain": "what runs is only known once it runs"}
    if not found:
        return {"abstain": "there is no command"}
    return next((one for one in found if "abstain" in one), found[0])


def of_simple(words: list[str], before: str, where: str) -> dict[str, str]:
    """About one command; *before* is the program whose output it reads, *where* the last directory changed to."""
    program, arguments = posixpath.basename(words[0]), words[1:]
    if program == "rm" and recursive(arguments) and any(precious(one, where) for one in arguments):
        return verdict("deny", "deletes what cannot be brought back")
    if program.startswith("mkfs") or (program == "dd" and any(one.startswith("of=/dev/") for one in arguments)):
        return verdict("deny", "overwrites a disk")
    if program in SHELLS and before in FETCHERS:
        return verdict("deny", "runs code that nobody has seen")
    if program == "git" and "push" in arguments and any(one.startswith(("-f", "--force")) for one in arguments):
        return verdict("ask", "rewrites history that others have")
    if any(CREDENTIALS.search(one) for one in arguments):
        return verdict("deny", "credentials are not for tools")
    if any(">" in word or word.startswith("--output") for word in arguments):
        return {"abstain": "writes to a file"}
    if "/" in words[0]:
        return {"abstain": "a program that may only be called like one that this gate knows"}
    if program in LOOKING or (program == "git" and arguments[:1] and arguments[0] in GIT_LOOKING):
        return verdict("allow", "only looks")
    return {"abstain": "not a command that this gate knows"}


def simple_commands(text: str) -> Iterator[tuple[list[str], str, str]]:
    """The commands of a line, each with the program it reads from and the directory it runs in, as far as is seen.

    Raises:
        ValueError: quotes do not match.
    """
    before = where = ""
    for line in text.splitlines():
        reader = shlex.shlex(line, posix=True, punctuation_chars=True)
        reader.commenters = (
            ""  # it would begin a comment within a word, too; what a comment says is judged with the rest
        )
        reader.whitespace_split = True  # `$HOME` is one word
        words: list[str] = []
        for token in [*reader, ";"]:
            if token not in {"{", "}"} and (token in REDIRECTIONS or not SIGNS.fullmatch(token)):
                words.append(token)
                continue
            plain = unwrapped(words)
            if plain:
                yield plain, before, where
                where = plain[1] if plain[0] == "cd" and len(plain) > 1 else where
            piped = token.endswith(("|", "|&")) and not token.endswith("||")
            before = posixpath.basename(plain[0]) if plain and piped else ""
            words = []


def unwrapped(words: list[str]) -> list[str]:
    """*words* without what only wraps a command: assignments, `sudo`, `env` and their like, with their flags."""
    left = list(words)
    wrapped = False
    while left:
        name = posixpath.basename(left[0])
        if name not in WRAPPERS and not re.match(r"\w+=", left[0]) and not (wrapped and left[0].startswith("-")):
            break
        wrapped = wrapped or name in WRAPPERS
        left.pop(0)
    return left


def recursive(arguments: list[str]) -> bool:
    """Whether `rm` is told to go into directories."""
    short = "".join(one[1:] for one in arguments if re.match(r"-[A-Za-z]", one))
    return "--recursive" in arguments or "r" in short.lower()


def precious(argument: str, where: str) -> bool:
    """Whether *argument* names a place of which nothing may be lost."""
    if argument in {"*", "./*"} and where:
        argument = posixpath.join(where, "*")
    place = tidy(argument)
    whole = place.removesuffix("/*") or "/"
    return whole in PRECIOUS or whole in SYSTEM or whole in HOMES


def tidy(path: str) -> str:
    """*path* without detours."""
    return re.sub(r"^/+", "/", posixpath.normpath(path))


def verdict(word: str, reason: str) -> dict[str, str]:
    """An answer."""
    return {"verdict": word, "reason": reason, "source": "specialist"}


if __name__ == "__main__":
    main()
