"""Typer's command classes: a group that writes its help from the table and imports verbs when they are called, and a
verb whose help lists options in panels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.cli.verbs import Group, Sections, Verb, merge_sections

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


DEFAULT_PANEL = "Options"
"""The panel of options that name no panel."""
RANGE_PATTERN = re.compile(r"(\S+<=?)?x[<>]=?\S+")
"""Matches the bounds of a number as typer writes them, such as `1<=x<=1000`."""
NOTES_PATTERN = re.compile(r"  \[([^][]*)\]$")
"""Matches the notes that typer appends to the help of an option, such as `[default: 0; x>=0]`."""


class PanelCommand(TyperCommand):
    """A verb whose help lists options in panels, in the order of the first option of each panel."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write arguments and options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else DEFAULT_PANEL
                title = getattr(parameter, "rich_help_panel", None) or usual
                panels.setdefault(title, []).append((record[0], omit_range(record[1])))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def omit_range(text: str) -> str:
    """Remove the bounds of a number from the help *text* of an option; the error about a wrong number names them."""
    notes = NOTES_PATTERN.search(text)
    if notes is None:
        return text
    kept = [note for note in notes[1].split("; ") if not RANGE_PATTERN.fullmatch(note)]
    return text[: notes.start()] + (f"  [{'; '.join(kept)}]" if kept else "")


class LoadedVerbs(MutableMapping[str, "Command"]):
    """Mapping from names to commands; each verb is imported at its first use."""

    def __init__(self, sections: Sections) -> None:
        self._entries = merge_sections(sections)
        self._loaded: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._loaded:
            self._loaded[name] = load_command(name, self._entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class TableGroup(TyperGroup):
    """A group whose commands stand in a table of verbs; subclasses from `make_group_class` have the table."""

    sections: ClassVar[Sections] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LoadedVerbs(self.sections)

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - typer's signature
        """List the names in the order of the table."""
        return list(self.commands)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002 - typer's signature
        """Write the one-line helps of the table, section by section."""
        for title, entries in self.sections.items():
            rows = [(name, entry.help) for name, entry in entries.items() if not entry.hidden]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def make_group_class(sections: Sections) -> type[TableGroup]:
    """Make the class of a group of these commands: typer takes a class, not an object."""
    return type("TableGroup", (TableGroup,), {"sections": sections})


def load_command(name: str, entry: Verb | Group) -> Command:
    """Load the command of one entry of the table; a verb's module is imported now."""
    app = typer.Typer(name=name, rich_markup_mode=None, add_completion=False)
    if isinstance(entry, Verb):
        module, _, function = entry.place.partition(":")
        verb = getattr(import_module(f"orchestrator.cli.{module}"), function)
        app.command(name, cls=PanelCommand, epilog=entry.codes)(verb)
    else:
        options: dict[str, Any] = {"cls": make_group_class(entry.sections), "help": entry.help}
        app.callback(no_args_is_help=True, **options)(_do_nothing)
    return typer.main.get_command(app)


def _do_nothing() -> None:
    """Callback of a group: without one, typer turns a group with one verb into that verb."""
