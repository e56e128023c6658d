"""The assertion of decision labs: a CEL expression over a flow's decision that has to be true.

It judges a decision, not a workspace, so it is not a `verifiers.base.Verifier`, and suites have no kind `cel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from providers.decisions.cel import ASSERTION_VARIABLES, CelEvaluationError, Expression
from providers.decisions.cel import compile_expression as compiled
from providers.decisions.excerpts import shorten_value
from store.events import Json
from store.rows import Verdict


@attrs.frozen(kw_only=True)
class Assertion:
    """Passes only if `cel` evaluates to true.

    Raises:
        Uncompilable: `cel` is not valid CEL, or uses a name that a decision does not have.
    """

    kind: ClassVar[str] = "cel"
    id: str
    cel: str
    why: str
    """The rule that the assertion protects, for reports."""
    _expression: Expression = attrs.field(init=False, repr=False, eq=False)

    @_expression.default
    def _compile_expression(self) -> Expression:
        return compiled(self.cel, ASSERTION_VARIABLES)

    def judge_decision(self, values: Mapping[str, Json]) -> Verdict:
        """Evaluate the assertion on *values*, in the form of `providers.decisions.decision.Decision.to_json`.

        The detail has `why` and `cel`. On a failure it also has `values`, the shortened values of the variables in the
        expression, and `reason` if the expression was neither true nor false.
        """
        detail: dict[str, Json] = {"why": self.why, "cel": self.cel}
        try:
            if self._expression.evaluate(values):
                return Verdict(verifier=self.id, kind=self.kind, verdict="pass", detail=detail)
        except CelEvaluationError as error:
            detail["reason"] = error.reason
        detail["values"] = {
            name: shorten_value(values.get(name)) for name in self._expression.list_required_variables()
        }
        return Verdict(verifier=self.id, kind=self.kind, verdict="fail", detail=detail)
