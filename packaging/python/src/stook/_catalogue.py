"""Catalogues: on this machine, or on a server."""

from __future__ import annotations

import json
import os
import pathlib
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ._changes import Changes
from ._errors import StookError, Unavailable
from ._http import Server, segment
from ._local import LocalServer

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped,unused-ignore]
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

_FIRST_PAUSE, _MAX_PAUSE = 0.02, 1.0
"""Seconds between two looks at a job."""
_UNENDED = ("queued", "running", "interrupted")


class Record(Dict[str, Any]):
    """A record: `key`, and its fields that have a value."""

    def __init__(self, values: Mapping[str, Any], revision: Optional[str]) -> None:
        super().__init__({name: value for name, value in values.items() if not name.startswith("$")})
        self.revision = revision
        """Its version, for `correct(..., revision=...)`."""
        self.overruled: Dict[str, str] = values.get("$overruled", {})
        """Fields of a correction that have another value nevertheless, with the reason."""
        self.warnings: List[str] = values.get("$warnings", [])
        """What else there is to know about a correction."""


@dataclass
class Job:
    """An import."""

    id: int
    state: str
    """`completed`, `completed_with_errors`, `failed` or another one."""
    counts: Dict[str, int]
    """How many documents had which outcome: `created`, `updated`, `unchanged`, `failed` and others."""
    details: Dict[str, Any] = field(repr=False)
    """The job as the server shows it."""
    issues: List[Dict[str, Any]] = field(default_factory=list, repr=False)
    """The first failures and warnings, with `file`, `record`, `key` and `reasons`."""


