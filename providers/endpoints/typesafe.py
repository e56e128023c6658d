"""TypeSafe System One API: answers closed questions about a state, each with a confidence.

It generates no text, so it cannot serve agents: it serves model nodes of decision flows, whose answer schema defines
the questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from providers.answer_form import describe_form
from providers.base import Answer, Emit, Request, UserText
from providers.endpoints.arguments import parse_model_json
from providers.endpoints.endpoint import Endpoint, encode_body
from providers.endpoints.questions import Question, UnreadableAnswer, derive_questions, read_answers
from providers.endpoints.quirks import Quirks
from providers.endpoints.reader import AnswerReader, EmitDelta, ignore_delta
from providers.endpoints.sse import MAX_LINE_BYTES
from providers.endpoints.usage import read_responses_usage
from providers.errors import ProviderError
from providers.registry import ProviderOptions
from providers.usage import Usage
from store.events import Json


class Typesafe(Endpoint[Quirks]):
    """A System One endpoint. Its base URL leaves out `/v1/systemone` or `/systemone`."""

    format_name: ClassVar[str] = "typesafe"
    default_base_url: ClassVar[str] = "https://api.typesafe.ai"
    root: ClassVar[str] = "/v1"
    path: ClassVar[str] = "/systemone"
    accept: ClassVar[str] = "application/json"

    def initial_quirks(self) -> Quirks:
        """No quirks are known for this API."""
        return Quirks()

    def encode_request(self, request: Request, quirks: Quirks) -> bytes:  # noqa: ARG002 - none are known
        """Encode the request; see `encode_request`."""
        return encode_request(request)

    def make_reader(self, request: Request, emit: Emit) -> SystemOneReader:
        """A reader of one document that knows the questions."""
        return SystemOneReader(_require_questions(request), emit, secrets=self._secrets)


def list_schema_problems(schema: Mapping[str, Json]) -> list[str]:
    """The problems that prevent System One from answering a schema, one line each; empty if there are none."""
    return derive_questions(schema)[1]


def encode_request(request: Request) -> bytes:
    """Encode a request as JSON, with the last user text as the state.

    The model sees only a question's own instructions, not its name. So the request's instructions are put before those
    of each question, without their part about the form of a written answer.

    Raises:
        ProviderError: `invalid_request`: the request has no answer schema, or one that cannot be asked.
    """
    questions = _require_questions(request)
    before = request.instructions.removesuffix(describe_form(request.answer_schema or {})).strip()
    body: dict[str, Any] = {
        "state": _read_state(request),
        "model": request.model,
        "questions": {question.name: _write_question(question, before) for question in questions},
    }
    return encode_body(body)


def _require_questions(request: Request) -> Sequence[Question]:
    if request.answer_schema is None:
        message = "typesafe serves only the model nodes of decision flows"
        raise ProviderError(kind="invalid_request", message=message, retryable=False)
    questions, problems = derive_questions(request.answer_schema)
    if problems:
        message = f"the answer's schema cannot be asked: {'; '.join(problems)}"
        raise ProviderError(kind="invalid_request", message=message[:400], retryable=False)
    return questions


def _write_question(question: Question, before: str) -> dict[str, Json]:
    instructions = f"{before}\n\n{question.instructions}" if before else question.instructions
    asked: dict[str, Json] = {"type": question.type, "instructions": instructions}
    return asked if question.criteria is None else asked | {"criteria": question.criteria}


def _read_state(request: Request) -> Json:
    """The last user text, parsed if it is a JSON object."""
    text = next((turn.text for turn in reversed(request.messages) if isinstance(turn, UserText)), "")
    value = parse_model_json(text)
    return value if isinstance(value, dict) else text


class SystemOneReader(AnswerReader):
    """Reads the answer to *questions*: one JSON document, in pieces of any size.

    The answer's text is `{"answer": {...}, "confidence": c}`: a value for each question, and the lowest confidence
    among them. A confidence measures how far the likeliest answer stands out, not how often it is right.
    """

    def __init__(
        self, questions: Sequence[Question], emit: EmitDelta = ignore_delta, *, secrets: Iterable[str] = ()
    ) -> None:
        super().__init__(emit, secrets=secrets)
        self._streamed = False
        self._questions = questions
        self._body = bytearray()
        self._usage: Mapping[str, Json] | None = None

    def _read_usage(self) -> tuple[Usage | None, tuple[str, ...]]:
        return read_responses_usage(self._usage)

    def _has_output(self) -> bool:
        return False

    def feed(self, data: bytes) -> None:
        """Read the next piece.

        Raises:
            ProviderError: `bad_payload`: the document is longer than 64 MiB.
        """
        self._body += data
        if len(self._body) > MAX_LINE_BYTES:
            raise self._build_error("bad_payload", "the document is longer than 64 MiB", retryable=False)

    def _read_rest(self) -> None:
        self.done = True
        body = self._body.decode("utf-8-sig", "replace")
        document = parse_model_json(body)
        if not isinstance(document, dict):
            self._reject_body(body)
            return
        self._note_model(document.get("model"))
        usage = document.get("usage")
        self._usage = usage if isinstance(usage, dict) else None
        if "answers" not in document and (document.get("error") or document.get("detail")):
            self._note_error(document)
            return
        try:
            answer, confidence = read_answers(self._questions, document.get("answers"))
        except UnreadableAnswer as error:
            self._note_unreadable(f"the endpoint's answer cannot be read: {error}"[:400])
            return
        self._emit_text(json.dumps({"answer": answer, "confidence": confidence}, ensure_ascii=False))

    def _build_answer(self) -> Answer:
        usage, notes = self.last_usage()
        return Answer(text=self.text, usage=usage, finish="stop", model=self.model, notes=notes)


def open_provider(options: ProviderOptions) -> Typesafe:
    """Open an endpoint at `options.base_url`, by default TypeSafe's.

    Raises:
        UsageError: the base URL or the key is invalid.
    """
    return Typesafe.open_endpoint(options)
