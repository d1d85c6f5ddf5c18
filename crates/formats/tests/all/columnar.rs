//! Tables in Parquet and Arrow IPC: compared with pyarrow in both directions, written and read again, damaged.
#![cfg(feature = "arrow")]

use crate::support;

use serde_json::{Value as Json, json};
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use stook_catalogue::value::{FieldType, PartialDate, StructMember, Value, from_json, from_text, ranges_of, struct_of};
use stook_formats::columnar::{TableFormat, TableWriter};
use stook_formats::read::{OpenedInput, open, open_bytes};
use stook_formats::{Syntax, TableColumn};
use support::{Random, python, random_text};

const FORMATS: [TableFormat; 3] = [TableFormat::Parquet, TableFormat::ArrowFile, TableFormat::ArrowStream];

/// A field of each type, and of lists of some.
fn types() -> Vec<FieldType> {
    let scalars = [
        FieldType::Text,
        FieldType::Integer,
        FieldType::Size,
        FieldType::Float,
        FieldType::Boolean,
        FieldType::Timestamp,
        FieldType::Date,
        FieldType::PartialDate,
        FieldType::Duration,
        FieldType::Uuid,
    ];
    let member = |(number, ty): (usize, &FieldType)| StructMember { name: format!("m{number}"), ty: ty.clone() };
    let mut members: Vec<StructMember> = scalars.iter().enumerate().map(member).collect();
    members.push(StructMember { name: "runs".to_owned(), ty: FieldType::Ranges });
    let list = |ty: &FieldType| FieldType::List(Box::new(ty.clone()));
    let mut types: Vec<FieldType> = scalars.iter().chain([FieldType::Json, FieldType::Geometry, FieldType::Ranges].iter()).cloned().collect();
    types.extend(scalars.iter().map(list));
    types.extend([list(&FieldType::Json), list(&FieldType::Struct(Arc::from(members)))]);
    types
}

fn value_of(ty: &FieldType, random: &mut Random) -> Value {
    let wide = |random: &mut Random| random.next() as i64 >> random.below(60);
    match ty {
        _ if random.one_in(7) => Value::Null,
        FieldType::Text => Value::text(format!("x{}", random_text(random, 12))),
        FieldType::Float => Value::float(wide(random) as f64 / 4.0),
        FieldType::Boolean => Value::Bool(random.one_in(2)),
        // the years 1678 to 2262, which pyarrow can show
        FieldType::Timestamp => Value::Int(wide(random) % 9_000_000_000_000_000),
        FieldType::Date => Value::Int(wide(random) % 100_000),
        FieldType::PartialDate => {
            let first = wide(random) % 100_000;
            PartialDate::between(first, first + random.below(900) as i64).map_or(Value::Null, |date| Value::Int(date.stored()))
        }
        FieldType::Integer | FieldType::Size => Value::Int(wide(random)),
        FieldType::Duration => Value::Int(wide(random) % 1_000_000_000_000),
        FieldType::Uuid => Value::Uuid(u128::from(random.next()) << 64 | u128::from(random.next())),
        FieldType::Json => from_text(random.pick::<&str>(&["1", "\"a\"", "{\"a\":[1,null]}", "[]", "true", "\"{}\""]), ty, None).expect("JSON"),
        FieldType::Geometry => from_text(random.pick::<&str>(&["POINT(1 2)", "LINESTRING(0 0, 1 1)"]), ty, None).expect("a geometry"),
        FieldType::Ranges => ranges_of((0..random.below(4)).map(|_| wide(random) % 50).map(|low| (low, low + 3)).collect()),
        FieldType::Struct(members) => struct_of(members, members.iter().map(|member| value_of(&member.ty, random)).collect::<Vec<_>>()),
        FieldType::List(element) => {
            let elements: Vec<Value> = (0..random.below(4)).map(|_| value_of(element, random)).filter(|value| !value.is_null()).collect();
            Value::List(elements)
        }
    }
}

fn columns() -> Vec<TableColumn> {
    types().into_iter().enumerate().map(|(number, ty)| TableColumn { name: format!("c{number}"), ty }).collect()
}

fn rows(count: usize, random: &mut Random) -> Vec<Vec<Value>> {
    let types = types();
    (0..count).map(|_| types.iter().map(|ty| value_of(ty, random)).collect()).collect()
}

