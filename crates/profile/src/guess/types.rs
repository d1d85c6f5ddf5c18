//! The type of a column, and how its values are read as that type, so that nothing of them is lost.

use super::names::{has_word, is_plural, words_of_path};
use crate::column::{ColumnProfile, NativeCounts};
use crate::kind::{BooleanWords, Kind};
use crate::number::{Grouping, NumberForm};
use crate::table::TableProfile;
use stook_catalogue::definition::FormatFamily;
use stook_catalogue::value::FieldType;

/// How a text becomes a value of the column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// As values of the type are written.
    Plain,
    /// A format of dates or times.
    Format(&'static str),
    /// Words for true and false, as they are spelled.
    Words(Vec<(String, bool)>),
    /// A number that is not written as programs write it.
    Number(NumberForm),
    /// A list with this separator.
    Split(char),
}

/// The guessed type of a column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnType {
    pub(crate) ty: FieldType,
    pub(crate) conversion: Conversion,
    /// Texts that stand for an absent value in this column only.
    pub(crate) absent: Vec<String>,
    /// What was guessed, and what the alternative is.
    pub(crate) notes: Vec<String>,
}

impl ColumnType {
    fn plain(ty: FieldType) -> Self {
        Self { ty, conversion: Conversion::Plain, absent: Vec::new(), notes: Vec::new() }
    }

    fn with(ty: FieldType, conversion: Conversion) -> Self {
        Self { conversion, ..Self::plain(ty) }
    }

    fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// What the columns of a table show together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Habits {
    /// Whether a column has numbers that can only have a decimal comma.
    has_decimal_comma: bool,
    /// Whether a column has dates that can only begin with the month.
    has_month_first: bool,
    /// Whether a column has dates that can only begin with the day.
    has_day_first: bool,
}

impl Habits {
    pub(crate) fn of(table: &TableProfile) -> Self {
        let mut habits = Self { has_decimal_comma: table.delimiter == b';', ..Self::default() };
        for column in &table.columns {
            let common: Vec<Kind> = column.kinds.common().collect();
            let is_written = |kind: &Kind| matches!(kind, Kind::Written(form) if form.has_decimal_comma);
            let is_plain = common.contains(&Kind::Float) || common.iter().any(|kind| matches!(kind, Kind::Written(form) if !form.has_decimal_comma));
            habits.has_decimal_comma |= common.iter().any(is_written) && !is_plain;
            let begins = |wanted: &str| {
                common.iter().any(|kind| matches!(kind, Kind::Date(Some(format)) | Kind::Timestamp(Some(format)) if format.starts_with(wanted)))
            };
            habits.has_month_first |= begins("%m") && !begins("%d");
            habits.has_day_first |= begins("%d") && !begins("%m");
        }
        habits
    }
}

/// Names of columns whose digits are no numbers: they are not added up, and their leading zeros count.
const TEXT_WORDS: [&str; 26] = [
    "phone",
    "telephone",
    "tel",
    "telefon",
    "fax",
    "mobile",
    "handy",
    "zip",
    "zipcode",
    "postal",
    "postcode",
    "plz",
    "isbn",
    "issn",
    "ean",
    "gtin",
    "upc",
    "barcode",
    "iban",
    "bic",
    "ssn",
    "vat",
    "fips",
    "sku",
    "lccn",
    "oclc",
];
/// Names of columns whose numbers with decimals are codes: 1.10 is another version than 1.1.
const VERSION_WORDS: [&str; 2] = ["version", "release"];
/// Names of columns that may have codes, and may have numbers: postcodes and capacities, tariffs and heights.
const AMBIGUOUS_WORDS: [&str; 2] = ["cap", "hs"];
/// The least number that such a code can be: it has four digits before a point, if it has one.
const LEAST_CODE: f64 = 1_000.0;
/// Names of columns whose 0 and 1 are no numbers.
const FLAG_WORDS: [&str; 12] = ["is", "has", "flag", "active", "enabled", "deleted", "valid", "published", "available", "open", "visible", "aktiv"];
/// Names of columns whose large integers are times.
const TIME_WORDS: [&str; 12] =
    ["time", "timestamp", "ts", "date", "created", "updated", "modified", "at", "epoch", "published", "datetime", "changed"];

