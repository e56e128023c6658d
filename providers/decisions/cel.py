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

from providers.decisions.excerpts import render_line, render_value
from store.errors import EvalctlError
from store.events import Json

MAX_EXPRESSION_BYTES = 4096
"""Maximum length of an expression in bytes."""
MAX_VALUE_DEPTH = 200
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

_MAX_VALUE_CHARS = 80
_EXCERPT_CHARS = 60
"""Characters shown on either side of an error."""
_COMPILER_FINDING = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_ERROR_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_CONTAINER_NOTE = re.compile(r" \(in container '[^']*'\)$")
_UNDECLARED_NAME = re.compile(r"^undeclared reference to '(\w+)")


@attrs.define(slots=False)
class CelCompileError(EvalctlError):
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
        return f"{self.message}\n{self.render_excerpt()}"

    def render_excerpt(self) -> str:
        """The line of the expression with a caret below the error."""
        row = self._find_row()
        at = min((self.column or 1) - 1, len(row))
        start = max(0, at - _EXCERPT_CHARS)
        before = ("…" if start else "") + render_line(row[start:at], 4 * _EXCERPT_CHARS)
        after = render_line(row[at : at + _EXCERPT_CHARS], 4 * _EXCERPT_CHARS) + (
            "…" if at + _EXCERPT_CHARS < len(row) else ""
        )
        return f"  {before}{after}\n  {' ' * len(before)}^"

    def find_rest_of_line(self) -> str:
        """The rest of the line from the error on."""
        return self._find_row()[(self.column or 1) - 1 :]

    def _find_row(self) -> str:
        rows = self.text.split("\n")
        return rows[min(self.line or 1, len(rows)) - 1]