class Rows:
    """All rows of a query. They are read while you iterate, again each time."""

    def __init__(self, server: Server, tenant: str, text: str, about: Mapping[str, Any]) -> None:
        self._server, self._tenant, self._text = server, tenant, text
        self.columns: List[str] = list(about["columns"])
        """The names of the columns."""
        self.services: List[Dict[str, Any]] = list(about.get("services") or [])
        """The services that have records of this kind, with what each was asked."""

    @property
    def may_be_incomplete(self) -> bool:
        """Whether a service that has such records was not asked, or has not answered completely."""
        return any(service.get("state") != "complete" for service in self.services)

    def _export(self, format: str) -> Any:
        query = {"q": self._text, "format": format}
        return self._server.request("GET", f"/v1/{segment(self._tenant)}/export", query, about=self._text)

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        rows: Iterator[Dict[str, Any]] = self._export("ndjson").lines()
        return rows

    def list(self) -> List[Dict[str, Any]]:
        """All rows in memory."""
        return [*self]

    def arrow(self) -> "pyarrow.Table":
        """The rows as a table of Arrow, with the types of the catalogue."""
        try:
            import pyarrow
            import pyarrow.ipc  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise StookError("install pyarrow to get tables of Arrow: pip install pyarrow") from error
        return pyarrow.ipc.open_file(pyarrow.py_buffer(self._export("arrow").read())).read_all()

    def pandas(self) -> "pandas.DataFrame":
        """The rows as a DataFrame, with the types of the catalogue."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise StookError("install pandas to get DataFrames: pip install pandas pyarrow") from error
        return self.arrow().to_pandas()


class Catalogue:
    """A catalogue. `Catalogue.open` makes one; use it in a `with` statement, or call `close`."""

    def __init__(self, server: Server, tenant: str, local: Optional[LocalServer]) -> None:
        self._server, self._tenant, self._local = server, tenant, local
        self._path = f"/v1/{segment(tenant)}"

    @classmethod
    def open(
        cls,
        location: Union[str, "os.PathLike[str]"],
        *,
        store: Optional[str] = None,
        token: Optional[str] = None,
        tenant: str = "main",
        timeout: float = 120.0,
    ) -> "Catalogue":
        """Opens the catalogue in a folder, or that of a server by its URL.

        `store` is where the records of a folder's catalogue are, such as `postgres://USER@HOST/DATABASE`; a file in the folder if it is not given.
        `token` is for servers; the variable STOOK_TOKEN if it is not given. `timeout` is how many seconds a request may take.
        """
        text = os.fspath(location)
        if text.startswith(("http://", "https://")):
            if store is not None:
                raise StookError("a server has its own store; `store` is for a catalogue on this machine")
            token = token or os.environ.get("STOOK_TOKEN")
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            opened = cls(Server(text, headers, timeout), tenant, None)
            opened.describe()
            return opened
        local = LocalServer(pathlib.Path(text), store, tenant)
        return cls(Server(local.url, local.headers, timeout), tenant, local)

    def close(self) -> None:
        """Ends the server of a catalogue on this machine."""
        if self._local is not None:
            self._local.close()

    def __enter__(self) -> "Catalogue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self) -> Dict[str, Any]:
        """The collections with their fields, links and transitions, and the sources."""
        described: Dict[str, Any] = self._server.json("GET", self._path)
        return described

    def query(self, text: str, *, ask: str = "never", wait: Optional[int] = None) -> Rows:
        """Runs a query in the query language. Mistakes are raised at once, with their place.

        `ask` says whether services are asked first for what is not stored: `never`, `needed`, `always` or `later`; `wait` for how many seconds.
        """
        asked = {"q": text, "limit": 1, "ask": ask, "wait": wait}
        return Rows(self._server, self._tenant, text, self._server.json("GET", f"{self._path}/query", asked, about=text, timeout=(wait or 60) + 60))

    def get(self, collection: str, key: str) -> Record:
        """One record."""
        response = self._server.request("GET", self._record(collection, key))
        return Record(response.json(), response.headers.get("ETag"))

    def explain(self, collection: str, key: str) -> Dict[str, Any]:
        """Where the values of a record come from: `fields` with the value, the sources, the rule and what was overruled; `contributions`."""
        explained: Dict[str, Any] = self._server.json("GET", self._record(collection, key) + "/explain")
        return explained

    def correct(
        self, collection: str, key: str, fields: Mapping[str, Any], *, clear: Sequence[str] = (), revision: Optional[str] = None
    ) -> Record:
        """Sets fields of a record by hand. What sources say is kept: None takes a correction back, and fields in `clear` have no value.

        With the `revision` of a record that was read, the correction is refused (`Conflict`) if the record has changed since. Otherwise it must exist.
        """
        headers = {"Content-Type": "application/merge-patch+json", "If-Match": revision or "*"}
        body = json.dumps(dict(fields)).encode()
        response = self._server.request("PATCH", self._record(collection, key), {"clear": list(clear)}, body=body, headers=headers)
        return Record(response.json() or {}, response.headers.get("ETag"))

    def import_(
        self,
        file: Union[str, "os.PathLike[str]", bytes, IO[bytes]],
        *,
        source: Optional[str] = None,
        profile: Optional[str] = None,
        as_of: Optional[str] = None,
        name: Optional[str] = None,
        wait: Union[bool, float] = True,
    ) -> Job:
        """Imports a file: its path, its bytes, or an open file.

        Waits until the import has ended and derived values are computed; with a number, at most for so many seconds.

        `name` is that of the file for bytes and open files, by which the source is found. The time of documents that have none is `as_of`,
        or else the file's time of modification.
        """
        body: Union[bytes, IO[bytes]]
        opened: Optional[IO[bytes]] = None
        if isinstance(file, (str, os.PathLike)):
            path = pathlib.Path(file)
            opened = body = path.open("rb")
            name = name or path.name
            as_of = as_of or _modified(path)
        else:
            body = file
        query = {"source": source, "profile": profile, "as_of": as_of, "name": name}
        try:
            job = self._server.json("POST", f"{self._path}/import", query, body=body, headers={"Content-Type": "application/octet-stream"})
        finally:
            if opened is not None:
                opened.close()
        return self.job(int(job["id"]), wait=wait)

    def job(self, number: int, *, wait: Union[bool, float] = False) -> Job:
        """A job; with `wait`, when it has ended."""
        pause, until = _FIRST_PAUSE, None if isinstance(wait, bool) else time.monotonic() + wait
        while True:
            shown = self._server.json("GET", f"{self._path}/jobs/{number}")
            if wait is False or not (shown["state"] in _UNENDED or shown["settled"] is False):
                break
            if until is not None and time.monotonic() > until:
                raise Unavailable(f"job {number} has not ended yet: it is {shown['state']}, with {shown['documents']} documents done")
            time.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)
        issues = self._server.json("GET", f"{self._path}/jobs/{number}/journal", {"errors": True, "limit": 20})
        entries: List[Dict[str, Any]] = issues.get("entries") or []
        return Job(number, shown["state"], dict(shown.get("counts") or {}), shown, entries)

    def changes(self, since: Optional[str] = None, *, collection: Optional[str] = None, follow: bool = False) -> Changes:
        """What has changed after a cursor, or `now`; all that is kept if it is not given. With `follow`, waits for more."""
        return Changes(self._server, self._tenant, collection, since, follow)

    def _record(self, collection: str, key: str) -> str:
        return f"{self._path}/{segment(collection)}/{segment(key)}"


def _modified(path: pathlib.Path) -> str:
    seconds = path.stat().st_mtime
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1_000_000):06d}Z"