/// Guesses the type of a column with scalar values.
pub(crate) fn column_type(column: &ColumnProfile, table: &TableProfile, habits: Habits) -> ColumnType {
    let NativeCounts { texts, numbers, booleans, .. } = column.native;
    let words = words_of_path(&column.path, table.reading.family);
    let element = match (texts, numbers, booleans) {
        _ if table.reading.family == FormatFamily::Marc => ColumnType::plain(FieldType::Text),
        (0, 0, _) => ColumnType::plain(FieldType::Boolean),
        (0, _, 0) if column.kinds.all(Kind::Integer) => whole_number(column, &words, true),
        (0, _, 0) if column.kinds.all(Kind::Float) => ColumnType::plain(FieldType::Float),
        (0, _, 0) => ColumnType::plain(FieldType::Text).note("numbers with more digits than numbers keep; as text they stay as they are"),
        (_, 0, 0) => of_texts(column, table, &words, habits),
        _ => ColumnType::plain(FieldType::Text).note("values of several JSON types; as text, all of them are kept"),
    };
    let absent: Vec<String> = column.tokens.keys().cloned().collect();
    let element = ColumnType { absent, ..element };
    if (column.most_in_document > 1 || column.is_list) && !element.ty.is_list() {
        // a list is of values as they are written
        let keeps_type = element.conversion == Conversion::Plain && element.absent.is_empty() && element.ty != FieldType::Geometry;
        let ty = if keeps_type || matches!(element.conversion, Conversion::Format(_)) { element.ty.clone() } else { FieldType::Text };
        let conversion = if ty == FieldType::Text { Conversion::Plain } else { element.conversion.clone() };
        return ColumnType { ty: FieldType::List(Box::new(ty)), conversion, ..element };
    }
    element
}

fn of_texts(column: &ColumnProfile, table: &TableProfile, words: &[String], habits: Habits) -> ColumnType {
    // in JSON, a number in quotation marks is meant to be a text
    let is_json = table.reading.family == FormatFamily::Json;
    let common: Vec<Kind> = column.kinds.common().collect();
    let has = |kind: Kind| common.contains(&kind);
    for (kind, ty) in [
        (Kind::Uuid, FieldType::Uuid),
        (Kind::Date(None), FieldType::Date),
        (Kind::Timestamp(None), FieldType::Timestamp),
        (Kind::Duration, FieldType::Duration),
        (Kind::Geometry, FieldType::Geometry),
    ] {
        if has(kind) {
            let found = ColumnType::plain(ty);
            let has_no_zone = kind == Kind::Timestamp(None) && column.examples.iter().any(|example| !has_zone(example));
            return if has_no_zone { found.note("times without a time zone are read as UTC") } else { found };
        }
    }
    if has(Kind::PartialDate) && !has(Kind::Integer) {
        return ColumnType::plain(FieldType::PartialDate).note("years, months and days; each keeps its precision");
    }
    if !is_json {
        if let Some(found) = boolean(column, &common, words) {
            return found;
        }
        if has(Kind::Integer) {
            return whole_number(column, words, false);
        }
        if column.numbers.count == column.values && (are_codes(column, words) || has_word(words, &VERSION_WORDS)) {
            return ColumnType::plain(FieldType::Text).note("numbers by their looks, but codes by their name; as text they stay as they are");
        }
        if let Some(found) = number(column, &common, habits) {
            return found;
        }
    }
    if let Some(found) = time(&common, habits, column) {
        return found;
    }
    if !is_json && has(Kind::Json) {
        return ColumnType::plain(FieldType::Json);
    }
    if !is_json
        && column.most_in_document <= 1
        && let Some(separator) = column.separated.separator(column.values, is_plural(words))
    {
        let ty = FieldType::List(Box::new(FieldType::Text));
        return ColumnType::with(ty, Conversion::Split(separator))
            .note(format!("split at `{separator}`; for the whole text say `type: text` and the column alone"));
    }
    let found = ColumnType::plain(FieldType::Text);
    match mixture(column, is_json) {
        Some(note) => found.note(note),
        None => found,
    }
}

/// Whether a column of numbers is called as codes are, and the numbers look like codes: none is below one, and where the name may mean something else,
/// all have the same length and enough digits.
fn are_codes(column: &ColumnProfile, words: &[String]) -> bool {
    let least = column.numbers.least;
    let is_even = column.shortest == column.longest;
    least >= 1.0 && (has_word(words, &TEXT_WORDS) || is_even && least >= LEAST_CODE && has_word(words, &AMBIGUOUS_WORDS))
}

