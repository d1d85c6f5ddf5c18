//! Likenesses of real tables: columns of known types, and what each cell means.

use serde_json::{Value as Json, json};
use stook_tests::Dice;

/// What a cell means.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Absent,
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Date(i64, i64, i64),
    /// A date, hours, minutes and seconds.
    Time(i64, i64, i64, [i64; 3]),
    List(Vec<String>),
}

impl Cell {
    /// The cell as an export shows it.
    pub fn expected(&self) -> Json {
        match self {
            Cell::Absent => Json::Null,
            Cell::Text(text) => json!(text),
            Cell::Integer(number) => json!(number),
            Cell::Float(number) => json!(number),
            Cell::Boolean(value) => json!(value),
            Cell::Date(year, month, day) => json!(format!("{year:04}-{month:02}-{day:02}")),
            Cell::Time(year, month, day, [hour, minute, second]) => {
                json!(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
            }
            Cell::List(items) => json!(items),
        }
    }
}

/// What a column has.
#[derive(Debug, Clone, Copy)]
pub enum Has {
    /// Whole numbers from this one on.
    Sequence(i64),
    /// A text with a number: `EMP-00012`.
    Numbered(&'static str),
    /// Letters, all different: IATA codes.
    Letters(u64),
    /// A name of a person.
    Person,
    /// A phrase of several words.
    Phrase,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// These four in turn, as four sensors report.
    Turn(&'static [&'static str; 4]),
    /// A time that four rows have, each later than the one before.
    Step,
    Whole(i64, i64),
    Decimal(i64, i64, u32),
    Flag,
    Day,
    /// The first days of months, one after the other.
    Month,
    Moment,
    /// Several of these.
    Several(&'static [&'static str]),
    Phone,
    /// Digits with leading zeros.
    Postcode,
    Isbn,
    Uuid,
    Mail,
    Address,
    /// Codes that look like numbers with an exponent: `1E5`.
    Exponent,
    /// `1.10`.
    Version,
    /// Mostly numbers, but not all.
    Mixed,
    Year,
}

impl Has {
    /// The type that a definition should give the column.
    pub fn ty(self) -> &'static str {
        match self {
            Has::Sequence(_) | Has::Whole(..) | Has::Year => "integer",
            Has::Decimal(..) => "float",
            Has::Flag => "boolean",
            Has::Day | Has::Month => "date",
            Has::Moment | Has::Step => "timestamp",
            Has::Several(_) => "[text]",
            Has::Uuid => "uuid",
            _ => "text",
        }
    }

    fn cell(self, row: usize, random: &mut Dice) -> Cell {
        let mut below = |limit: i64| random.below(limit as u64) as i64;
        match self {
            Has::Sequence(first) => Cell::Integer(first + row as i64),
            Has::Numbered(prefix) => Cell::Text(format!("{prefix}{:05}", row * 7 + 12)),
            Has::Letters(length) => {
                let letter = |at: u64| char::from(b'A' + ((row as u64 * 7 + 11) / 26_u64.pow(at as u32) % 26) as u8);
                Cell::Text((0..length).map(letter).collect())
            }
            Has::Person => Cell::Text(format!("{} {}", FIRST[below(12) as usize], LAST[below(14) as usize])),
            Has::Phrase => {
                let words: Vec<&str> = (0..2 + below(4)).map(|_| WORDS[below(20) as usize]).collect();
                Cell::Text(words.join(" "))
            }
            Has::OneOf(choices) => Cell::Text(choices[below(choices.len() as i64) as usize].to_owned()),
            Has::Turn(choices) => Cell::Text(choices[row % 4].to_owned()),
            Has::Step => Cell::Time(2024, 5, 1 + (row / 96) as i64, [(row / 4 % 24) as i64, 0, 0]),
            Has::Whole(low, high) => Cell::Integer(low + below(high - low)),
            Has::Decimal(low, high, places) => {
                let scale = 10_i64.pow(places);
                Cell::Float((low * scale + below((high - low) * scale)) as f64 / scale as f64)
            }
            Has::Flag => Cell::Boolean(if row < 2 { row == 0 } else { below(3) == 0 }),
            Has::Month => Cell::Date(1990 + (row / 12) as i64, 1 + (row % 12) as i64, 1),
            // a day after the twelfth is in every column of more than a few rows
            Has::Day => Cell::Date(1990 + below(35), 1 + below(12), if row == 1 { 28 } else { 1 + below(28) }),
            Has::Moment => Cell::Time(2015 + below(10), 1 + below(12), if row == 1 { 27 } else { 1 + below(28) }, [below(24), below(60), below(60)]),
            Has::Several(choices) => {
                let mut items: Vec<String> = (0..1 + below(3)).map(|_| choices[below(choices.len() as i64) as usize].to_owned()).collect();
                items.sort();
                items.dedup();
                Cell::List(items)
            }
            Has::Phone => Cell::Text(format!("+49 {} {}", 30 + below(900), 100_000 + below(899_999))),
            Has::Postcode => Cell::Text(format!("{:05}", if row == 0 { 1_067 } else { 1_000 + below(98_000) })),
            Has::Isbn => Cell::Text(format!("978{:010}", 316_148_000 + row * 97)),
            Has::Uuid => Cell::Text(format!("6f9619ff-8b86-d011-b42d-{:012x}", row * 7_919 + 1)),
            Has::Mail => Cell::Text(format!("user{row}@example.org")),
            Has::Address => Cell::Text(format!("https://example.org/{}/{row}", WORDS[below(20) as usize])),
            Has::Exponent => Cell::Text(format!("{}E{}", 1 + below(9), 1 + below(9))),
            Has::Version => Cell::Text(format!("{}.{}", 1 + below(3), below(4) * 10)),
            Has::Mixed => Cell::Text(if row % 9 == 4 { "ninety".to_owned() } else { below(500).to_string() }),
            Has::Year => Cell::Integer(1950 + below(75)),
        }
    }
}

const FIRST: [&str; 12] = ["Ann", "Bo", "Chloé", "Dirk", "Eva", "Farid", "Grace", "Hana", "Igor", "Jörg", "Kim", "Lena"];
const LAST: [&str; 14] =
    ["Berg", "Costa", "Dvořák", "Eklund", "Fischer", "García", "Hansen", "Ito", "Jones", "Kowalski", "Li", "Müller", "Novak", "O'Neil"];
const WORDS: [&str; 20] = [
    "river", "north", "stone", "market", "garden", "old", "bridge", "island", "winter", "field", "harbour", "mill", "green", "hill", "station",
    "upper", "church", "forest", "lake", "castle",
];

/// A column of a likeness.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub has: Has,
    /// How many of a hundred cells are absent.
    pub absent: u64,
}

/// A column without absent cells.
pub const fn column(name: &'static str, has: Has) -> Column {
    Column { name, has, absent: 0 }
}

/// A column with absent cells.
pub const fn sparse(name: &'static str, has: Has) -> Column {
    Column { name, has, absent: 15 }
}

/// The rows of columns; the first two have all cells.
pub fn rows(columns: &[Column], count: usize, seed: u64) -> Vec<Vec<Cell>> {
    let mut random = Dice::new(seed);
    let cell = |column: &Column, row: usize, random: &mut Dice| {
        let cell = column.has.cell(row, random);
        if row > 1 && random.below(100) < column.absent { Cell::Absent } else { cell }
    };
    (0..count).map(|row| columns.iter().map(|column| cell(column, row, &mut random)).collect()).collect()
}
