"""Errors: what is wrong, where, and what may be meant."""

from __future__ import annotations

import re
from typing import Any, List, Mapping, NamedTuple, Optional


class Place(NamedTuple):
    """Where a mistake is. A query has one line."""

    line: int
    column: int
    """In characters, from 1."""


class StookError(Exception):
    """Something that cannot be done."""

    def __init__(
        self,
        message: str,
        *,
        place: Optional[Place] = None,
        suggestion: Optional[str] = None,
        shown: Optional[str] = None,
        reasons: Optional[List[str]] = None,
        status: Optional[int] = None,
    ) -> None:
        super().__init__(shown or message)
        self.message = message
        """What is wrong, in a sentence."""
        self.place = place
        """Where it is, in the query or the definition."""
        self.suggestion = suggestion if suggestion is not None else _meant(message)
        """What is probably meant instead."""
        self.shown = shown
        """The mistake in its text, with a mark below it."""
        self.reasons = reasons or [message]
        """All that is wrong, if it is more than one thing."""
        self.status = status
        """The HTTP status."""


class Mistake(StookError):
    """What was asked for, or sent, is wrong."""


class DefinitionError(StookError):
    """`catalogue.yaml` has mistakes; `reasons` has all of them."""


class NotFound(StookError):
    """There is no such record, job or collection."""


class NotAllowed(StookError):
    """The token is missing, unknown or may not do this."""


class Conflict(StookError):
    """It does not fit what is stored: the record has changed, or another one has a unique value."""


class Unavailable(StookError):
    """The server cannot be reached, or has too much to do; try again later."""


def _meant(message: str) -> Optional[str]:
    found = re.search(r"did you mean `([^`]+)`\?", message)
    return found.group(1) if found else None


_BY_STATUS = {400: Mistake, 401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: Conflict, 410: Conflict, 412: Conflict, 422: Mistake, 503: Unavailable}


def of_problem(status: int, problem: Mapping[str, Any], text: Optional[str] = None) -> StookError:
    """The error of a response; `text` is the query that it is about."""
    message = str(problem.get("detail") or problem.get("title") or f"status {status}")
    place = None
    start = problem.get("at")
    if text is not None and isinstance(start, int):
        before = text.encode()[:start].decode(errors="ignore")
        place = Place(before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    reasons = problem.get("errors")
    return _BY_STATUS.get(status, StookError)(
        message,
        place=place,
        shown=problem.get("shown"),
        reasons=[str(reason) for reason in reasons] if isinstance(reasons, list) else None,
        status=status,
    )