/// Whether a time has a zone or an offset.
fn has_zone(text: &str) -> bool {
    text.ends_with(['Z', 'z']) || text.get(11..).is_some_and(|time| time.contains(['+', '-']))
}

fn boolean(column: &ColumnProfile, common: &[Kind], words: &[String]) -> Option<ColumnType> {
    let found: Vec<BooleanWords> = common.iter().filter_map(|kind| if let Kind::Boolean(words) = kind { Some(*words) } else { None }).collect();
    let spelled: Vec<(String, bool)> = {
        let yes = found.first()?.yes;
        let mut all: Vec<(String, bool)> = column.counted.keys().map(|text| (text.trim().to_owned(), text.trim().to_lowercase() == yes)).collect();
        all.sort();
        all.dedup();
        all
    };
    let has_both = spelled.iter().any(|(_, is_yes)| *is_yes) && spelled.iter().any(|(_, is_yes)| !is_yes);
    let native = ["true", "True", "TRUE", "false", "False", "FALSE", "1", "0", "yes", "no"];
    match found[0].yes {
        "1" if !(has_both && has_word(words, &FLAG_WORDS)) => return None,
        "true" => {}
        _ if !has_both => return None,
        _ => {}
    }
    if spelled.iter().all(|(text, _)| native.contains(&text.as_str())) {
        return Some(ColumnType::plain(FieldType::Boolean));
    }
    let note = format!("{} become true and false; for the words themselves say `type: text`", words_of(&spelled));
    Some(ColumnType::with(FieldType::Boolean, Conversion::Words(spelled)).note(note))
}

fn words_of(spelled: &[(String, bool)]) -> String {
    spelled.iter().map(|(text, _)| format!("`{text}`")).collect::<Vec<_>>().join(", ")
}

fn whole_number(column: &ColumnProfile, words: &[String], is_number: bool) -> ColumnType {
    let (least, greatest) = (column.numbers.least, column.numbers.greatest);
    let is_time = has_word(words, &TIME_WORDS);
    if is_time && least >= 1.0e9 && greatest < 2.2e9 {
        return ColumnType::with(FieldType::Timestamp, Conversion::Format("epoch")).note("seconds since 1970 by their size and name; else `integer`");
    }
    if is_time && least >= 1.0e12 && greatest < 2.2e12 {
        return ColumnType::with(FieldType::Timestamp, Conversion::Format("epoch_ms"))
            .note("milliseconds since 1970 by their size and name; else `integer`");
    }
    let packed = Kind::Date(Some("%Y%m%d"));
    if column.kinds.all(packed) && least >= 18_000_101.0 && greatest < 21_000_101.0 && (is_time || column.distinct.count() >= 10) {
        return ColumnType::with(FieldType::Date, Conversion::Format("%Y%m%d")).note("eight digits that are all dates; else `integer`");
    }
    if is_number {
        return ColumnType::plain(FieldType::Integer);
    }
    if are_codes(column, words) || column.shortest >= 12 && column.shortest == column.longest {
        return ColumnType::plain(FieldType::Text).note("digits, but an identifier by its name or length; as text it stays as it is; else `integer`");
    }
    ColumnType::plain(FieldType::Integer)
}

