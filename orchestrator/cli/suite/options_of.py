"""Verbs that take the options of another: whatever that one learns holds for them, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_type_hints


def with_the_options_of(
    other: Callable[..., None],
    verb: Callable[..., None],
    *,
    own: Mapping[str, tuple[Any, object]],
    without: Collection[str],
    before: str | None = None,
) -> None:
    """Give *verb*, which takes `context` and keywords, the signature that typer reads the options from.

    Args:
        other: the verb whose options are taken; its first parameter is `context`.
        verb: the function of the verb.
        own: options that it has beside those of *other*, by parameter: annotation and default.
        without: parameters of *other* that it does not take.
        before: the parameter before which its own stand; None is after all others.
    """
    hints = get_type_hints(other, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = [
        parameter.replace(annotation=hints[name], kind=parameter.kind if name == "context" else keyword)
        for name, parameter in inspect.signature(other).parameters.items()
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
