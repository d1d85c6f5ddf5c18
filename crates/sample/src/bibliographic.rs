//! A library's catalogue in two deliveries: bibliographic MARC records with holdings and items, and the authorities of their headings. The second
//! delivery drops items and holdings, deletes records, and changes headings of authorities, of which only some bibliographic records follow.
//! What is right afterwards is counted from the same description the records are written from (`truth.json`). All names are made up.

use crate::random::Random;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use stook_formats::marc::{MarcBuilder, MarcError, MarcRecord, marcxml};

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct Bibliographic {
    /// Number of bibliographic records.
    pub records: u64,
    /// Equal seeds give equal bytes.
    pub seed: u64,
    /// Number of the first record.
    pub first: u64,
}

/// The state of the files after one of the two deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Delivery {
    First = 1,
    Second = 2,
}

/// A heading in a bibliographic record.
struct Heading {
    tag: &'static str,
    /// Its authority, if it has one.
    authority: Option<u64>,
    text: Vec<(&'static str, String)>,
    subdivision: Option<&'static str>,
    /// What is in `$0`.
    number: Option<String>,
    /// What its authority says of its text, as long as there is one.
    relation: Relation,
}

/// How the text of a heading relates to the authority that its number names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// It is the heading, or the one from before it was changed.
    Of(Delivery),
    /// It is another text.
    Other,
}

/// A bibliographic record.
struct Bib {
    is_deleted: bool,
    names: Vec<Heading>,
    subjects: Vec<Heading>,
    /// Locations, each with its call number and the barcodes there.
    holdings: Vec<(&'static str, String, Vec<String>)>,
    has_script: bool,
}

/// Two letters each, so that different numbers give different words.
const SYLLABLES: [&str; 32] = [
    "ba", "be", "bo", "da", "de", "do", "fa", "fe", "ga", "go", "ka", "ke", "ko", "la", "le", "lo", "ma", "me", "mo", "na", "ne", "no", "pa", "po",
    "ra", "re", "ro", "sa", "so", "ta", "te", "va",
];
const WORDS: u64 = 32 * 32 * 32;
const GIVEN: [&str; 8] = ["Anna", "Bernard", "Clara", "Dmitri", "Edith", "Farid", "Greta", "Hugo"];
const TITLES: [&str; 8] = ["A history of", "Letters from", "The geology of", "Songs of", "An atlas of", "Essays on", "The birds of", "Travels in"];
const SCRIPTS: [&str; 4] = ["История города", "台灣美術通史", "山の中の村", "تاريخ المدينة"];
const LOCATIONS: [&str; 4] = ["STACKS", "LAW", "MUSIC", "ANNEX"];
const SUBDIVISIONS: [&str; 3] = ["History", "Bibliography", "Maps"];

/// Returns a word that no other number below [`WORDS`] has.
fn word(number: u64) -> String {
    let number = (number % WORDS).wrapping_mul(10_007) % WORDS;
    let text: String = [number / 1_024, number / 32 % 32, number % 32].iter().map(|position| SYLLABLES[*position as usize]).collect();
    text[..1].to_uppercase() + &text[1..]
}

impl Bibliographic {
    fn authorities(&self) -> u64 {
        (self.records / 3).clamp(20, WORDS / 2)
    }

    /// Whether an authority is of a name; the others are of topics.
    fn is_name(authority: u64) -> bool {
        !authority.is_multiple_of(3)
    }

    /// Whether the second delivery changes the heading of an authority.
    fn is_changed(authority: u64) -> bool {
        authority % 10 == 4
    }

    /// Whether the second delivery deletes an authority.
    fn is_deleted(authority: u64) -> bool {
        authority % 50 == 7
    }

    fn number(authority: u64) -> String {
        if Self::is_name(authority) { format!("n{:08}", 50_000_000 + authority) } else { format!("sh{:08}", 85_000_000 + authority) }
    }