fn written(format: TableFormat, columns: Vec<TableColumn>, rows: &[Vec<Value>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = TableWriter::new(format, columns).expect("a table");
    for row in rows {
        writer.row(row.clone(), &mut bytes).expect("a row");
    }
    writer.finish(&mut bytes).expect("a file");
    bytes
}

fn opened(bytes: Vec<u8>) -> std::io::Result<OpenedInput> {
    open_bytes(Box::new(Cursor::new(bytes)))
}

/// The rows of a table, as its lines have them.
fn lines(mut input: OpenedInput) -> std::io::Result<Vec<Json>> {
    let mut text = String::new();
    input.bytes.read_to_string(&mut text)?;
    Ok(text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect())
}

#[test]
fn what_is_written_is_read_as_the_same_values() {
    let random = &mut Random::new(11);
    // more rows than are written at a time
    let rows = rows(5_000, random);
    for format in FORMATS {
        let input = opened(written(format, columns(), &rows)).expect("a table");
        assert_eq!((input.syntax, input.is_plain()), (Some(Syntax::Json), false));
        let found = lines(input).expect("rows");
        assert_eq!(found.len(), rows.len(), "{format:?}");
        for (found, row) in found.iter().zip(&rows) {
            for (column, value) in columns().iter().zip(row) {
                let read = found.get(&column.name).map_or(Ok(Value::Null), |json| from_json(json, &column.ty, None));
                // an empty list is not the same as none, but both contribute nothing
                assert_eq!(read.as_ref(), Ok(value), "{format:?} {} {found}", column.ty);
            }
        }
    }
}

#[test]
fn a_table_without_rows_is_an_empty_file() {
    for format in FORMATS {
        let input = opened(written(format, columns(), &[])).expect("a table");
        assert_eq!((input.syntax, lines(input).expect("no rows").len()), (None, 0), "{format:?}");
    }
}

#[test]
fn compressed_tables_are_unpacked() {
    let table = written(TableFormat::Parquet, columns(), &rows(30, &mut Random::new(2)));
    let packed = zstd::bulk::compress(&table, 1).expect("zstd");
    let found = opened(packed).and_then(lines).expect("rows");
    assert_eq!(found, opened(table).and_then(lines).expect("rows"));
}

#[test]
fn texts_that_begin_like_tables_are_texts() {
    for text in ["PAR1,PAR2\n1,2\n", "PAR1\n", "ARROW1,b\n1,2\n"] {
        assert_eq!(opened(text.into()).expect("a text").syntax, Some(Syntax::Csv), "{text}");
    }
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let column = || TableColumn { name: "a".to_owned(), ty: FieldType::Integer };
    let error = opened(written(TableFormat::ArrowFile, vec![column(), column()], &[vec![Value::Int(1), Value::Int(2)]])).err();
    assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("two of its columns are called `a`; rename one of them"));
}

