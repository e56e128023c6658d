"""A System One endpoint on loopback: it takes what the API takes, refuses the rest as the API does, and answers."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.providers.endpoints.asking import KEY
from tests.providers.loopback import Exchange

USAGE = {"input_tokens": 318, "output_tokens": 34}


def speaking(given: dict[str, Any] | None = None, *, key: str = KEY) -> Callable[..., Awaitable[None]]:
    """A script for `tests.providers.loopback.serve_loopback`. *given* are answers by question; others get its first or
    highest.
    """

    async def script(exchange: Exchange) -> None:
        if exchange.path != "/v1/systemone":
            await refuse(exchange, 404, "Not Found")
        elif exchange.headers.get("authorization") != f"Bearer {key}":
            await refuse(exchange, 401, "Invalid API key")
        elif problem := wrong(exchange.json):
            await exchange.whole(json.dumps({"detail": [{"loc": ["body"], "msg": problem}]}).encode(), 422)
        else:
            asked = exchange.json["questions"]
            answers = {name: (given or {}).get(name) or usual(question) for name, question in asked.items()}
            await exchange.whole(
                json.dumps({"model": "jev-1.13.0", "answers": answers, "usage": USAGE}).encode(),
                content_type="application/json",
            )

    return script


async def refuse(exchange: Exchange, status: int, message: str, **headers: Any) -> None:
    """A refusal as the API writes it."""
    detail = {"detail": {"error_type": "refused", "message": message}}
    await exchange.whole(json.dumps(detail).encode(), status, content_type="application/json", **headers)


def choice(option: Any, confidence: float, **probabilities: Any) -> dict[str, Any]:
    return {"type": "choice", "choice": option, "confidence": confidence, "probabilities": probabilities}


def noul(yes: Any) -> dict[str, Any]:
    return {"type": "noul", "noul": yes}


def score(place: float, confidence: float, *probabilities: float) -> dict[str, Any]:
    told = {str(index): share for index, share in enumerate(probabilities)}
    return {"type": "score", "score": place, "confidence": confidence, "probabilities": told, "legend": {}}


def usual(question: dict[str, Any]) -> dict[str, Any]:
    criteria = question.get("criteria")
    if question["type"] == "choice":
        return choice(next(iter(criteria)), 0.8)
    return noul(0.9) if question["type"] == "noul" else score(len(criteria) - 1, 0.7)


def wrong(body: dict[str, Any]) -> str | None:
    """What the API would refuse about a body."""
    if set(body) != {"state", "model", "questions"}:
        return f"fields {sorted(body)}"
    if not isinstance(body["state"], str | dict | list) or not isinstance(body["model"], str):
        return "state or model"
    for name, question in body["questions"].items():
        criteria, kind = question.get("criteria"), question.get("type")
        fits = {
            "choice": isinstance(criteria, dict) and 1 <= len(criteria) <= 255,
            "noul": criteria is None or isinstance(criteria, dict),
            "score": isinstance(criteria, list) and 2 <= len(criteria) <= 10,
        }
        if (
            not fits.get(kind)
            or not question.get("instructions")
            or set(question) - {"type", "instructions", "criteria"}
        ):
            return f"question {name}"
    return None if body["questions"] else "no questions"
