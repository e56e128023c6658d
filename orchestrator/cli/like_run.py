"""Verbs that take the options of `run`: whatever it learns holds for them, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_type_hints

from orchestrator.cli import run as run_verb


def with_the_options_of_run(
    verb: Callable[..., None],
    *,
    own: Mapping[str, tuple[Any, object]],
    without: Collection[str],
    before: str | None = None,
) -> None:
    """Give *verb*, which takes `context` and keywords, the signature that typer reads the options from.

    Args:
        verb: the function of the verb.
        own: options that it has beside those of `run`, by parameter: annotation and default.
        without: parameters of `run` that it does not take.
        before: the parameter before which its own stand; None is after all others.
    """
    hints = get_type_hints(run_verb.run, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = [
        parameter.replace(annotation=hints[name], kind=parameter.kind if name == "context" else keyword)
        for name, parameter in inspect.signature(run_verb.run).parameters.items()
        if name not in without
    ]
    added = [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in own.items()
    ]
    place = next((number for number, parameter in enumerate(taken) if parameter.name == before), len(taken))
    parameters = [*taken[:place], *added, *taken[place:]]
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # a function takes any attribute
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
