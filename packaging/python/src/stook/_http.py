"""Requests to a server."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any, Iterator, List, Mapping, Optional, Tuple, Union

from ._errors import StookError, Unavailable, of_problem

Body = Union[bytes, IO[bytes]]


class Response:
    """A response whose body has not been read yet."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers

    def read(self) -> bytes:
        try:
            with self._response:
                body: bytes = self._response.read()
                return body
        except (OSError, http.client.HTTPException) as error:
            raise _cut_off(error) from error

    def json(self) -> Any:
        return json.loads(self.read() or b"null")

    def lines(self) -> Iterator[Any]:
        """The lines of a body of JSON lines, as they arrive."""
        try:
            with self._response:
                for line in self._response:
                    yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _cut_off(error) from error


def _cut_off(error: Exception) -> StookError:
    return Unavailable(f"the response ended before it was complete: {error!r}")


class Server:
    """Where a catalogue is served, and as whom it is called."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        self.url = url.rstrip("/")
        self._headers = dict(headers)
        self._timeout = timeout
        # the server is called directly: proxies of the environment are for other hosts
        handlers = [urllib.request.ProxyHandler({})] if urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1") else []
        self._opener = urllib.request.build_opener(*handlers)

    def request(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, Any]] = None,
        *,
        body: Optional[Body] = None,
        headers: Optional[Mapping[str, str]] = None,
        about: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> Response:
        """Sends a request; `about` is the query in it, for errors."""
        pairs: List[Tuple[str, str]] = []
        for name, value in (query or {}).items():
            values = value if isinstance(value, (list, tuple)) else [value]
            pairs += [(name, _text(value)) for value in values if value is not None]
        url = self.url + path + ("?" + urllib.parse.urlencode(pairs) if pairs else "")
        request = urllib.request.Request(url, data=body, method=method, headers={**self._headers, **(headers or {})})
        try:
            return Response(self._opener.open(request, timeout=timeout or self._timeout))
        except urllib.error.HTTPError as error:
            with error:
                try:
                    problem = json.loads(error.read())
                except (ValueError, OSError, http.client.HTTPException):
                    problem = {}
            raise of_problem(error.code, problem if isinstance(problem, dict) else {}, about) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self.url} cannot be reached: {error}") from error

    def json(self, method: str, path: str, query: Optional[Mapping[str, Any]] = None, **more: Any) -> Any:
        return self.request(method, path, query, **more).json()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return urllib.parse.quote(text, safe="")
