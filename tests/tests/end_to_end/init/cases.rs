//! Thirty likenesses of files that people have, in different formats, encodings and habits.

use crate::init::likeness::{Column, Has, column, sparse};
use crate::init::write::{DateStyle, Encoding, GERMAN, Habits, PLAIN};

pub struct Case {
    pub file: &'static str,
    pub format: Format,
    pub habits: Habits,
    pub columns: Vec<Column>,
    pub rows: usize,
    pub key: Key,
}

#[derive(Debug, Clone, Copy)]
pub enum Format {
    Csv,
    Xlsx,
    Json(&'static str),
    /// With or without a namespace.
    Xml(bool),
}

pub enum Key {
    /// These columns.
    Columns(Vec<&'static str>),
    /// None but the place in the file.
    Row,
}

impl Case {
    /// The position of the column that a path finds.
    pub fn position(&self, path: &str) -> usize {
        let has_no_name = |number: &usize| !self.habits.has_header || self.columns[number - 1].name.is_empty();
        let number = || path.strip_prefix("column_").and_then(|number| number.parse::<usize>().ok()).filter(has_no_name);
        let ends = |column: &Column| {
            path == column.name
                || path.ends_with(&format!(".{}", column.name))
                || path.ends_with(&format!("@{}", column.name))
                || path.ends_with(&format!(":{}", column.name))
                || path.ends_with(&format!("['{}']", column.name))
        };
        number().map(|number| number - 1).or_else(|| self.columns.iter().position(ends)).unwrap_or_else(|| panic!("no column {path}"))
    }

    pub fn is_latin1(&self) -> bool {
        self.habits.encoding == Encoding::Latin1
    }

