"""CEL (Common Expression Language): conditions of rules and assertions, by the CEL project's own evaluator.

An expression is compiled once, with declared variables, so that a misspelt name is an error before anything runs.
Evaluation gives True or False, or raises; no other value counts as True. The evaluator limits the nesting of an
expression (32), its iterations (about 10 000) and its regular expressions (linear time), but not the length of the
strings that it builds. So only the owner of a lab may write expressions, never a model.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from providers.decisions.shown import line, value
from store.errors import EvalctlError
from store.events import Json

LONGEST_EXPRESSION = 4096
"""Maximum length of an expression in bytes."""
MAX_DEPTH = 200
"""Maximum nesting of a value; the evaluator recurses, and 20 000 levels crash the process."""

VariableType = Literal["string", "dyn"]

ASSERTION_VARIABLES: Mapping[str, VariableType] = {
    "status": "string",
    "decision": "dyn",
    "abstain": "dyn",
    "error": "dyn",
    "trace": "dyn",
}
"""Variables of assertions: the keys of `decision.Decision.to_json`."""
RULE_VARIABLES: Mapping[str, VariableType] = {"input": "dyn", "answers": "dyn"}
"""Variables of rules."""

_LONGEST_VALUE = 80
_AROUND = 60
"""Characters shown on either side of an error."""
_FINDING = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_CONTAINER = re.compile(r" \(in container '[^']*'\)$")
_UNDECLARED = re.compile(r"^undeclared reference to '(\w+)")


@attrs.define(slots=False)
class Uncompilable(EvalctlError):
    """An expression is not valid CEL, uses an undeclared name, or is not boolean."""

    text: str
    """The expression."""
    message: str
    line: int | None = None
    """Line of the error, from 1; None if it has no single place."""
    column: int | None = None
    """Column in characters, from 1."""

    def __str__(self) -> str:
        if self.line is None or self.column is None:
            return self.message
        return f"{self.message}\n{self.pointed()}"

    def pointed(self) -> str:
        """The line of the expression with a caret below the error."""
        row = self._row()
        at = min((self.column or 1) - 1, len(row))
        start = max(0, at - _AROUND)
        before = ("…" if start else "") + line(row[start:at], 4 * _AROUND)
        after = line(row[at : at + _AROUND], 4 * _AROUND) + ("…" if at + _AROUND < len(row) else "")
        return f"  {before}{after}\n  {' ' * len(before)}^"

    def rest(self) -> str:
        """The rest of the line from the error on."""
        return self._row()[(self.column or 1) - 1 :]

    def _row(self) -> str:
        rows = self.text.split("\n")
        return rows[min(self.line or 1, len(rows)) - 1]


@attrs.define(slots=False)
class Unevaluable(EvalctlError):
    """The evaluation of an expression gave neither true nor false."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.frozen(kw_only=True, eq=False)
class Expression:
    """A compiled expression."""

    text: str
    variables: Mapping[str, VariableType]
    _compiled: Any = attrs.field(repr=False, alias="compiled")

    def evaluate(self, values: Mapping[str, Json]) -> bool:
        """Evaluate the expression over *values*, one for each declared variable.

        Raises:
            Unevaluable: an error (such as a missing key), a result that is not boolean, too many iterations, or values
                that the evaluator would misread: nesting of more than 200 levels, integers beyond 64 bits, lone
                surrogates, NUL characters, values that are not JSON.
        """
        from cel_expr_python import cel  # type: ignore[import-untyped]

        for name in self.variables:
            if name not in values:
                raise Unevaluable(f"{name} has no value")
            if (problem := unfit(values[name])) is not None:
                raise Unevaluable(f"{name} {problem}")
        try:
            result = self._compiled.eval(data={name: values[name] for name in self.variables})
            kind = result.type()
        except Exception as error:  # the boundary to foreign code, which raises what its own code raised
            raise Unevaluable(_reason(error)) from error
        if kind == cel.Type.ERROR:
            raise Unevaluable(_failed(str(result)))
        if kind != cel.Type.BOOL:
            raise Unevaluable(f"expected true or false, got {_type_name(kind)}{_shown(result, kind)}")
        return result.value() is True

    def named(self) -> tuple[str, ...]:
        """The variables that the expression uses, in the order of their declaration."""
        return tuple(name for name in self.variables if not self._compiles_without(name))

    def _compiles_without(self, name: str) -> bool:
        others = {other: kind for other, kind in self.variables.items() if other != name}
        try:
            compile(self.text, others)
        except Uncompilable:
            return False
        return True