    /// The subfields of an authority's heading, with accents as MARC has them (decomposed) or composed.
    fn heading(authority: u64, at: Delivery, is_composed: bool) -> Vec<(&'static str, String)> {
        let is_new = at == Delivery::Second && Self::is_changed(authority);
        let mut name = word(authority);
        if authority % 7 == 1 {
            name.push_str(if is_composed { "\u{e9}" } else { "e\u{301}" });
        }
        if Self::is_name(authority) {
            let born = 1850 + authority % 100;
            let died = if is_new { (born + 71).to_string() } else { String::new() };
            vec![("a", format!("{name}, {},", GIVEN[(authority % 8) as usize])), ("d", format!("{born}-{died}"))]
        } else {
            vec![("a", format!("{name} {}", if is_new { "research" } else { "studies" }))]
        }
    }

    fn authority(authority: u64, at: Delivery) -> Result<MarcRecord<'static>, MarcError> {
        let is_deleted = at == Delivery::Second && Self::is_deleted(authority);
        let status = if is_deleted { 'd' } else { 'n' };
        let mut marc = MarcBuilder::new(&format!("00000{status}z  a2200000n  4500"))?;
        let number = Self::number(authority);
        marc.control("001", &number)?;
        marc.control("003", "DLC")?;
        marc.control("005", &time(at, authority))?;
        field(&mut marc, "010", "  ", &[("a", number)])?;
        let (tag, tracing, indicators) = if Self::is_name(authority) { ("100", "400", "1 ") } else { ("150", "450", "  ") };
        field(&mut marc, tag, indicators, &Self::heading(authority, at, false))?;
        if at == Delivery::Second && Self::is_changed(authority) {
            let mut earlier = vec![("w", "nne".to_owned())];
            earlier.extend(Self::heading(authority, Delivery::First, false));
            field(&mut marc, tracing, indicators, &earlier)?;
        }
        Ok(marc.finish())
    }

    /// Whether the second delivery has a bibliographic record.
    fn is_delivered_again(bib: u64) -> bool {
        bib % 4 == 1 || bib % 40 == 3
    }

    fn use_of(random: &mut Random, tag: &'static str, authority: u64, at: Delivery, is_composed: bool) -> Heading {
        let mut text = Self::heading(authority, at, is_composed);
        let number = random.per_mille(600).then(|| match random.below(2) {
            0 => format!("(DLC){}", Self::number(authority)),
            _ => format!("http://id.loc.gov/authorities/{}", Self::number(authority)),
        });
        let mut relation = Relation::Of(at);
        if number.is_some() && text.len() > 1 && random.per_mille(50) {
            text.truncate(1); // without its dates
            relation = Relation::Other;
        }
        let subdivision = (tag.starts_with('6') && random.per_mille(400)).then(|| *random.one(&SUBDIVISIONS));
        Heading { tag, authority: Some(authority), text, subdivision, number, relation }
    }