    /// A text as it is compared.
    pub fn plain(&self, text: &str, position: usize) -> String {
        if matches!(self.columns[position].has, Has::Uuid) { text.to_lowercase() } else { text.to_owned() }
    }
}

const COUNTRIES: &[&str] = &["DE", "FR", "NA", "US", "SE", "NO", "IT", "PL"];
const STATUS: &[&str] = &["active", "retired", "planned"];
const GENRES: &[&str] = &["crime", "poetry", "science fiction", "drama", "history"];
const UNITS: &[&str] = &["kg", "pcs", "m"];
const KINDS: &[&str] = &["large_airport", "small_airport", "heliport", "closed"];
const LICENCES: &[&str] = &["MIT", "Apache-2.0", "GPL-3.0-only", "BSD-3-Clause"];
const SENSORS: &[&str; 4] = &["roof-1", "roof-2", "cellar", "yard"];

fn case(file: &'static str, format: Format, habits: Habits, columns: &[Column], key: &[&'static str]) -> Case {
    let key = if key.is_empty() { Key::Row } else { Key::Columns(key.to_vec()) };
    Case { file, format, habits, columns: columns.to_vec(), rows: 60, key }
}

pub fn cases() -> Vec<Case> {
    let american = Habits { date: DateStyle::American, truth: ("Y", "N"), thousands: ",", ..PLAIN };
    let british = Habits { date: DateStyle::British, truth: ("Yes", "No"), line_end: "\r\n", quotes_all: true, ..PLAIN };
    let tabs = Habits { delimiter: '\t', null: "NULL", truth: ("t", "f"), list: "|", ..PLAIN };
    let headless = Habits { has_header: false, null: "\\N", quotes_all: true, ..PLAIN };
    let titled = Habits { title: "Report of the works department\nas of 1 January 2024\n\n", ..PLAIN };
    let latin = Habits { encoding: Encoding::Latin1, ..GERMAN };
    let marked = Habits { encoding: Encoding::Marked, ..GERMAN };
    vec![
        case(
            "airports.csv",
            Format::Csv,
            PLAIN,
            &[
                column("id", Has::Sequence(1)),
                column("ident", Has::Letters(4)),
                column("type", Has::OneOf(KINDS)),
                column("name", Has::Phrase),
                column("latitude_deg", Has::Decimal(-60, 70, 4)),
                column("longitude_deg", Has::Decimal(-170, 170, 4)),
                sparse("elevation_ft", Has::Whole(0, 9_000)),
                column("iso_country", Has::OneOf(COUNTRIES)),
                sparse("home_link", Has::Address),
            ],
            &["id"],
        ),
        case(
            "airports.dat",
            Format::Csv,
            headless,
            &[
                column("c1", Has::Sequence(1)),
                column("c2", Has::Phrase),
                column("c3", Has::OneOf(COUNTRIES)),
                sparse("c4", Has::Letters(3)),
                column("c5", Has::Decimal(-60, 70, 3)),
                sparse("c6", Has::Whole(0, 9_000)),
            ],
            &["c1"],
        ),
        case(
            "papers.json",
            Format::Json("envelope"),
            PLAIN,
            &[
                column("DOI", Has::Numbered("10.1000/j.")),
                column("title", Has::Phrase),
                column("published", Has::Day),
                column("is_open", Has::Flag),
                column("subject", Has::Several(GENRES)),
                sparse("cited", Has::Whole(0, 900)),
                sparse("URL", Has::Address),
            ],
            &["DOI"],
        ),
        case(
            "packages.ndjson",
            Format::Json("lines"),
            PLAIN,
            &[
                column("name", Has::Numbered("lib-")),
                column("version", Has::Version),
                column("license", Has::OneOf(LICENCES)),
                column("downloads", Has::Whole(10, 9_000_000)),
                column("updated", Has::Moment),
                column("keywords", Has::Several(GENRES)),
            ],
            &["name"],
        ),
        case(
            "software.tsv",
            Format::Csv,
            tabs,
            &[
                column("package", Has::Numbered("pkg-")),
                column("version", Has::Version),
                column("size_kb", Has::Whole(10, 90_000)),
                column("installed", Has::Flag),
                column("tags", Has::Several(GENRES)),
                sparse("maintainer", Has::Mail),
            ],
            &["package"],
        ),
        case(
            "readings.csv",
            Format::Csv,
            PLAIN,
            &[
                column("sensor", Has::Turn(SENSORS)),
                column("time", Has::Step),
                column("temperature", Has::Decimal(-10, 35, 2)),
                sparse("humidity", Has::Decimal(10, 99, 1)),
            ],
            &["sensor", "time"],
        ),
        case(
            "messwerte.csv",
            Format::Csv,
            latin,
            &[
                column("Messstelle", Has::Numbered("MS")),
                column("Gewässer", Has::Phrase),
                column("Datum", Has::Day),
                column("Abfluß (m³/s)", Has::Decimal(0, 900, 2)),
                column("geprüft", Has::Flag),
                column("Prüfer", Has::Person),
            ],
            &["Messstelle"],
        ),
        case(
            "staff.csv",
            Format::Csv,
            british,
            &[
                column("Employee ID", Has::Numbered("EMP-")),
                column("Full name", Has::Person),
                column("E-mail", Has::Mail),
                column("Phone", Has::Phone),
                column("Start date", Has::Day),
                column("Full time", Has::Flag),
                column("Grade", Has::Whole(1, 9)),
            ],
            &["Employee ID"],
        ),
        case(
            "invoices.csv",
            Format::Csv,
            marked,
            &[
                column("Rechnungsnummer", Has::Numbered("RE-2024-")),
                column("Kunde", Has::Person),
                column("PLZ", Has::Postcode),
                column("Rechnungsdatum", Has::Day),
                column("Betrag", Has::Decimal(1, 9_000, 2)),
                column("bezahlt", Has::Flag),
            ],
            &["Rechnungsnummer"],
        ),
        case(
            "ledger.csv",
            Format::Csv,
            Habits { thousands: ".", ..GERMAN },
            &[
                column("Beleg-Nr", Has::Numbered("B")),
                column("Konto", Has::Postcode),
                column("Betrag", Has::Decimal(1_000, 2_000_000, 2)),
                column("Buchungstag", Has::Day),
                column("Text", Has::Phrase),
            ],
            &["Beleg-Nr"],
        ),
        case(
            "us_orders.csv",
            Format::Csv,
            american,
            &[
                column("Order Number", Has::Sequence(100_234)),
                column("Order Date", Has::Day),
                column("Customer", Has::Person),
                column("Total", Has::Decimal(10, 90_000, 2)),
                column("Units", Has::Whole(1, 90_000)),
                column("Shipped", Has::Flag),
                column("ZIP", Has::Postcode),
            ],
            &["Order Number"],
        ),
        case(
            "books.csv",
            Format::Csv,
            PLAIN,
            &[
                column("isbn", Has::Isbn),
                column("title", Has::Phrase),
                column("author", Has::Person),
                sparse("year", Has::Year),
                column("pages", Has::Mixed),
                column("genres", Has::Several(GENRES)),
                column("on_loan", Has::Flag),
            ],
            &["isbn"],
        ),
        case(
            "library.xml",
            Format::Xml(false),
            PLAIN,
            &[
                column("id", Has::Numbered("b")),
                column("title", Has::Phrase),
                column("author", Has::Person),
                sparse("published", Has::Day),
                column("subject", Has::Several(GENRES)),
                column("copies", Has::Whole(1, 20)),
            ],
            &["id"],
        ),
        case(
            "stations.xml",
            Format::Xml(true),
            PLAIN,
            &[
                column("code", Has::Letters(4)),
                column("name", Has::Phrase),
                column("lat", Has::Decimal(40, 60, 5)),
                column("lon", Has::Decimal(0, 20, 5)),
                sparse("opened", Has::Day),
                column("staffed", Has::Flag),
            ],
            &["code"],
        ),
        case(
            "assets.xlsx",
            Format::Xlsx,
            PLAIN,
            &[
                column("Asset tag", Has::Numbered("A")),
                column("Description", Has::Phrase),
                column("Bought", Has::Day),
                column("Price", Has::Decimal(5, 9_000, 2)),
                column("In use", Has::Flag),
                sparse("Room", Has::Postcode),
            ],
            &["Asset tag"],
        ),
        case(
            "inventory.xlsx",
            Format::Xlsx,
            titled,
            &[
                column("Nr", Has::Sequence(1)),
                column("Article", Has::Phrase),
                column("EAN", Has::Isbn),
                column("Stock", Has::Whole(0, 5_000)),
                column("Unit", Has::OneOf(UNITS)),
                column("Checked", Has::Moment),
            ],
            &["Nr"],
        ),
        case(
            "works_2024.csv",
            Format::Csv,
            titled,
            &[
                column("Project no", Has::Numbered("P-")),
                column("Title", Has::Phrase),
                column("Begin", Has::Day),
                column("Cost", Has::Decimal(100, 9_000, 2)),
                column("Status", Has::OneOf(STATUS)),
            ],
            &["Project no"],
        ),
        case(
            "members.tsv",
            Format::Csv,
            Habits { encoding: Encoding::Utf16, ..tabs },
            &[
                column("member_id", Has::Sequence(1)),
                column("name", Has::Person),
                column("joined", Has::Day),
                column("newsletter", Has::Flag),
                sparse("email", Has::Mail),
            ],
            &["member_id"],
        ),
        case(
            "users.json",
            Format::Json("list"),
            PLAIN,
            &[
                column("uuid", Has::Uuid),
                column("displayName", Has::Person),
                column("email", Has::Mail),
                column("createdAt", Has::Moment),
                column("isAdmin", Has::Flag),
                column("roles", Has::Several(STATUS)),
            ],
            &["uuid"],
        ),
        case(
            "countries.csv",
            Format::Csv,
            Habits { null: "-", ..PLAIN },
            &[
                column("name", Has::Numbered("Land ")),
                column("alpha_2", Has::OneOf(COUNTRIES)),
                column("alpha_3", Has::Letters(3)),
                column("population", Has::Whole(1_000, 90_000_000)),
                sparse("area", Has::Decimal(1, 900_000, 1)),
                sparse("independent_since", Has::Year),
            ],
            &["name"],
        ),
        case(
            "observations.csv",
            Format::Csv,
            Habits { null: "NA", ..PLAIN },
            &[
                column("obs_id", Has::Sequence(1)),
                column("country", Has::OneOf(COUNTRIES)),
                sparse("count", Has::Whole(0, 400)),
                sparse("weight", Has::Decimal(0, 90, 2)),
                column("seen", Has::Day),
            ],
            &["obs_id"],
        ),
        case(
            "catalog_codes.csv",
            Format::Csv,
            PLAIN,
            &[
                column("code", Has::Letters(5)),
                column("alias", Has::Exponent),
                column("label", Has::Phrase),
                column("order_no", Has::Postcode),
                column("valid_from", Has::Day),
            ],
            &["code"],
        ),
        case(
            "log.csv",
            Format::Csv,
            PLAIN,
            &[column("level", Has::OneOf(STATUS)), column("message", Has::OneOf(GENRES)), column("code", Has::OneOf(UNITS))],
            &[],
        ),
        case(
            "hosts.ndjson",
            Format::Json("lines"),
            PLAIN,
            &[
                column("hostname", Has::Numbered("node-")),
                column("memory", Has::Whole(1_000, 900_000)),
                column("rack", Has::OneOf(SENSORS)),
                column("is_virtual", Has::Flag),
                column("seen", Has::Moment),
            ],
            &["hostname"],
        ),
        case(
            "prices.csv",
            Format::Csv,
            Habits { delimiter: '|', date: DateStyle::Packed, ..PLAIN },
            &[
                column("symbol", Has::OneOf(SENSORS)),
                column("date", Has::Day),
                column("close", Has::Decimal(10, 900, 2)),
                column("volume", Has::Whole(1_000, 9_000_000)),
            ],
            &["symbol", "date"],
        ),
        case(
            "suppliers.csv",
            Format::Csv,
            Habits { delimiter: ';', ..PLAIN },
            &[
                column("Supplier no.", Has::Sequence(70_001)),
                column("Company", Has::Phrase),
                column("Telephone", Has::Phone),
                column("Website", Has::Address),
                column("Since", Has::Year),
                column("Rating", Has::Decimal(0, 5, 1)),
            ],
            &["Supplier no."],
        ),
        case(
            "trees.csv",
            Format::Csv,
            Habits { thousands: " ", has_decimal_comma: true, delimiter: ';', ..PLAIN },
            &[
                column("tree_id", Has::Numbered("T")),
                column("species", Has::Phrase),
                column("planted", Has::Year),
                column("height", Has::Decimal(1, 30, 1)),
                column("value", Has::Decimal(1_000, 90_000, 2)),
            ],
            &["tree_id"],
        ),
        case(
            "events.json",
            Format::Json("list"),
            PLAIN,
            &[
                column("event id", Has::Sequence(5_000)),
                column("kind", Has::OneOf(STATUS)),
                column("at", Has::Moment),
                column("magnitude", Has::Decimal(1, 8, 1)),
                sparse("place", Has::Phrase),
            ],
            &["event id"],
        ),
        case(
            "courses.xml",
            Format::Xml(false),
            PLAIN,
            &[
                column("number", Has::Sequence(100)),
                column("title", Has::Phrase),
                column("lecturer", Has::Person),
                column("credits", Has::Whole(1, 9)),
                column("language", Has::OneOf(COUNTRIES)),
            ],
            &["number"],
        ),
        case(
            "buildings.csv",
            Format::Csv,
            british,
            &[
                column("UPRN", Has::Numbered("U")),
                column("Address", Has::Phrase),
                column("Postcode", Has::Postcode),
                column("Listed", Has::Flag),
                column("Surveyed", Has::Moment),
                sparse("Floor area", Has::Decimal(20, 900, 1)),
            ],
            &["UPRN"],
        ),
    ]
}

/// Tables as programs for statistics write them: rows have names in a column without one, decimals have all their digits, blanks stand between values.
pub fn cases_of_programs() -> Vec<Case> {
    let blanks = Habits { delimiter: ' ', ..PLAIN };
    let digits = Habits { has_all_digits: true, ..blanks };
    let measures = [column("depth", Has::Decimal(1, 90, 2)), column("flow", Has::Decimal(-9, 9, 3)), column("count", Has::Whole(0, 40))];
    let named = [&[column("", Has::Letters(4))], measures.as_slice()].concat();
    let numbered = [column("", Has::Sequence(1)), column("x", Has::Whole(100, 900))];
    let all = |habits: Habits| {
        [
            case("measures.csv", Format::Csv, habits, &measures, &[]),
            case("measures.csv", Format::Csv, Habits { has_header: false, ..habits }, &measures, &[]),
        ]
    };
    let mut cases = vec![
        case("named.csv", Format::Csv, Habits { quotes_all: true, ..PLAIN }, &named, &[""]),
        case("named.csv", Format::Csv, PLAIN, &named, &[""]),
        case("named.csv", Format::Csv, Habits { quotes_all: true, ..blanks }, &named, &[""]),
        case("numbered.csv", Format::Csv, Habits { quotes_all: true, ..PLAIN }, &numbered, &[""]),
        case("numbered.csv", Format::Csv, Habits { delimiter: '\t', ..PLAIN }, &numbered, &[""]),
    ];
    let left_out = Habits { leaves_out_first_name: true, ..PLAIN };
    for habits in [left_out, Habits { delimiter: ' ', quotes_all: true, ..left_out }, Habits { delimiter: '\t', ..left_out }] {
        cases.push(case("named.csv", Format::Csv, habits, &named, &[""]));
    }
    let matrix = [&[column("", Has::Sequence(1))], ["1", "2", "3", "4"].map(|name| column(name, Has::Whole(0, 50))).as_slice()].concat();
    cases.push(case("matrix.csv", Format::Csv, Habits { quotes_all: true, ..PLAIN }, &matrix, &[""]));
    cases.push(case(
        "months.csv",
        Format::Csv,
        Habits { date: DateStyle::American, ..PLAIN },
        &[column("month", Has::Month), column("sold", Has::Whole(0, 9))],
        &["month"],
    ));
    let counts = [
        column("study", Has::Sequence(1)),
        column("no_treated", Has::Whole(0, 90_000)),
        column("hs", Has::Decimal(0, 9, 2)),
        column("cap", Has::Whole(2, 990)),
    ];
    cases.push(case("studies.csv", Format::Csv, PLAIN, &counts, &["study"]));
    // shares, all of them of five characters, are no tariff codes; a first name and a day of birth are unique by chance
    let people = [
        column("first_name", Has::OneOf(&["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn"])),
        column("birth_date", Has::Day),
        column("hs_grad", Has::Decimal(11, 89, 2)),
    ];
    cases.push(case("people.csv", Format::Csv, PLAIN, &people, &[]));
    for habits in [blanks, digits, Habits { delimiter: ',', ..digits }] {
        cases.extend(all(habits));
    }
    cases
}
