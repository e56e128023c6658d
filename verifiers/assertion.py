"""The assertion of decision labs: a CEL expression over a flow's decision that has to be true.

It judges a decision, not a workspace, so it is not a `verifiers.base.Verifier`, and suites have no kind `cel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from providers.decisions.cel import ASSERTION_VARIABLES, Expression, Unevaluable
from providers.decisions.cel import compile as compiled
from providers.decisions.shown import shortened
from store.events import Json
from store.rows import Judgement


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
    def _compiled(self) -> Expression:
        return compiled(self.cel, ASSERTION_VARIABLES)

    def judged(self, values: Mapping[str, Json]) -> Judgement:
        """Evaluate the assertion on *values*, in the form of `providers.decisions.decision.Decision.to_json`.

        The detail has `why` and `cel`. On a failure it also has `values`, the shortened values of the variables in the
        expression, and `reason` if the expression was neither true nor false.
        """
        detail: dict[str, Json] = {"why": self.why, "cel": self.cel}
        try:
            if self._expression.evaluate(values):
                return Judgement(verifier=self.id, kind=self.kind, verdict="pass", detail=detail)
        except Unevaluable as error:
            detail["reason"] = error.reason
        detail["values"] = {name: shortened(values.get(name)) for name in self._expression.named()}
        return Judgement(verifier=self.id, kind=self.kind, verdict="fail", detail=detail)