    /// A record as it is after a delivery: the newest version of it.
    fn bib(&self, bib: u64, at: Delivery) -> Bib {
        let random = &mut Random::of_item(self.seed, bib);
        let is_new = at == Delivery::Second && Self::is_delivered_again(bib);
        // of the records that come again, half have the headings of their authorities as they are now
        let headings_at = if is_new && bib % 8 == 1 { Delivery::Second } else { Delivery::First };
        let mut authorities = BTreeSet::new();
        while authorities.len() < 2 + random.below(3) as usize {
            authorities.insert(random.below(self.authorities()));
        }
        let (mut names, mut subjects) = (Vec::new(), Vec::new());
        let is_composed = random.per_mille(500);
        for authority in authorities {
            let tag = match (Self::is_name(authority), names.is_empty()) {
                (true, true) => "100",
                (true, false) if random.per_mille(200) => "600",
                (true, false) => "700",
                (false, _) => "650",
            };
            let own = Self::use_of(random, tag, authority, headings_at, is_composed);
            if tag.starts_with('6') { subjects.push(own) } else { names.push(own) }
        }
        if random.per_mille(300) {
            let text = vec![("a", format!("{}, {}.", word(WORDS / 2 + random.below(WORDS / 2)), random.one(&GIVEN)))];
            names.push(Heading { tag: "700", authority: None, text, subdivision: None, number: None, relation: Relation::Other });
        }
        if random.per_mille(200) {
            let number = Some(format!("(OCoLC)fst{:08}", random.below(1_000_000)));
            let text = vec![("a", "Travel".to_owned())];
            subjects.push(Heading { tag: "655", authority: None, text, subdivision: None, number, relation: Relation::Other });
        }
        let (first_location, class) = (random.below(4) as usize, random.between(1, 990));
        let mut holdings: Vec<(&'static str, String, Vec<String>)> = Vec::new();
        for place in 0..random.below(3) {
            let items = (0..random.below(4)).map(|item| format!("3150{:08}{place}{item}", self.first + bib)).collect();
            holdings.push((LOCATIONS[(first_location + place as usize) % 4], format!("QA{class} .{}", random.between(1, 99)), items));
        }
        if is_new && bib % 8 == 1 {
            holdings.iter_mut().for_each(|holding| drop(holding.2.pop()));
        } else if is_new && bib % 8 == 5 {
            holdings.truncate(1);
        }
        Bib { is_deleted: is_new && bib % 40 == 3, names, subjects, holdings, has_script: random.per_mille(150) }
    }

    fn id(&self, bib: u64) -> String {
        format!("b{:08}", self.first + bib)
    }

    fn marc(&self, number: u64, at: Delivery) -> Result<MarcRecord<'static>, MarcError> {
        let bib = self.bib(number, at);
        let status = if bib.is_deleted { 'd' } else { 'c' };
        let mut marc = MarcBuilder::new(&format!("00000{status}am a2200000 i 4500"))?;
        marc.control("001", &self.id(number))?;
        marc.control("003", "STOOK")?;
        marc.control("005", &time(at, number))?;
        let year = 1950 + number % 70;
        let language = ["eng", "ger", "rus", "chi"][(number % 4) as usize];
        marc.control("008", &format!("200101s{year}    xx            000 0 {language} d"))?;
        let isbn = isbn(self.first + number);
        field(&mut marc, "020", "  ", &[("a", format!("{isbn} (pbk.)"))])?;
        for name in bib.names.iter().filter(|name| name.tag == "100") {
            write_heading(&mut marc, name)?;
        }
        let place = word(number / 3);
        let mut title = vec![("a", format!("{} {place} /", TITLES[(number % 8) as usize])), ("c", "by the author.".to_owned())];
        if bib.has_script {
            title.insert(0, ("6", "880-01".to_owned()));
        }
        field(&mut marc, "245", "10", &title)?;
        if number.is_multiple_of(5) {
            field(&mut marc, "250", "  ", &[("a", "2nd ed.".to_owned())])?;
        }
        field(&mut marc, "264", " 1", &[("a", format!("{place} :")), ("b", "University Press,".to_owned()), ("c", format!("[{year}]"))])?;
        field(&mut marc, "300", "  ", &[("a", format!("{} pages :", 40 + number % 700)), ("b", "maps ;".to_owned()), ("c", "24 cm".to_owned())])?;
        field(&mut marc, "338", "  ", &[("a", "volume".to_owned()), ("b", "nc".to_owned()), ("2", "rdacarrier".to_owned())])?;
        field(&mut marc, "504", "  ", &[("a", "Includes bibliographical references.".to_owned())])?;
        for heading in bib.subjects.iter().chain(bib.names.iter().filter(|name| name.tag == "700")) {
            write_heading(&mut marc, heading)?;
        }
        for (location, call_number, _) in &bib.holdings {
            field(&mut marc, "852", "0 ", &[("b", (*location).to_owned()), ("h", call_number.clone())])?;
        }
        if bib.has_script {
            let script = SCRIPTS[(number % 4) as usize].to_owned();
            field(&mut marc, "880", "  ", &[("6", "264-00/$1".to_owned()), ("a", format!("{script} ;"))])?;
            field(&mut marc, "880", "10", &[("6", "245-01/$1".to_owned()), ("a", format!("{script} /"))])?;
        }
        // some libraries say their items in 876, others in 945
        let (tag, barcode) = if number % 5 == 2 { ("876", "p") } else { ("945", "i") };
        for (location, _, items) in &bib.holdings {
            for item in items {
                field(&mut marc, tag, "  ", &[(barcode, item.clone()), ("l", (*location).to_owned()), ("t", "book".to_owned())])?;
            }
        }
        Ok(marc.finish())
    }