def compile(text: str, variables: Mapping[str, VariableType]) -> Expression:  # noqa: A001 - what CEL calls it
    """Compile *text*, which may use only *variables*.

    Raises:
        Uncompilable: a syntax error, more than 4096 bytes, an undeclared name, a comparison of incompatible types, or
            an expression that is not boolean.
    """
    from cel_expr_python import cel

    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Uncompilable(text, "an expression cannot contain a lone surrogate", *_place(text, error.start)) from error
    if "\0" in text:
        raise Uncompilable(text, "an expression cannot contain a NUL character", *_place(text, text.index("\0")))
    if size > LONGEST_EXPRESSION:
        raise Uncompilable(text, f"an expression has at most {LONGEST_EXPRESSION} bytes, this one has {size}")
    try:
        compiled = _environment(tuple(variables.items())).compile(text)
        kind = compiled.return_type()
    except Exception as error:  # the boundary to foreign code, which raises what its own code raised
        raise _uncompilable(text, str(error), variables) from error
    if kind not in (cel.Type.BOOL, cel.Type.DYN):
        raise Uncompilable(text, f"expected a boolean expression, this one is {_type_name(kind)}", 1, 1)
    return Expression(text=text, variables=dict(variables), compiled=compiled)


def unfit(given: Json) -> str | None:
    """The reason why the evaluator cannot accept *given*, as the end of a sentence; None if it can."""
    level: list[Any] = [given]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                if any(not isinstance(key, str) for key in item):
                    return "has a key that is not a string"
                inner += item.keys()
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, str):
                if "\0" in item:  # the evaluator would see only the text before it
                    return "holds a NUL character"
                if not item.isascii() and _surrogate(item):
                    return "holds a lone surrogate, which is no text"
            elif isinstance(item, float):
                if not math.isfinite(item):
                    return "holds a number that is not finite"
            elif isinstance(item, int):
                if not -(2**63) <= item < 2**63:
                    return "holds an integer of more than 64 bits"
            elif item is not None:
                return f"holds a value that is not JSON ({type(item).__name__})"
        if not inner:
            return None
        level = inner
    return f"is nested more than {MAX_DEPTH} levels deep"


@functools.cache
def _environment(variables: tuple[tuple[str, VariableType], ...]) -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import (  # type: ignore[import-untyped]
        ext_bindings,
        ext_encoders,
        ext_math,
        ext_optional,
        ext_strings,
    )

    kinds = {"string": cel.Type.STRING, "dyn": cel.Type.DYN}
    return cel.NewEnv(
        variables={name: kinds[kind] for name, kind in variables},
        extensions=[
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
            ext_optional.ExtOptional(),
            ext_encoders.ExtEncoders(),
            ext_bindings.ExtBindings(),
        ],
    )


def _uncompilable(text: str, said: str, variables: Mapping[str, VariableType]) -> Uncompilable:
    """Build the error from the compiler's output: the first one in the expression's order."""
    placed = [(int(found[1]), int(found[2]), _clean(found[3])) for found in _FINDING.finditer(said)]
    if not placed:
        return Uncompilable(text, _clean(said))
    row, column, message = min(placed, key=lambda one: one[:2])
    if row < 1 or column < 1:
        return Uncompilable(text, message)
    error = Uncompilable(text, _CONTAINER.sub("", message), row, column)
    named = _UNDECLARED.match(message)
    if named is not None and not error.rest().startswith("("):
        near = difflib.get_close_matches(named[1], variables, n=1)
        hint = f"did you mean {near[0]!r}? There are" if near else "there are"
        error.message += f" ({hint}: {', '.join(variables)})"
    return error


def _place(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it needs more memory than is available"
    return _clean(str(error)) or type(error).__name__


def _failed(said: str) -> str:
    """Describe an error value; an optional value has the type of an error."""
    return (
        _clean(said)
        if _CODE.match(said)
        else "expected true or false, got an optional value; orValue(...) takes it out"
    )


def _shown(result: Any, kind: Any) -> str:
    """Render a result that is not boolean, if it is a plain value. Lists and maps are not rendered: an optional value
    in one crashes the process, and the order of a map differs between processes.
    """
    from cel_expr_python import cel

    if kind in (cel.Type.INT, cel.Type.UINT, cel.Type.DOUBLE, cel.Type.STRING):
        return f": {value(result.plain_value(), _LONGEST_VALUE)}"
    return ""


def _type_name(kind: Any) -> str:
    name = str(kind.name()).lower().partition("<")[0]
    return "nothing (null)" if name == "null" else f"of type {name}"


def _clean(said: str) -> str:
    """The first line of the evaluator's output without its error codes."""
    first = _CODE.sub("", said.strip())
    return line(first.partition("\n")[0])


def _surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
