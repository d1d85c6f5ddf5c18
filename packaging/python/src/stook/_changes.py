"""What has changed in records."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from ._http import Server, segment

_WAIT = 20
"""Seconds that the server waits for a change."""


class Change(NamedTuple):
    """A change of one record."""

    collection: str
    key: str
    kind: str
    """`created`, `changed` or `deleted`."""
    fields: Dict[str, Any]
    """All that the record has if it was created, or else what changed; None where there is no value any more."""
    at: str
    by: List[Dict[str, Any]]
    """The contributions that it follows from: `contributor`, `job`, `removed`."""
    cursor: str
    """Changes after this one follow from here."""


class Changes:
    """Changes in the order of commits, each once. `cursor` is where they go on, also after the last one."""

    def __init__(self, server: Server, tenant: str, collection: Optional[str], since: Optional[str], follow: bool) -> None:
        self._server = server
        self._path = f"/v1/{segment(tenant)}/changes" + (f"/{segment(collection)}" if collection else "")
        self._follow = follow
        self.cursor = since
        self.settled = False
        """Whether all derived values were computed when the last change was read."""

    def __iter__(self) -> Iterator[Change]:
        while True:
            wait = _WAIT if self._follow else 0
            found = 0
            query = {"since": self.cursor, "wait": wait}
            for line in self._server.request("GET", self._path, query, timeout=wait + 60).lines():
                self.cursor = line["cursor"]
                self.settled = line["settled"]
                if "key" in line:
                    found += 1
                    yield Change(line["collection"], line["key"], line["change"], line.get("fields") or {}, line["at"], line.get("by") or [], line["cursor"])
            if found == 0 and not self._follow:
                return