    /// Whether a heading is found to be another one than that of its authority.
    fn is_outdated(own: &Heading, at: Delivery) -> bool {
        let Some(authority) = own.authority.filter(|authority| at == Delivery::First || !Self::is_deleted(*authority)) else { return false };
        match own.relation {
            Relation::Other => true,
            Relation::Of(heading_at) => Self::is_changed(authority) && heading_at != at,
        }
    }

    /// What there is after a delivery.
    fn truth(&self, at: Delivery) -> Value {
        let mut counts = [0_u64; 8];
        for number in 0..self.records {
            let bib = self.bib(number, at);
            if bib.is_deleted {
                continue;
            }
            let outdated = |of: &[Heading]| of.iter().filter(|own| Self::is_outdated(own, at)).count();
            let items: usize = bib.holdings.iter().map(|holding| holding.2.len()).sum();
            let own = [
                1,
                bib.holdings.len(),
                items,
                bib.names.len(),
                bib.subjects.len(),
                outdated(&bib.names),
                outdated(&bib.subjects),
                usize::from(bib.has_script),
            ];
            counts.iter_mut().zip(own).for_each(|(sum, own)| *sum += own as u64);
        }
        let deleted = (0..self.authorities()).filter(|authority| at == Delivery::Second && Self::is_deleted(*authority)).count() as u64;
        json!({
            "instances": counts[0],
            "holdings": counts[1],
            "items": counts[2],
            "name_uses": counts[3],
            "subject_uses": counts[4],
            "outdated_name_uses": counts[5],
            "outdated_subject_uses": counts[6],
            "titles_in_own_script": counts[7],
            "authorities": self.authorities() - deleted,
        })
    }
}

/// A time of last transaction, in field 005.
fn time(at: Delivery, number: u64) -> String {
    let month = if at == Delivery::First { 3 } else { 9 };
    format!("2024{month:02}{:02}{:02}{:02}00.0", 1 + number % 28, number % 24, number % 60)
}

