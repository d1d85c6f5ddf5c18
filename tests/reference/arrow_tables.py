"""Tables in Parquet and Arrow IPC by pyarrow.

write FOLDER SEED: writes a table in several files, and prints each row as JSON: what Stook should read from any of them.
read FILE:         prints the type of each column as JSON, then each row as JSON.
"""

import datetime
import decimal
import json
import math
import random
import sys

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

EPOCH = datetime.datetime(1970, 1, 1)


def moment(ticks, per_second, zone):
    seconds, rest = divmod(ticks, per_second)
    text = (EPOCH + datetime.timedelta(seconds=seconds)).isoformat()
    digits = len(str(per_second)) - 1
    fraction = str(rest).rjust(digits, "0") if digits else ""
    if not (digits == 9 and rest % 1000):
        fraction = fraction.rstrip("0")
    return text + ("." + fraction if fraction else "") + ("Z" if zone else "")


def columns(dice):
    """Each column: its name, its type, a function that makes a value, and one that makes what is read of it."""
    same = lambda value: value
    word = lambda: "".join(dice.choice("aé𝄞\"\\ \n,0") for _ in range(dice.randint(0, 8)))
    instants = [(unit, per_second, zone) for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)) for zone in (None, "UTC", "Europe/Berlin", "+05:30")]
    whole = [(pa.int8(), 7), (pa.int16(), 15), (pa.int32(), 31), (pa.int64(), 63)]
    found = [(f"i{bits}", kind, lambda bits=bits: dice.randint(-(2**bits), 2**bits - 1), same) for kind, bits in whole]
    found += [(f"u{bits}", kind, lambda bits=bits: dice.randint(0, 2**bits - 1), same) for kind, bits in ((pa.uint8(), 8), (pa.uint32(), 32), (pa.uint64(), 64))]
    real = lambda: dice.choice([math.nan, math.inf, 0.0, dice.randint(-4000, 4000) / 4])
    finite = lambda value: value if math.isfinite(value) else None
    found += [("f32", pa.float32(), real, finite), ("f64", pa.float64(), real, finite)]
    found += [("flag", pa.bool_(), lambda: dice.random() < 0.5, same)]
    found += [(name, kind, word, same) for name, kind in (("text", pa.string()), ("large", pa.large_string()), ("coded", pa.dictionary(pa.int32(), pa.string())))]
    for unit, per_second, zone in instants:
        kind = pa.timestamp(unit, tz=zone)
        make = lambda per_second=per_second: dice.randint(-(2**31), 2**32) * per_second + dice.choice([0, 0, dice.randrange(per_second)])
        found.append((f"t {unit} {zone}", kind, make, lambda ticks, per_second=per_second, zone=zone: moment(ticks, per_second, zone)))
    found += [("day", pa.date32(), lambda: datetime.date(1970, 1, 1) + datetime.timedelta(days=dice.randint(-40000, 40000)), lambda day: day.isoformat())]
    cents = lambda digits, scale: decimal.Decimal(dice.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale, decimal.Context(prec=60))
    found += [("price", pa.decimal128(10, 2), lambda: cents(10, 2), float)]
    found += [("exact", pa.decimal128(38, 10), lambda: cents(38, 10), lambda value: f"{value:.10f}")]
    found += [("bytes", pa.binary(), lambda: bytes(dice.randrange(256) for _ in range(dice.randint(0, 5))), lambda value: value.hex())]
    numbers = lambda: [dice.choice([None, dice.randint(-9, 9)]) for _ in range(dice.randint(0, 4))]
    found += [("numbers", pa.list_(pa.int64()), numbers, same)]
    found += [("matrix", pa.list_(pa.list_(pa.int64())), lambda: [numbers() for _ in range(dice.randint(0, 3))], same)]
    part = lambda: {"name": dice.choice([None, word()]), "size": dice.choice([None, dice.randint(0, 9)])}
    parts = pa.struct([("name", pa.string()), ("size", pa.int32())])
    present = lambda value: {name: item for name, item in value.items() if item is not None}
    found += [("part", parts, part, present), ("parts", pa.list_(parts), lambda: [part() for _ in range(dice.randint(0, 3))], lambda value: [present(item) for item in value])]
    entry = lambda: {word() + str(number): dice.randint(0, 9) for number in range(dice.randint(0, 3))}
    found += [("entries", pa.map_(pa.string(), pa.int32()), lambda: list(entry().items()), dict), ("nothing", pa.null(), lambda: None, same)]
    return found


def write(folder, seed):
    dice = random.Random(seed)
    known = columns(dice)
    rows = [[None if dice.random() < 0.15 else make() for _, _, make, _ in known] for _ in range(500)]
    arrays = [pa.array([row[position] for row in rows], type=kind) for position, (_, kind, _, _) in enumerate(known)]
    table = pa.table(arrays, names=[name for name, _, _, _ in known])
    for number, (compression, version, coded) in enumerate([("none", "1.0", True), ("snappy", "2.0", False), ("gzip", "1.0", True), ("brotli", "2.0", True), ("zstd", "2.0", True), ("lz4", "1.0", False)]):
        path = f"{folder}/{number}.parquet"
        pa.parquet.write_table(table, path, compression=compression, data_page_version=version, use_dictionary=coded, row_group_size=170, data_page_size=500)
    for compression in (None, "lz4", "zstd"):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        for name, begin in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
            with begin(f"{folder}/{compression}.{name}", table.schema, options=options) as out:
                out.write_table(table, max_chunksize=120)
    for row in rows:
        shown = {name: None if value is None else show(value) for value, (name, _, _, show) in zip(row, known)}
        print(json.dumps({name: value for name, value in shown.items() if value is not None}))


def plain(value):
    if isinstance(value, datetime.datetime):
        text = value.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat()
        return (text.rstrip("0") if "." in text else text) + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def read(path):
    table = pa.parquet.read_table(path) if path.endswith(".parquet") else pa.ipc.open_file(path).read_all()
    print(json.dumps([str(kind.type) for kind in table.schema]))
    for row in table.to_pylist():
        print(json.dumps([plain(value) for value in row.values()]))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