fn number(column: &ColumnProfile, common: &[Kind], habits: Habits) -> Option<ColumnType> {
    let forms: Vec<NumberForm> = common.iter().filter_map(|kind| if let Kind::Written(form) = kind { Some(*form) } else { None }).collect();
    let texts: Vec<&str> = column.counted.keys().map(|text| text.trim()).collect();
    let has_separator = |grouping: Grouping| texts.iter().any(|text| text.contains(grouping.characters()));
    let is_plain = common.contains(&Kind::Float);
    // `1.234` may be a number with decimals or with thousands, and so may `1,234`
    let is_ambiguous = |form: Option<NumberForm>| {
        let read = |text: &&str| form.map_or_else(|| crate::number::plain_number(text), |form| form.read(text));
        texts.iter().filter(|text| text.contains(['.', ','])).all(|text| read(text).is_some_and(|number| number.is_ambiguous))
    };
    let chosen = |form: NumberForm| {
        let has_decimals = texts.iter().any(|text| form.read(text).is_some_and(|number| number.has_decimals));
        let ty = if has_decimals { FieldType::Float } else { FieldType::Integer };
        ColumnType::with(ty, Conversion::Number(form))
    };
    let find = |grouping: Grouping, has_decimal_comma: bool| forms.iter().copied().find(|form| *form == NumberForm { grouping, has_decimal_comma });
    if is_plain {
        let points = find(Grouping::Point, true);
        return Some(match points.filter(|_| has_separator(Grouping::Point) && is_ambiguous(None)) {
            Some(form) if habits.has_decimal_comma => {
                chosen(form).note("points are taken to separate thousands, as commas are decimal in this file; else `float`")
            }
            Some(_) => ColumnType::plain(FieldType::Float)
                .note("all have three decimals; if points separate thousands, say `integer` and remove them in an expression"),
            None => ColumnType::plain(FieldType::Float),
        });
    }
    let (decimal, thousands) = (find(Grouping::None, true), find(Grouping::Comma, false));
    let found = match (decimal, thousands) {
        (Some(decimal), Some(thousands)) if is_ambiguous(Some(thousands)) => {
            let note = "each comma has three digits after it, so it may be decimal or separate thousands";
            if habits.has_decimal_comma {
                chosen(decimal).note(format!("{note}; taken as decimal"))
            } else {
                chosen(thousands).note(format!("{note}; taken as thousands"))
            }
        }
        (Some(decimal), _) => chosen(decimal),
        (None, Some(thousands)) => chosen(thousands),
        (None, None) => chosen(*forms.first()?),
    };
    // codes of digits and spaces are more often no numbers than numbers
    let is_spaced = matches!(found.conversion, Conversion::Number(NumberForm { grouping: Grouping::Space, .. }));
    let counts = !is_spaced || texts.iter().any(|text| !text.contains(' ')) || texts.iter().any(|text| text.contains(','));
    counts.then_some(found)
}

fn time(common: &[Kind], habits: Habits, column: &ColumnProfile) -> Option<ColumnType> {
    let formats = |is_date: bool| {
        common.iter().filter_map(move |kind| match kind {
            Kind::Date(Some(format)) if is_date => Some(*format),
            Kind::Timestamp(Some(format)) if !is_date => Some(*format),
            _ => None,
        })
    };
    for (is_date, ty) in [(true, FieldType::Date), (false, FieldType::Timestamp)] {
        let found: Vec<&'static str> = formats(is_date).filter(|format| *format != "%Y%m%d").collect();
        let day = found.iter().copied().find(|format| format.starts_with("%d"));
        let month = found.iter().copied().find(|format| format.starts_with("%m"));
        return Some(match (day, month) {
            (Some(day), Some(month)) => {
                let (chosen, other) =
                    if habits.has_month_first && !habits.has_day_first || are_first_days(column) { (month, day) } else { (day, month) };
                let note = format!("day and month cannot be told apart; if it is the other way round: format: '{other}'");
                ColumnType::with(ty, Conversion::Format(chosen)).note(note)
            }
            _ => match found.first() {
                Some(format) => ColumnType::with(ty, Conversion::Format(format)),
                None => continue,
            },
        });
    }
    None
}

/// Whether the second number of all dates is 1, the first one is not, and the years differ: with the month first, these are the first days of months;
/// with the day first, they would all be in January.
fn are_first_days(column: &ColumnProfile) -> bool {
    let numbers = |text: &String| -> Vec<u16> {
        text.trim().split(|character: char| !character.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let all: Vec<Vec<u16>> = column.counted.keys().map(numbers).collect();
    let differ = |place: usize| all.iter().any(|date| date.get(place) != all[0].get(place));
    !all.is_empty() && all.iter().all(|date| date.get(1) == Some(&1)) && differ(0) && differ(2)
}

/// What a column of texts would be without a few of its values.
fn mixture(column: &ColumnProfile, is_json: bool) -> Option<String> {
    let (kind, count) = column.kinds.most().filter(|_| !is_json)?;
    let other = column.counted.keys().filter(|text| !kind.fits(text.trim())).min()?;
    let (what, ty) = match kind {
        Kind::Integer => ("integers", "integer"),
        Kind::Float | Kind::Written(_) => ("numbers", "float"),
        Kind::Date(_) => ("dates", "date"),
        Kind::Timestamp(_) => ("times", "timestamp"),
        Kind::PartialDate => ("dates, months and years", "partial_date"),
        _ => return None,
    };
    Some(format!("{count} of {} values are {what}, but {other:?} is not; `{ty}` would leave out such values with a warning", column.values))
}
