//! Tables as they really come: CSV in any encoding, with and without a header, with lines before it and any delimiter; and sheets of spreadsheets.

use crate::support;

use rust_xlsxwriter::{ExcelDateTime, Format, Workbook};
use std::io::{Cursor, Read, Write};
use stook_catalogue::definition::{CsvEncoding, CsvOptions, DocumentOptions, MergedCells};
use stook_catalogue::path::{Path, PathLanguage};
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_formats::TableColumn;
use stook_formats::marc::{ReadOptions, Repairs};
use stook_formats::read::{OpenedInput, open_bytes};
use stook_formats::scan::ScanOptions;
use stook_formats::spreadsheet::{MAX_CELL_TEXT, SheetWriter};
use stook_formats::{Document, SelectedValue, Syntax, select};
use support::{Random, collect, read_in_chunks_cut_in_front_with, read_in_chunks_with};

fn open(bytes: Vec<u8>) -> std::io::Result<OpenedInput> {
    open_bytes(Box::new(Cursor::new(bytes)))
}

fn options(csv: &CsvOptions) -> ScanOptions<'_> {
    ScanOptions { records: None, tolerance: ReadOptions::REPAIR.tolerance, csv }
}

/// The values of these columns in each document, or why it is none.
type Rows = Vec<Result<Vec<Option<String>>, String>>;

fn rows(documents: Vec<support::Document>, csv: &CsvOptions, columns: &[String]) -> Rows {
    let reading = DocumentOptions { csv: csv.clone(), ..DocumentOptions::DEFAULT };
    let paths: Vec<Path> = columns.iter().map(|name| Path::compile(name, PathLanguage::Csv, &[]).expect("a column")).collect();
    let row = |(found, bytes): support::Document| {
        if let Some(problem) = found.problem {
            return Err(problem);
        }
        let complete = found.head.complete(&bytes);
        let document = Document::read(&complete, Syntax::Csv, &found.head, &reading, &mut Repairs::default()).map_err(|error| error.to_string())?;
        let value = |path: &Path| {
            let mut values = Vec::new();
            select(&document, path, &mut values);
            values.into_iter().next().map(|value| if let SelectedValue::Text(text, _) = value { text.into_owned() } else { panic!("no text") })
        };
        Ok(paths.iter().map(value).collect())
    };
    documents.into_iter().map(row).collect()
}

/// The rows of an opened file, read at once, in small reads and in chunks.
fn read(mut opened: OpenedInput, csv: &CsvOptions, columns: &[String]) -> Rows {
    opened.choose_sheet(csv).expect("the sheet");
    let mut bytes = Vec::new();
    opened.bytes.read_to_end(&mut bytes).expect("the file");
    let whole = rows(collect(stook_formats::read::DocumentReader::new(&bytes[..], Syntax::Csv, options(csv))), csv, columns);
    let show = || String::from_utf8_lossy(&bytes).into_owned();
    for cut in 1..4 {
        let cut_at = |number: u64| number.is_multiple_of(cut);
        assert_eq!(rows(read_in_chunks_with(&bytes, Syntax::Csv, options(csv), cut_at), csv, columns), whole, "{csv:?} {}", show());
        assert_eq!(rows(read_in_chunks_cut_in_front_with(&bytes, Syntax::Csv, options(csv), cut_at), csv, columns), whole, "{csv:?} {}", show());
    }
    whole
}