@attrs.define(slots=False)
class CelEvaluationError(EvalctlError):
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
            CelEvaluationError: an error (such as a missing key), a result that is not boolean, too many iterations, or
                values that the evaluator would misread: nesting of more than 200 levels, integers beyond 64 bits, lone
                surrogates, NUL characters, values that are not JSON.
        """
        from cel_expr_python import cel  # type: ignore[import-untyped]  # noqa: PLC0415 - start-up: only an expression needs it

        for name in self.variables:
            if name not in values:
                raise CelEvaluationError(f"{name} has no value")
            if (problem := find_value_problem(values[name])) is not None:
                raise CelEvaluationError(f"{name} {problem}")
        try:
            result = self._compiled.eval(data={name: values[name] for name in self.variables})
            kind = result.type()
        except Exception as error:  # the boundary to foreign code, which raises what its own code raised
            raise CelEvaluationError(_describe_exception(error)) from error
        if kind == cel.Type.ERROR:
            raise CelEvaluationError(_describe_error_value(str(result)))
        if kind != cel.Type.BOOL:
            raise CelEvaluationError(
                f"expected true or false, got {_name_type(kind)}{_render_plain_value(result, kind)}"
            )
        return result.value() is True

    def list_required_variables(self) -> tuple[str, ...]:
        """The variables that the expression uses, in the order of their declaration."""
        return tuple(name for name in self.variables if not self._compiles_without(name))

    def _compiles_without(self, name: str) -> bool:
        others = {other: kind for other, kind in self.variables.items() if other != name}
        try:
            compile_expression(self.text, others)
        except CelCompileError:
            return False
        return True


def compile_expression(text: str, variables: Mapping[str, VariableType]) -> Expression:
    """Compile *text*, which may use only *variables*.

    Raises:
        CelCompileError: a syntax error, more than 4096 bytes, an undeclared name, a comparison of incompatible types,
            or an expression that is not boolean.
    """
    from cel_expr_python import cel  # noqa: PLC0415 - start-up: only an expression needs it

    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise CelCompileError(
            text, "an expression cannot contain a lone surrogate", *_locate_offset(text, error.start)
        ) from error
    if "\0" in text:
        raise CelCompileError(
            text, "an expression cannot contain a NUL character", *_locate_offset(text, text.index("\0"))
        )
    if size > MAX_EXPRESSION_BYTES:
        raise CelCompileError(text, f"an expression has at most {MAX_EXPRESSION_BYTES} bytes, this one has {size}")
    try:
        compiled = _build_environment(tuple(variables.items())).compile(text)
        kind = compiled.return_type()
    except Exception as error:  # the boundary to foreign code, which raises what its own code raised
        raise _build_compile_error(text, str(error), variables) from error
    if kind not in (cel.Type.BOOL, cel.Type.DYN):
        raise CelCompileError(text, f"expected a boolean expression, this one is {_name_type(kind)}", 1, 1)
    return Expression(text=text, variables=dict(variables), compiled=compiled)


def find_value_problem(given: Json) -> str | None:
    """The reason why the evaluator cannot accept *given*, as the end of a sentence; None if it can."""
    level: list[Any] = [given]
    for _ in range(MAX_VALUE_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                if any(not isinstance(key, str) for key in item):
                    return "has a key that is not a string"
                inner += item.keys()
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif (problem := _find_scalar_problem(item)) is not None:
                return problem
        if not inner:
            return None
        level = inner
    return f"is nested more than {MAX_VALUE_DEPTH} levels deep"


def _find_scalar_problem(item: Any) -> str | None:
    problem = None
    if isinstance(item, str):
        if "\0" in item:  # the evaluator would see only the text before it
            problem = "holds a NUL character"
        elif not item.isascii() and _has_surrogate(item):
            problem = "holds a lone surrogate, which is no text"
    elif isinstance(item, float):
        if not math.isfinite(item):
            problem = "holds a number that is not finite"
    elif isinstance(item, int):
        if not -(2**63) <= item < 2**63:
            problem = "holds an integer of more than 64 bits"
    elif item is not None:
        problem = f"holds a value that is not JSON ({type(item).__name__})"
    return problem


@functools.cache
def _build_environment(variables: tuple[tuple[str, VariableType], ...]) -> Any:
    from cel_expr_python import cel  # noqa: PLC0415 - start-up: only an expression needs it
    from cel_expr_python.ext import (  # type: ignore[import-untyped]  # noqa: PLC0415 - start-up: only an expression needs it
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


def _build_compile_error(text: str, output: str, variables: Mapping[str, VariableType]) -> CelCompileError:
    """Build the error from the compiler's output: the first one in the expression's order."""
    placed = [(int(match[1]), int(match[2]), _strip_codes(match[3])) for match in _COMPILER_FINDING.finditer(output)]
    if not placed:
        return CelCompileError(text, _strip_codes(output))
    row, column, message = min(placed, key=lambda finding: finding[:2])
    if row < 1 or column < 1:
        return CelCompileError(text, message)
    error = CelCompileError(text, _CONTAINER_NOTE.sub("", message), row, column)
    named = _UNDECLARED_NAME.match(message)
    if named is not None and not error.find_rest_of_line().startswith("("):
        near = difflib.get_close_matches(named[1], variables, n=1)
        hint = f"did you mean {near[0]!r}? There are" if near else "there are"
        error.message += f" ({hint}: {', '.join(variables)})"
    return error


def _locate_offset(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def _describe_exception(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it needs more memory than is available"
    return _strip_codes(str(error)) or type(error).__name__


def _describe_error_value(text: str) -> str:
    """Describe an error value; an optional value has the type of an error."""
    return (
        _strip_codes(text)
        if _ERROR_CODE.match(text)
        else "expected true or false, got an optional value; orValue(...) takes it out"
    )


def _render_plain_value(result: Any, kind: Any) -> str:
    """Render a result that is not boolean, if it is a plain value. Lists and maps are not rendered: an optional value
    in one crashes the process, and the order of a map differs between processes.
    """
    from cel_expr_python import cel  # noqa: PLC0415 - start-up: only an expression needs it

    if kind in (cel.Type.INT, cel.Type.UINT, cel.Type.DOUBLE, cel.Type.STRING):
        return f": {render_value(result.plain_value(), _MAX_VALUE_CHARS)}"
    return ""


def _name_type(kind: Any) -> str:
    name = str(kind.name()).lower().partition("<")[0]
    return "nothing (null)" if name == "null" else f"of type {name}"


def _strip_codes(output: str) -> str:
    """The first line of the evaluator's output without its error codes."""
    first = _ERROR_CODE.sub("", output.strip())
    return render_line(first.partition("\n")[0])


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
