"""The verifier of decision labs: a CEL expression over how a flow ended has to be true.

Suites have no kind `cel`: it judges a decision and not a workspace, so it is no `verifiers.base.Verifier`.
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
    """Passes when `cel` is true, and in no other case.

    Raises:
        Uncompilable: it is no CEL, or names something else than what a decision has.
    """

    kind: ClassVar[str] = "cel"
    id: str
    cel: str
    why: str
    """The rule that it protects."""
    _expression: Expression = attrs.field(init=False, repr=False, eq=False)

    @_expression.default
    def _compiled(self) -> Expression:
        return compiled(self.cel, ASSERTION_VARIABLES)

    def judged(self, values: Mapping[str, Json]) -> Judgement:
        """Hold it against *values*: `providers.decisions.decision.Decision.to_json`, or its like.

        The detail has `why` and `cel`; of a failed one also `values`, those of the variables that the expression
        names, shortened, and `reason` where it was neither true nor false.
        """
        told: dict[str, Json] = {"why": self.why, "cel": self.cel}
        try:
            if self._expression.evaluate(values):
                return Judgement(verifier=self.id, kind=self.kind, verdict="pass", detail=told)
        except Unevaluable as error:
            told["reason"] = error.reason
        told["values"] = {name: shortened(values.get(name)) for name in self._expression.named()}
        return Judgement(verifier=self.id, kind=self.kind, verdict="fail", detail=told)