fn quoted(value: &str, delimiter: u8, random: &mut Random) -> String {
    let needs = value.bytes().any(|byte| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r'));
    if needs || random.below(4) == 0 { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.to_owned() }
}

fn encode(text: &str, encoding: &str) -> Vec<u8> {
    match encoding {
        "utf-8" => text.as_bytes().to_vec(),
        "utf-8 with a mark" => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        "utf-16le" => [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect(),
        "utf-16be" => [0xfe, 0xff].into_iter().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect(),
        "latin-1" => text.chars().map(|character| u8::try_from(u32::from(character)).expect("a character of Latin-1")).collect(),
        "cp1252" => {
            text.chars().map(|character| if character == '€' { 0x80 } else { u8::try_from(u32::from(character)).expect("of cp1252") }).collect()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_table_has_the_same_values_in_every_form() {
    let mut random = Random::new(11);
    for round in 0..600 {
        let encoding = *random.pick(&["utf-8", "utf-8 with a mark", "utf-16le", "utf-16be", "latin-1", "cp1252"]);
        let delimiter = *random.pick(b",;\t|^:");
        let (names_given, mut skip) = (random.below(2) == 0, random.below(3) as u32);
        let null: Vec<String> = [r"\N", "NA"].iter().take(random.below(3)).map(|text| (*text).to_owned()).collect();
        let columns: Vec<String> = (0..2 + random.below(4)).map(|index| format!("{}{index}", random.pick(&["n", "größe", "a b"]))).collect();
        let pieces: &[&str] = match encoding {
            "latin-1" => &["", "x", "é", "ÿ", "a b", "1,5", "a;b", "\"q\"", "x\ny", r"\N", "NA", "#"],
            "cp1252" => &["", "x", "é", "€", "a b", "1,5", "a;b", "\"q\"", "x\r\ny", r"\N", "NA", "sep=;"],
            _ => &["", "x", "é", "Żółć", "a b", "1,5", "a;b", "\"q\"", "x\ny", r"\N", "NA", "中"],
        };
        let table: Vec<Vec<String>> = (0..random.below(9))
            .map(|number| {
                columns
                    .iter()
                    .enumerate()
                    .map(|(index, _)| if index == 0 { format!("r{number}") } else { (*random.pick(pieces)).to_owned() })
                    .collect()
            })
            .collect();
        let end = *random.pick(&["\n", "\r\n"]);
        let mut text = String::new();
        for _ in 0..skip {
            text.push_str(random.pick::<&str>(&["# made by hand", "", "\"an open quote", "a,b;c"]));
            text.push_str(end);
        }
        // a file of white space alone has no beginning to skip
        if text.trim().is_empty() {
            (text, skip) = (String::new(), 0);
        }
        let separator_line = random.below(5) == 0;
        if separator_line {
            text.push_str(&format!("sep={}{end}", char::from(delimiter)));
        }
        let is_known = separator_line || b",;\t|".contains(&delimiter);
        let mut row = |values: &[String], random: &mut Random| {
            let values: Vec<String> = values.iter().map(|value| quoted(value, delimiter, random)).collect();
            text.push_str(&values.join(&char::from(delimiter).to_string()));
            text.push_str(end);
        };
        if !names_given {
            row(&columns, &mut random);
        }
        table.iter().for_each(|values| row(values, &mut random));
        let csv = CsvOptions {
            header: if names_given { columns.clone() } else { Vec::new() },
            skip,
            null: null.clone(),
            encoding: match encoding {
                "latin-1" => CsvEncoding::Latin1,
                "cp1252" => CsvEncoding::Cp1252,
                // a mark wins over what the definition says
                "utf-8" => CsvEncoding::Utf8,
                _ => *random.pick(&[CsvEncoding::Utf8, CsvEncoding::Cp1252]),
            },
            // values of the first row may look like other delimiters
            delimiter: (!is_known || names_given && !separator_line || random.below(2) == 0).then_some(delimiter),
            ..CsvOptions::DEFAULT
        };
        let value = |value: &String| Some(value.clone()).filter(|value| !value.is_empty() && !null.contains(value));
        let expected: Rows = table.iter().map(|values| Ok(values.iter().map(value).collect())).collect();
        let opened = open(encode(&text, encoding)).expect("a file");
        assert_eq!(read(opened, &csv, &columns), expected, "round {round}: {csv:?} {encoding} {text:?}");
    }
}

#[test]
fn rows_in_another_encoding_fail_and_name_the_option() {
    let csv = CsvOptions::DEFAULT;
    let found = read(open(b"id,name\n1,\xfc\n2,x\n".to_vec()).expect("a file"), &csv, &["id".into()]);
    assert!(matches!(&found[0], Err(reason) if reason.contains("value 2 is not UTF-8") && reason.contains("encoding: cp1252")), "{found:?}");
    assert_eq!(found[1], Ok(vec![Some("2".to_owned())]));
}

/// A cell as it is written, and the text that it is read as.
enum Cell {
    Nothing,
    Text(String),
    Number(f64, String),
    Boolean(bool),
    Date(ExcelDateTime, &'static str, String),
}

fn cell(random: &mut Random) -> (Cell, Option<String>) {
    let cell = match random.below(7) {
        0 => Cell::Nothing,
        1 | 2 => Cell::Text((*random.pick::<&str>(&["x", " lead", "a,b", "say \"x\"", "two\nlines", "Żółć", "<&>", "0012", "中 文"])).to_owned()),
        3 => {
            let whole = random.below(2_000_000) as f64 - 1e6;
            Cell::Number(whole, format!("{whole:.0}"))
        }
        4 => {
            let number = (random.below(2_000_000) as f64 - 1e6) / 1024.0;
            Cell::Number(number, if number.fract() == 0.0 { format!("{number:.0}") } else { number.to_string() })
        }
        5 => Cell::Boolean(random.below(2) == 0),
        _ => {
            let (year, month, day) = (1901 + random.below(200) as u16, 1 + random.below(12) as u8, 1 + random.below(28) as u8);
            let date = ExcelDateTime::from_ymd(year, month, day).expect("a date");
            let text = format!("{year:04}-{month:02}-{day:02}");
            if random.below(2) == 0 {
                Cell::Date(date, "yyyy-mm-dd", text)
            } else {
                let (hour, minute, second) = (random.below(24) as u16, random.below(60) as u8, 1 + random.below(59) as u8);
                let time = date.and_hms(hour, minute, second).expect("a time");
                Cell::Date(time, "dd.mm.yyyy hh:mm:ss", format!("{text}T{hour:02}:{minute:02}:{second:02}"))
            }
        }
    };
    let text = match &cell {
        Cell::Nothing => None,
        Cell::Text(text) | Cell::Number(_, text) | Cell::Date(_, _, text) => Some(text.clone()),
        Cell::Boolean(value) => Some(value.to_string()),
    };
    (cell, text)
}

/// A workbook with a sheet of notes and one with the table, and the rows that are read of the table.
fn workbook(random: &mut Random, skip: u32) -> (Vec<u8>, Vec<String>, Rows) {
    let columns: Vec<String> = (0..2 + random.below(5)).map(|index| format!("column {index}")).collect();
    let mut workbook = Workbook::new();
    workbook.add_worksheet().set_name("Notes").expect("a name").write(0, 0, "nothing").expect("a cell");
    let sheet = workbook.add_worksheet().set_name("Table & more").expect("a name");
    for row in 0..skip {
        sheet.write(row, 3, "a report\nof two lines").expect("a cell");
    }
    for (index, name) in columns.iter().enumerate() {
        sheet.write(skip, index as u16, name).expect("a cell");
    }
    let (mut expected, mut row) = (Vec::new(), skip + 1);
    for number in 0..random.below(20) {
        row += u32::from(random.below(6) == 0);
        sheet.write(row, 0, format!("r{number}")).expect("a cell");
        let mut values = vec![Some(format!("r{number}"))];
        for index in 1..columns.len() as u16 {
            let (cell, text) = cell(random);
            match &cell {
                Cell::Nothing => {}
                Cell::Text(text) => {
                    sheet.write(row, index, text).expect("a cell");
                }
                Cell::Number(number, _) => {
                    sheet.write(row, index, *number).expect("a cell");
                }
                Cell::Boolean(value) => {
                    sheet.write(row, index, *value).expect("a cell");
                }
                Cell::Date(date, format, _) => {
                    sheet.write_datetime_with_format(row, index, date, &Format::new().set_num_format(*format)).expect("a cell");
                }
            }
            values.push(text);
        }
        expected.push(Ok(values));
        row += 1;
    }
    (workbook.save_to_buffer().expect("a workbook"), columns, expected)
}

#[test]
fn a_sheet_is_the_table_that_was_written() {
    let mut random = Random::new(5);
    for _ in 0..150 {
        let skip = random.below(3) as u32;
        let (bytes, columns, expected) = workbook(&mut random, skip);
        let csv = CsvOptions { sheet: Some("Table & more".into()), skip, ..CsvOptions::DEFAULT };
        let opened = open(bytes).expect("a workbook");
        assert!(!opened.is_plain() && opened.syntax == Some(Syntax::Csv));
        assert_eq!(read(opened, &csv, &columns), expected);
    }
}

#[test]
fn a_sheet_that_is_not_there_is_an_error_that_names_the_others() {
    let (bytes, ..) = workbook(&mut Random::new(1), 0);
    let error = open(bytes).expect("a workbook").choose_sheet(&CsvOptions { sheet: Some("table".into()), ..CsvOptions::DEFAULT });
    let error = error.expect_err("no such sheet").to_string();
    assert_eq!(error, "no sheet `table`; the spreadsheet has Notes, Table & more");
}

#[test]
fn archives_and_old_spreadsheets_are_refused_with_what_to_do() {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("a.csv", zip::write::SimpleFileOptions::default()).expect("a file");
    archive.write_all(b"id\n1\n").expect("a file");
    let reason = |bytes: Vec<u8>| open(bytes).err().expect("an error").to_string();
    assert!(reason(archive.finish().expect("an archive").into_inner()).contains("no XLSX or ODS spreadsheet; unpack it"));
    assert!(reason(b"PK\x03\x04 and nothing more".to_vec()).contains("a damaged ZIP archive"));
    assert!(reason([&[0xd0, 0xcf, 0x11, 0xe0][..], &[0; 500]].concat()).contains("save it as XLSX"));
}

#[test]
fn a_cell_at_the_end_of_a_sheet_does_not_fill_the_memory() {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet();
    sheet.write(0, 0, "id").expect("a cell");
    sheet.write(1_048_575, 16_383, "far").expect("a cell");
    let csv = CsvOptions::DEFAULT;
    let found = read(open(workbook.save_to_buffer().expect("a workbook")).expect("a workbook"), &csv, &["id".into()]);
    assert_eq!(found, [Ok(vec![None])]);
}

/// An ODS file with this content.
fn ods(content: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("content.xml", zip::write::SimpleFileOptions::default()).expect("a file");
    archive.write_all(content.as_bytes()).expect("a file");
    archive.finish().expect("an archive").into_inner()
}

const ODS_TABLE: &str = r#"<?xml version="1.0" encoding="UTF-8"?><office:document-content><office:body><office:spreadsheet>
<table:table table:name="First"><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell></table:table-row></table:table>
<table:table table:name="T">
<table:table-row><table:table-cell office:value-type="string"><text:p>id</text:p></table:table-cell><table:table-cell><text:p>a &amp; b</text:p></table:table-cell>
 <table:table-cell table:number-columns-repeated="2"><text:p>n</text:p></table:table-cell><table:table-cell table:number-columns-repeated="16380"/></table:table-row>
<table:table-row table:number-rows-repeated="2"><table:table-cell office:value-type="float" office:value="1.50"><text:p>1,5 kg</text:p></table:table-cell>
 <table:table-cell><text:p>one<text:s text:c="2"/>two</text:p><text:p>three<text:line-break/>&#228;</text:p><office:annotation><text:p>a note</text:p></office:annotation></table:table-cell>
 <table:covered-table-cell/><table:table-cell office:date-value="2024-02-29T10:00:00"><text:p>29.2.</text:p></table:table-cell></table:table-row>
<table:table-row table:number-rows-repeated="1048570"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>
</table:table></office:spreadsheet></office:body></office:document-content>"#;

#[test]
fn an_ods_sheet_has_the_values_and_not_what_is_shown() {
    let csv = CsvOptions { sheet: Some("T".into()), ..CsvOptions::DEFAULT };
    let columns: Vec<String> = ["id", "a & b", "n"].map(str::to_owned).into();
    let row = || Ok(vec![Some("1.50".to_owned()), Some("one  two\nthree\nä".to_owned()), None]);
    assert_eq!(read(open(ods(ODS_TABLE)).expect("a workbook"), &csv, &columns), [row(), row()]);
}

#[test]
fn damaged_spreadsheets_are_errors_or_tables() {
    let mut random = Random::new(3);
    let (xlsx, ..) = workbook(&mut random, 1);
    let sound = [xlsx, ods(ODS_TABLE)];
    for round in 0..1_500 {
        let mut bytes = random.pick(&sound).clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at.max(4)),
                _ => drop(bytes.remove(at)),
            }
        }
        // damaged text inside a sound archive
        if round % 3 == 0 {
            let mut content = ODS_TABLE.to_owned().into_bytes();
            for _ in 0..1 + random.below(5) {
                let at = random.below(content.len());
                content[at] = *random.pick(b"<>/\"'& a0");
            }
            bytes = ods(&String::from_utf8_lossy(&content));
        }
        if let Ok(mut opened) = open(bytes) {
            drop(opened.choose_sheet(&CsvOptions { sheet: Some("T".into()), ..CsvOptions::DEFAULT }));
            drop(opened.bytes.read_to_end(&mut Vec::new()));
        }
    }
}

#[test]
fn repeated_cells_are_limited() {
    let repeat = |rows: u32, columns: u32| {
        let cell = format!("<table:table-cell table:number-columns-repeated=\"{columns}\"><text:p>x</text:p></table:table-cell>");
        let content = format!(
            "<a><table:table table:name=\"T\"><table:table-row table:number-rows-repeated=\"{rows}\">{cell}</table:table-row></table:table></a>"
        );
        open(ods(&content)).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(repeat(10, 10), Ok(()));
    assert!(repeat(1, 4_000_000_000).is_err_and(|reason| reason.contains("there is a cell in row 1, column 16385")));
    assert!(repeat(4_000_000_000, 10_000).is_err_and(|reason| reason.contains("MiB as text")));
}

/// A value of each type that a row of a result can have, at its limits, too.
fn value_of(ty: &FieldType, random: &mut Random) -> Value {
    const TEXTS: [&str; 9] = ["=1+1", "007", "1E5", "_x0041_", "a\nb", "  two  blanks ", "\u{1F600}", "tab\there", "<&>\"'"];
    let number = |random: &mut Random| random.next() as i64 >> random.below(60);
    match ty {
        _ if random.below(8) == 0 => Value::Null,
        FieldType::Integer | FieldType::Size => Value::Int(number(random)),
        FieldType::Float => Value::float(f64::from_bits(random.next())),
        FieldType::Boolean => Value::Bool(random.below(2) == 0),
        FieldType::Date => Value::Int(random.below(3_300_000) as i64 - 719_162),
        FieldType::Timestamp => {
            let unit = [1, 1_000, 1_000_000, 86_400_000_000][random.below(4)];
            Value::Int((random.next() as i64).rem_euclid(250_000_000_000_000_000) / unit * unit - 60_000_000_000_000_000)
        }
        _ => Value::text(*random.pick(&TEXTS)),
    }
}

#[test]
fn a_spreadsheet_that_was_written_is_read_with_the_same_values() {
    let types = [FieldType::Text, FieldType::Integer, FieldType::Size, FieldType::Float, FieldType::Boolean, FieldType::Date, FieldType::Timestamp];
    let columns: Vec<TableColumn> = types.iter().map(|ty| TableColumn { name: ty.to_string(), ty: ty.clone() }).collect();
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut random = Random::new(7);
    for _ in 0..20 {
        // the first column makes each row one
        let rows: Vec<Vec<Value>> = (0..50)
            .map(|number| {
                let first = Value::text(&*format!("row {number}"));
                std::iter::once(first).chain(types[1..].iter().map(|ty| value_of(ty, &mut random))).collect()
            })
            .collect();
        let mut sheet = SheetWriter::new("rows: [all]", columns.clone()).expect("a sheet");
        rows.iter().for_each(|row| sheet.row(row, &mut |column| panic!("{column} is cut")).expect("a row"));
        let mut bytes = Vec::new();
        sheet.finish(&mut bytes).expect("a workbook");
        let found = read(open(bytes).expect("a spreadsheet"), &CsvOptions::DEFAULT, &names);
        let values = |row: Vec<Option<String>>| {
            let value = |(text, ty): (Option<String>, &FieldType)| match text.filter(|text| !text.is_empty()) {
                None => Value::Null,
                Some(text) => from_text(&text, ty, None).unwrap_or_else(|error| panic!("{text}: {error}")),
            };
            row.into_iter().zip(&types).map(value).collect::<Vec<_>>()
        };
        let found: Vec<Vec<Value>> = found.into_iter().map(|row| values(row.expect("a row"))).collect();
        assert_eq!(found, rows);
    }
}

#[test]
fn texts_of_a_spreadsheet_stay_texts_and_those_that_are_too_long_are_named() {
    let columns = vec![TableColumn { name: "a".to_owned(), ty: FieldType::Text }, TableColumn { name: "b".to_owned(), ty: FieldType::Text }];
    let mut sheet = SheetWriter::new("", columns).expect("a sheet");
    let mut random = Random::new(3);
    let texts: Vec<Value> = (0..200).map(|_| value_of(&FieldType::Text, &mut random)).collect();
    for text in &texts {
        sheet.row(&[Value::text("x"), text.clone()], &mut |column| panic!("{column} is cut")).expect("a row");
    }
    let mut cut = Vec::new();
    // of two UTF-16 code units each
    let long = "\u{1F600}".repeat(MAX_CELL_TEXT / 2 + 1);
    sheet.row(&[Value::text("x"), Value::text(&*long)], &mut |column| cut.push(column.to_owned())).expect("a row");
    sheet.row(&[Value::text("x"), Value::text(&*"x".repeat(MAX_CELL_TEXT))], &mut |column| cut.push(column.to_owned())).expect("a row");
    assert_eq!(cut, ["b"]);
    let mut bytes = Vec::new();
    sheet.finish(&mut bytes).expect("a workbook");
    let found = read(open(bytes).expect("a spreadsheet"), &CsvOptions::DEFAULT, &["b".to_owned()]);
    let found: Vec<String> = found.into_iter().map(|row| row.expect("a row").remove(0).unwrap_or_default()).collect();
    let expected: Vec<&str> = texts.iter().map(|text| text.as_text().unwrap_or_default()).collect();
    assert_eq!(found[..texts.len()], expected);
    assert_eq!((found[200].chars().count(), found[201].len()), (MAX_CELL_TEXT / 2, MAX_CELL_TEXT));
}

/// A block of a sheet's cells that are merged.
#[derive(Debug, Clone, Copy)]
struct Block {
    row: u32,
    column: u32,
    rows: u32,
    columns: u32,
}

impl Block {
    fn has(&self, row: u32, column: u32) -> bool {
        (self.row..self.row + self.rows).contains(&row) && (self.column..self.column + self.columns).contains(&column)
    }
}

/// A sheet with merged blocks.
struct SheetOfBlocks {
    /// It as XLSX and as ODS.
    books: [Vec<u8>; 2],
    blocks: Vec<Block>,
    /// The values of its cells, if each cell of a block has the block's value.
    cells: Vec<Vec<Option<String>>>,
}

/// A sheet of 12 rows and 5 columns with merged blocks that do not overlap.
fn sheet_of_blocks(random: &mut Random) -> SheetOfBlocks {
    let mut blocks: Vec<Block> = Vec::new();
    for _ in 0..random.below(7) {
        let (row, column) = (random.below(11) as u32, random.below(5) as u32);
        let block = Block { row, column, rows: 1 + random.below(12 - row as usize) as u32, columns: 1 + random.below(5 - column as usize) as u32 };
        let is_free = (0..12).all(|row| (0..5).all(|column| !block.has(row, column) || blocks.iter().all(|other| !other.has(row, column))));
        if is_free && block.rows * block.columns > 1 {
            blocks.push(block);
        }
    }
    let mut book = Workbook::new();
    let sheet = book.add_worksheet();
    let mut content = "<a><table:table table:name=\"T\">".to_owned();
    let mut cells = Vec::new();
    for row in 0..12 {
        content += "<table:table-row>";
        let mut values = Vec::new();
        for column in 0..5 {
            let block = blocks.iter().find(|block| block.has(row, column));
            let first = block.map_or((row, column), |block| (block.row, block.column));
            // some cells are empty, also merged ones; every row has a value in its last column, which shows that it is there
            let is_empty = (first.0 * 7 + first.1 * 3) % 4 == 0 && first.1 < 4;
            let text = (!is_empty).then(|| format!("{}.{}", first.0, first.1));
            if first == (row, column) {
                let shown = text.as_deref().unwrap_or_default();
                match block {
                    Some(Block { rows, columns, .. }) => {
                        let last = (row + rows - 1, (column + columns - 1) as u16);
                        sheet.merge_range(row, column as u16, last.0, last.1, shown, &Format::new()).expect("merged cells");
                        content += &format!("<table:table-cell table:number-rows-spanned=\"{rows}\" table:number-columns-spanned=\"{columns}\">");
                    }
                    None => {
                        sheet.write(row, column as u16, shown).expect("a cell");
                        content += "<table:table-cell>";
                    }
                }
                content += &format!("<text:p>{shown}</text:p></table:table-cell>");
            } else {
                content += "<table:covered-table-cell/>";
            }
            values.push(text);
        }
        content += "</table:table-row>";
        cells.push(values);
    }
    content += "</table:table></a>";
    SheetOfBlocks { books: [book.save_to_buffer().expect("a workbook"), ods(&content)], blocks, cells }
}

#[test]
fn merged_cells_have_their_value_in_the_first_or_in_every_one() {
    let mut random = Random::new(11);
    let columns: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
    for _ in 0..150 {
        let SheetOfBlocks { books, blocks, cells } = sheet_of_blocks(&mut random);
        // rows before the first one are not read, but what begins there goes on
        let skip = random.below(3) as u32;
        for (bytes, merged) in books.iter().flat_map(|bytes| [(bytes, MergedCells::Every), (bytes, MergedCells::First)]) {
            let csv = CsvOptions { header: columns.clone(), skip, short_rows: true, merged, ..CsvOptions::DEFAULT };
            let is_shown = |row: u32, column: u32| {
                let block = blocks.iter().find(|block| block.has(row, column));
                merged == MergedCells::Every || block.is_none_or(|block| (block.row, block.column) == (row, column))
            };
            let row_of = |row: u32| (0..5).map(|column| cells[row as usize][column as usize].clone().filter(|_| is_shown(row, column))).collect();
            let expected: Rows = (skip..12).map(row_of).filter(|row: &Vec<Option<String>>| row.iter().any(Option::is_some)).map(Ok).collect();
            assert_eq!(read(open(bytes.clone()).expect("a workbook"), &csv, &columns), expected, "{blocks:?} {merged:?}");
        }
    }
}

#[test]
fn merged_cells_are_limited() {
    let spanned = |rows: u64, columns: u64, merged: MergedCells| {
        let cell = format!(
            "<table:table-cell table:number-rows-spanned=\"{rows}\" table:number-columns-spanned=\"{columns}\"><text:p>x</text:p></table:table-cell>"
        );
        let content = format!("<a><table:table table:name=\"T\"><table:table-row>{cell}</table:table-row></table:table></a>");
        let csv = CsvOptions { merged, ..CsvOptions::DEFAULT };
        open(ods(&content)).expect("a workbook").choose_sheet(&csv).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(spanned(10, 10, MergedCells::Every), Ok(()));
    assert_eq!(spanned(4_000_000_000, 4_000_000_000, MergedCells::First), Ok(()));
    assert!(spanned(4_000_000_000, 4_000_000_000, MergedCells::Every).is_err_and(|reason| reason.contains("`merged: every`")));
}
