"""Uses a catalogue by the module `stook`, and checks what it gives: use_package.py LOCATION [STORE]

The catalogue is that of `tests/tests/end_to_end/python_package.rs`, without records. A location that is a URL has its token in STOOK_TOKEN.
"""

import datetime
import io
import pathlib
import sys
import tempfile
import threading

import stook


def fails(error: type, call, *arguments, **named) -> stook.StookError:
    try:
        call(*arguments, **named)
    except error as raised:
        return raised
    raise AssertionError(f"{call} has not failed")


def imports(catalogue: stook.Catalogue) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "shop.csv"
        rows = "".join(f"b{number:05},Title {number},{1000 + number},2020-01-01,{number / 4}\n" for number in range(12_000))
        file.write_text("id,title,year,printed,price\n" + rows)
        job = catalogue.import_(file)
        assert (job.state, job.counts["created"], job.issues) == ("completed", 12_000, []), job
        assert catalogue.import_(file).counts["unchanged"] == 12_000
    listed = b'[{"id": "b00001", "title": "The Sea"}, {"title": "no key"}]'
    for body in [listed, io.BytesIO(listed)]:
        job = catalogue.import_(body, name="list.json", source="list")
        assert job.state == "completed_with_errors" and job.issues[0]["reasons"], job
    queued = catalogue.import_(b'[{"id": "later", "title": "Later"}]', source="list", wait=False)
    assert catalogue.job(queued.id, wait=60.0).state == "completed"
    mistake = fails(stook.Mistake, catalogue.import_, b"[]", source="lis")
    assert mistake.suggestion == "list", mistake
    fails(stook.NotFound, catalogue.job, 999_999)


def reads(catalogue: stook.Catalogue) -> None:
    assert [collection["name"] for collection in catalogue.describe()["collections"]] == ["book"]
    found = catalogue.query("book year<=11500 | grep title, year | sort year-")
    assert found.columns == ["title", "year"] and not found.services and not found.may_be_incomplete
    rows = found.list()
    assert len(rows) == 10_501 and rows[0] == {"title": "Title 10500", "year": 11_500} and rows == [*found], len(rows)
    table = catalogue.query("book=b00001 | grep title, year, printed, price").arrow()
    assert table.to_pylist() == [{"title": "The Sea", "year": 1001, "printed": datetime.date(2020, 1, 1), "price": 0.25}], table
    frame = catalogue.query("book | count(key), max(year)").pandas()
    assert frame.iloc[0].tolist() == [12_001, 12_999], frame
    assert catalogue.query("sea").list()[0]["key"] == "b00001"
    assert not catalogue.query("book=none").list() and catalogue.query("book=none").arrow().num_rows == 0
    mistake = fails(stook.Mistake, catalogue.query, "book title=*é*\n  yaer>=1990")
    assert (mistake.place, mistake.suggestion, mistake.status) == (stook.Place(2, 3), "year", 400), mistake.place
    assert "^^^^" in str(mistake) and mistake.message.startswith("`book` has no field `yaer`")
    fails(stook.Mistake, catalogue.query, "")
    assert catalogue.get("book", "b00001")["title"] == "The Sea"
    explained = catalogue.explain("book", "b00001")["fields"]["title"]
    assert (explained["from"], explained["lost"][0]["value"]) == (["list"], "Title 1")
    missing = fails(stook.NotFound, catalogue.get, "book", "a/b ü?")
    assert "a/b ü?" in missing.message, missing
    fails(stook.NotFound, catalogue.get, "bok", "b00001")


def corrects(catalogue: stook.Catalogue) -> None:
    before = catalogue.get("book", "b00002")
    corrected = catalogue.correct("book", "b00002", {"year": 5, "title": "Second"})
    assert (corrected["year"], corrected["title"]) == (5, "Second") and corrected.revision != before.revision
    conflict = fails(stook.Conflict, catalogue.correct, "book", "b00002", {"year": 6}, revision=before.revision)
    assert conflict.status == 412, conflict
    overruled = catalogue.correct("book", "b00001", {"title": "Mine"}, revision=catalogue.get("book", "b00001").revision)
    assert overruled["title"] == "The Sea" and "title" in overruled.overruled, overruled.overruled
    assert "price" not in catalogue.correct("book", "b00002", {}, clear=["price"])
    assert catalogue.correct("book", "b00002", {"year": None})["year"] == 1002
    mistake = fails(stook.Mistake, catalogue.correct, "book", "b00002", {"yaer": 1})
    assert mistake.suggestion == "year", mistake
    fails(stook.Conflict, catalogue.correct, "book", "none", {"year": 1})


def follows(catalogue: stook.Catalogue) -> None:
    end = catalogue.changes("now")
    assert [*end] == [] and end.cursor
    all_changes = [*catalogue.changes()]
    assert sum(change.kind == "created" for change in all_changes) == 12_001
    after = catalogue.changes(end.cursor, collection="book")
    catalogue.correct("book", "b00003", {"year": 7})
    [change] = after
    assert (change.collection, change.key, change.kind, change.fields) == ("book", "b00003", "changed", {"year": 7}), change
    assert change.by[0]["contributor"] == "api" and [*after] == []
    later = threading.Timer(0.5, lambda: catalogue.correct("book", "b00003", {"year": 8}))
    later.start()
    for change in catalogue.changes(after.cursor, follow=True):
        assert change.fields == {"year": 8}
        break
    later.join()
    fails(stook.Mistake, lambda: [*catalogue.changes("nonsense")])


def main() -> None:
    location, store = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    is_url = location.startswith("http")
    with stook.Catalogue.open(location, store=store) as catalogue:
        for part in [imports, reads, corrects, follows]:
            part(catalogue)
    if is_url:
        fails(stook.NotAllowed, stook.Catalogue.open, location, token="wrong")
        fails(stook.StookError, stook.Catalogue.open, location, store="x")
        fails(stook.Unavailable, stook.Catalogue.open, "http://127.0.0.1:9")
        return
    fails(stook.Unavailable, catalogue.get, "book", "b00001")
    with tempfile.TemporaryDirectory() as empty:
        assert "catalogue.yaml" in fails(stook.StookError, stook.Catalogue.open, empty).message
        definition = pathlib.Path(empty) / "catalogue.yaml"
        definition.write_text("catalogue: x\ncollections:\n  book:\n    key: id\n    fields: { id: txet }\n")
        wrong = fails(stook.DefinitionError, stook.Catalogue.open, empty)
        assert wrong.place == stook.Place(5, 19) and wrong.suggestion == "text" and len(wrong.reasons) == 1, (wrong.place, wrong.suggestion, wrong.reasons)


main()
