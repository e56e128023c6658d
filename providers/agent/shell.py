"""The tool `bash`: runs one shell command in the workspace and leaves none of its processes running."""

from __future__ import annotations

import codecs
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from providers.agent.tools import Tool, ToolContext, build_parameters, integer_up_to
from providers.base import ToolSpec
from providers.system.marks import HOME_PREFIX
from providers.system.process import build_tool_environment
from providers.system.removal import remove_tree
from providers.system.sandbox import run_confined
from store.documents.text import drop_last_word
from store.events import Json

DEFAULT_TIMEOUT_MS = 30_000
MAX_TIMEOUT_MS = 600_000

MAX_OUTPUT_BYTES = 32_000
"""Bytes kept of a command's standard output and standard error together."""


async def run_command(place: ToolContext, arguments: Mapping[str, Json]) -> str:
    """Run the command. Any exit code is a result, not an error.

    Raises:
        ProcessNotStarted: the shell could not be started, or the command contains a NUL character or cannot be encoded.
    """
    home = place.home()
    environment = build_tool_environment(home)
    shell = "bash" if shutil.which("bash", path=environment["PATH"]) else "sh"
    finished = await run_confined(
        place.sandbox,
        [shell, "-c", arguments["command"]],
        cwd=place.workspace,
        environment=environment,
        marker=place.marker,
        timeout_s=arguments.get("timeoutMs", DEFAULT_TIMEOUT_MS) / 1000,
        output_limit=MAX_OUTPUT_BYTES,
    )
    return json.dumps(
        {
            "exitCode": finished.exit_code,
            "stdout": _decode_output(finished.stdout, cut=finished.truncated),
            "stderr": _decode_output(finished.stderr, cut=finished.truncated),
            "truncated": finished.truncated,
            "timedOut": finished.timed_out,
        },
        ensure_ascii=False,
    )


def _decode_output(output: bytes, *, cut: bool) -> str:
    """Decode output as UTF-8. If it was cut, drop the last word, which may be incomplete."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(output, final=not cut)
    return drop_last_word(text) if cut else text


class CommandHome:
    """The HOME directory of a run's commands, at a given path or a temporary one; created on first use."""

    def __init__(self, given: Path | None) -> None:
        self.path = given
        self.made = False

    def __call__(self) -> Path:
        """The directory's path; creates it on the first call."""
        if self.path is None:
            self.path = Path(tempfile.mkdtemp(prefix=HOME_PREFIX))
            self.made = True
        else:
            self.path.mkdir(mode=0o700, exist_ok=True)
        return self.path


@contextmanager
def provide_home(given: Path | None) -> Iterator[CommandHome]:
    """Provide the HOME of a run's commands; a temporary one is removed at the end."""
    home = CommandHome(given)
    try:
        yield home
    finally:
        if home.made:
            remove_tree(home())


BASH = Tool(
    spec=ToolSpec(
        name="bash",
        description=(
            "Run a shell command in the workspace and return exitCode, stdout and stderr. Nobody can answer a prompt: "
            "standard input is empty. Every process the command has started ends with it, background ones too. Only "
            "PATH, HOME, TMPDIR and LANG are set; HOME and TMPDIR are private to this run and lie outside the "
            f"workspace. Output beyond {MAX_OUTPUT_BYTES} bytes is cut."
        ),
        input_schema=build_parameters(
            required=("command",),
            command={"type": "string", "description": "What to run."},
            timeoutMs=integer_up_to(
                MAX_TIMEOUT_MS, f"Stop it after so many milliseconds; {DEFAULT_TIMEOUT_MS} unless given."
            ),
        ),
    ),
    effect="process",
    run=run_command,
)
