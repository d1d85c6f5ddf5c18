"""A Stook catalogue in Python: query records, see where each value comes from, import, correct and follow changes.

    import stook

    with stook.Catalogue.open("library") as catalogue:
        for row in catalogue.query("book year>=1990 | grep title, year"):
            print(row["title"])

`Catalogue.open` takes the folder of a catalogue on this machine, or the URL of a server (`stook serve`).
"""

from ._catalogue import Catalogue, Job, Record, Rows
from ._changes import Change, Changes
from ._errors import Conflict, DefinitionError, Mistake, NotAllowed, NotFound, Place, StookError, Unavailable

__all__ = [
    "Catalogue",
    "Change",
    "Changes",
    "Conflict",
    "DefinitionError",
    "Job",
    "Mistake",
    "NotAllowed",
    "NotFound",
    "Place",
    "Record",
    "Rows",
    "StookError",
    "Unavailable",
]