#[test]
fn damaged_tables_end_with_an_error_that_says_where() {
    let random = &mut Random::new(5);
    let rows = rows(400, random);
    // readers of damaged bytes may panic, which is caught
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_some_and(|place| place.file().contains("columnar")) {
            eprintln!("{panic}");
        }
    }));
    let mut places = 0;
    for format in FORMATS {
        let table = written(format, columns(), &rows);
        for round in 0..300 {
            let mut damaged = table.clone();
            if round % 3 == 0 {
                damaged.truncate(8 + random.below(table.len() - 8));
            }
            for _ in 0..1 + random.below(4) {
                let at = 8 + random.below(damaged.len().saturating_sub(8).max(1));
                if let Some(byte) = damaged.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            if let Err(error) = opened(damaged).and_then(lines) {
                let message = error.to_string();
                let is_named = message.starts_with("a damaged file of") || message.starts_with("two of its columns");
                assert!(is_named, "{format:?}: {message}");
                places += usize::from(message.contains("after row") || message.contains("row group") || message.contains("at byte"));
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(places > 100, "only {places} errors have a place");
}

#[test]
fn damaged_beginnings_are_not_read_as_something_else() {
    let random = &mut Random::new(6);
    let rows = rows(20, random);
    let folder = tempfile_folder("beginnings");
    for format in FORMATS {
        let table = written(format, columns(), &rows);
        for (byte, name) in (0..4).zip(["a.parquet", "a.arrow", "a.feather", "a.PARQUET"]) {
            let mut damaged = table.clone();
            damaged[byte] = b'x';
            let file = folder.join(name);
            std::fs::write(&file, damaged).expect("a file");
            let error = stook_formats::read::open(&file).err().expect("an error").to_string();
            assert!(error.starts_with("a damaged file of") && error.contains("by its name"), "{format:?} {name}: {error}");
        }
        // a table is one by its content, whatever it is called
        let file = folder.join("table.csv");
        std::fs::write(&file, table).expect("a file");
        assert!(stook_formats::read::open(&file).is_ok());
    }
    let empty = folder.join("empty.parquet");
    std::fs::write(&empty, "").expect("a file");
    assert!(stook_formats::read::open(&empty).is_ok_and(|opened| opened.syntax.is_none()), "it has no documents");
}

#[test]
fn packed_columns_that_claim_to_be_huge_are_refused() {
    let Some(python) = python("pyarrow") else { return };
    let folder = tempfile_folder("huge");
    reference(&python, &["write", &folder.to_string_lossy(), "3"]);
    for codec in ["lz4", "zstd"] {
        let path = folder.join(format!("{codec}.stream"));
        let mut bytes = std::fs::read(&path).expect("a file");
        // the length of an unpacked column stands before its bytes; the magic number of the codec follows
        let magic: &[u8] = if codec == "lz4" { &[0x04, 0x22, 0x4d, 0x18] } else { &[0x28, 0xb5, 0x2f, 0xfd] };
        let at = bytes.windows(4).position(|window| window == magic).expect("a packed column");
        bytes[at - 8..at].copy_from_slice(&(1_i64 << 45).to_le_bytes());
        let error = opened(bytes).and_then(lines).expect_err("it is refused");
        assert!(error.to_string().contains("would need 33554"), "{error}");
    }
}

fn tempfile_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn reference(python: &Path, arguments: &[&str]) -> Vec<Json> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/arrow_tables.py");
    let output = Command::new(python).arg(script).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1").output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn tables_of_pyarrow_are_read_as_pyarrow_means_them() {
    let Some(python) = python("pyarrow") else { return };
    for seed in ["1", "2"] {
        let folder = tempfile_folder(&format!("tables-{seed}"));
        let expected = reference(&python, &["write", &folder.to_string_lossy(), seed]);
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("a file").path();
            let found = open(&path).and_then(lines).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(found.len(), expected.len(), "{}", path.display());
            for (number, (mut found, expected)) in found.into_iter().zip(&expected).enumerate() {
                // a float that is not finite is null
                if let Some(members) = found.as_object_mut() {
                    members.retain(|_, value| !value.is_null());
                }
                assert_eq!(found, *expected, "row {number} of {}", path.display());
            }
            files += 1;
        }
        assert_eq!(files, 12);
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}

/// A value as the script prints what pyarrow has read.
fn as_pyarrow_has_it(value: &Value, ty: &FieldType) -> Json {
    match (value, ty) {
        (Value::Null, _) => Json::Null,
        (Value::Int(number), FieldType::Duration) => json!(number),
        (Value::Json(json), FieldType::Json) => json!(json.to_string()),
        (Value::Geometry(_), _) => json!(value.show(ty)),
        (Value::Json(json), FieldType::Struct(members)) => {
            let member =
                |member: &StructMember| (member.name.clone(), as_pyarrow_has_it(&stook_catalogue::value::member_of(json, member), &member.ty));
            Json::Object(members.iter().map(member).collect())
        }
        (Value::List(items), FieldType::List(element)) => items.iter().map(|item| as_pyarrow_has_it(item, element)).collect(),
        (value, ty) => value.to_json(ty),
    }
}

#[test]
fn pyarrow_reads_what_is_written_with_its_types() {
    let Some(python) = python("pyarrow") else { return };
    let folder = tempfile_folder("written");
    let rows = rows(3_000, &mut Random::new(7));
    for (format, name) in [(TableFormat::Parquet, "a.parquet"), (TableFormat::ArrowFile, "a.arrow")] {
        let path = folder.join(name);
        std::fs::write(&path, written(format, columns(), &rows)).expect("a file");
        let mut found = reference(&python, &["read", &path.to_string_lossy()]);
        let kinds = found.remove(0);
        let scalars = ["string", "int64", "int64", "double", "bool", "timestamp[us, tz=UTC]", "date32[day]", "string", "duration[us]", "string"];
        assert_eq!(kinds.as_array().map(|kinds| kinds[..scalars.len()].to_vec()), json!(scalars).as_array().cloned());
        assert_eq!(found.len(), rows.len());
        for (found, row) in found.iter().zip(&rows) {
            let expected: Json = row.iter().zip(types()).map(|(value, ty)| as_pyarrow_has_it(value, &ty)).collect();
            assert_eq!(*found, expected, "{name}");
        }
    }
    std::fs::remove_dir_all(folder).expect("it is there");
}
