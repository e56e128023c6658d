from __future__ import annotations

import attrs
import pytest

from providers.base import Emit, Request, quirks_of
from providers.endpoints.quirks import Quirks
from providers.errors import ErrorKind, ProviderError
from tests.providers.endpoints.asking import ASKED


@attrs.frozen(kw_only=True)
class Some(Quirks):
    no_sugar: bool = False
    no_milk: bool = False

    def learn_from_words(self, said: str, request: Request, *, refused: bool) -> Some:
        return attrs.evolve(self, no_milk=True) if refused and "milk" in said else self


def refused(kind: ErrorKind = "invalid_request", status: int = 400) -> ProviderError:
    return ProviderError(kind=kind, message="x", retryable=False, status=status)


def test_names_are_those_that_hold_in_the_order_of_the_class() -> None:
    assert Some().names() == ()
    assert Some(no_milk=True, no_sugar=True).names() == ("no_sugar", "no_milk")


def test_what_two_requests_learnt_is_joined() -> None:
    assert Some(no_milk=True).merge_with(Some(no_sugar=True)) == Some(no_milk=True, no_sugar=True)
    assert Quirks().merge_with(Quirks()) == Quirks()


@pytest.mark.parametrize("said", ["MILK is Not Supported", "unknown field: milk"])
def test_refusal_of_a_field_teaches(said: str) -> None:
    assert Some().learn_from_error(refused(), said, ASKED) == Some(no_milk=True)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (refused(), "milk must be cold"),
        (refused(status=500), "unknown field: milk"),
        (refused(kind="context_length"), "unknown field: milk"),
        (refused(status=None), "unknown field: milk"),
    ],
)
def test_other_refusals_teach_nothing(error: ProviderError, said: str) -> None:
    assert Some().learn_from_error(error, said, ASKED) == Some()


def test_provider_that_does_not_adapt_has_no_quirks() -> None:
    class Plain:
        name = account = "plain"

        def size(self, request: Request) -> int:
            return 0

        async def answer(self, request: Request, emit: Emit) -> None:
            raise NotImplementedError

        async def aclose(self) -> None:
            pass

    assert quirks_of(Plain()) == ()
