"""The provider `parrot`: repeats what it was told last, with its model's name before it."""

from __future__ import annotations

from providers.base import Answer, Emit, Request, Responded, TextDelta, UserText
from providers.registry import ProviderOptions
from providers.usage import Usage


class Parrot:
    """Answers at once, from nothing but the request."""

    name = "parrot"
    account = "parrot"

    def size(self, request: Request) -> int:
        """The bytes of what was said."""
        return len(self._heard(request).encode("utf-8", "replace"))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Say it again; a word is a token."""
        heard = self._heard(request)
        text = f"{request.model} says: {heard}"
        emit(Responded(status=200, provider_request_id="parrot-1"))
        emit(TextDelta(text))
        usage = Usage(input=len(heard.split()), output=len(text.split()))
        return Answer(text=text, usage=usage, finish="stop", finish_raw="stop", model=request.model)

    async def aclose(self) -> None:
        """Nothing is open."""

    @staticmethod
    def _heard(request: Request) -> str:
        return next((said.text for said in reversed(request.messages) if isinstance(said, UserText)), "")


def open_provider(options: ProviderOptions) -> Parrot:
    """The factory that the entry point names."""
    return Parrot()


open_provider.api_version = 1  # type: ignore[attr-defined]  # the version of the port it is written for