fn isbn(number: u64) -> String {
    let digits = format!("978{:09}", number % 1_000_000_000);
    let sum: u32 = digits.bytes().enumerate().map(|(place, digit)| u32::from(digit - b'0') * if place % 2 == 0 { 1 } else { 3 }).sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

fn field(marc: &mut MarcBuilder, tag: &str, indicators: &str, subfields: &[(&str, String)]) -> Result<(), MarcError> {
    marc.data(tag, &indicators[..1], &indicators[1..])?;
    subfields.iter().try_for_each(|(code, value)| marc.subfield(code, value))
}

fn write_heading(marc: &mut MarcBuilder, own: &Heading) -> Result<(), MarcError> {
    let indicators = match own.tag {
        "100" | "700" => "1 ",
        "600" => "10",
        "655" => " 7",
        _ => " 0",
    };
    let mut subfields = own.text.clone();
    if let Some(subdivision) = own.subdivision {
        subfields.push(("x", subdivision.to_owned()));
    }
    if own.tag == "655" {
        subfields.push(("2", "fast".to_owned()));
    }
    // punctuation before what follows, which is none of the heading
    if own.tag == "700" && own.authority.is_some() {
        if let Some((_, last)) = subfields.last_mut() {
            last.push_str(if last.ends_with(',') { "" } else { "," });
        }
        subfields.push(("e", "editor.".to_owned()));
    }
    subfields.extend(own.number.clone().map(|number| ("0", number)));
    field(marc, own.tag, indicators, &subfields)
}

/// Damages the bytes of a record in ways that readers of libraries repair.
fn damage(mut record: Vec<u8>, kind: u64) -> Vec<u8> {
    match kind {
        // a length that is one too small
        0 => {
            let length = record.len() - 1;
            record[..5].copy_from_slice(format!("{length:05}").as_bytes());
        }
        // a leader that ends in another character
        1 => record[22] = 0x92,
        // a byte in the note that is not UTF-8
        _ => {
            if let Some(at) = record.windows(8).position(|bytes| bytes == b"Includes") {
                record[at + 2] = 0xe9;
            }
        }
    }
    record
}

/// Writes the files of both deliveries, and what is right after each.
///
/// # Errors
/// When a file cannot be written.
pub fn write(what: &Bibliographic, folder: &Path) -> io::Result<()> {
    let wrong = |error: MarcError| io::Error::other(error.to_string());
    std::fs::create_dir_all(folder)?;
    let file = |name: &str| std::fs::File::create(folder.join(name)).map(|file| io::BufWriter::with_capacity(1 << 20, file));
    for (name, at) in [("authorities-1.mrc", Delivery::First), ("authorities-2.mrc", Delivery::Second)] {
        let mut out = file(name)?;
        for authority in 0..what.authorities() {
            let again = Bibliographic::is_changed(authority) || Bibliographic::is_deleted(authority);
            if at == Delivery::First || again {
                out.write_all(&Bibliographic::authority(authority, at).and_then(|record| record.to_iso2709()).map_err(wrong)?)?;
            }
        }
        out.flush()?;
    }
    let (mut first, mut second, mut xml) = (file("bibs-1.mrc")?, file("bibs-2.mrc")?, file("bibs-1.xml")?);
    xml.write_all(marcxml::PROLOGUE.as_bytes())?;
    let mut repaired = 0;
    for number in 0..what.records {
        let record = what.marc(number, Delivery::First).map_err(wrong)?;
        if number % 10 == 6 {
            xml.write_all(marcxml::write(&record).map_err(wrong)?.as_bytes())?;
        } else {
            let mut bytes = record.to_iso2709().map_err(wrong)?;
            if number % 100 == 10 {
                bytes = damage(bytes, number / 100 % 3);
                repaired += 1;
            }
            first.write_all(&bytes)?;
        }
        if Bibliographic::is_delivered_again(number) {
            second.write_all(&what.marc(number, Delivery::Second).and_then(|record| record.to_iso2709()).map_err(wrong)?)?;
        }
    }
    // and one of which the beginning is all that is left
    let cut = what.marc(what.records, Delivery::First).and_then(|record| record.to_iso2709()).map_err(wrong)?;
    first.write_all(&cut[..cut.len() / 3])?;
    xml.write_all(marcxml::EPILOGUE.as_bytes())?;
    for out in [&mut first, &mut second, &mut xml] {
        out.flush()?;
    }
    let truth = json!({
        "repaired": repaired,
        "failed": 1,
        "after_delivery_1": what.truth(Delivery::First),
        "after_delivery_2": what.truth(Delivery::Second),
    });
    std::fs::write(folder.join("truth.json"), format!("{truth:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_words_differ() {
        let what = Bibliographic { records: 100, seed: 3, first: 1 };
        let all = || (0..100).map(|number| what.marc(number, Delivery::Second).unwrap().to_iso2709().unwrap()).collect::<Vec<_>>();
        assert_eq!(all(), all());
        assert_eq!((0..WORDS).map(word).collect::<BTreeSet<_>>().len() as u64, WORDS);
    }

    #[test]
    fn the_second_delivery_has_fewer_items_and_more_outdated_headings() {
        let what = Bibliographic { records: 400, seed: 1, first: 1 };
        let (first, second) = (what.truth(Delivery::First), what.truth(Delivery::Second));
        let count = |of: &Value, name: &str| of[name].as_u64().unwrap();
        for name in ["instances", "holdings", "items", "authorities"] {
            assert!(count(&first, name) > count(&second, name), "{name}");
        }
        assert!(count(&first, "outdated_name_uses") < count(&second, "outdated_name_uses"));
    }
}
