//! Name authority records as libraries exchange them, in ISO 2709.
//!
//! Shares of fields, heading kinds, sizes and non-ASCII text follow those measured on 5 000 real records: 82 % persons, 12 %
//! bodies, 2 % each meetings and titles, 1 % places; two source notes a record; four records in ten with see-from tracings;
//! 45 % with letters outside ASCII, decomposed as MARC wants; 286 to 15 000 bytes, 836 on average. The names are made up.

use crate::random::Random;
use std::io::{self, Write};
use stook_formats::marc::{MarcBuilder, MarcError};

/// The order of record numbers in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrder {
    /// Ascending.
    Ascending,
    /// Scattered over the entire range, all different.
    Random,
}

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct Authorities {
    /// Number of records.
    pub records: u64,
    /// Equal seeds give equal bytes.
    pub seed: u64,
    /// The order of their numbers.
    pub keys: KeyOrder,
    /// Number of the first record, so that files can have different records.
    pub first: u64,
}

const SYLLABLES: [&str; 48] = [
    "ba", "ber", "bo", "ca", "chi", "da", "del", "do", "el", "fer", "ga", "gor", "ha", "hen", "is", "ja", "ka", "kel", "ko", "la", "len", "lo", "ma",
    "mar", "men", "mi", "mon", "na", "ne", "nor", "o", "per", "ra", "ri", "ros", "sa", "sen", "shi", "son", "ta", "ten", "tor", "u", "va", "ver",
    "vi", "wa", "zel",
];
const MARKED: [&str; 16] = [
    "o\u{308}", "a\u{301}", "e\u{301}", "u\u{308}", "c\u{327}", "n\u{303}", "s\u{30c}", "z\u{30c}", "a\u{304}", "o\u{304}", "l\u{2b9}", "\u{142}a",
    "\u{f8}r", "i\u{306}", "e\u{300}", "a\u{30a}",
];
const CYRILLIC: [&str; 14] = ["ба", "ва", "го", "де", "жи", "ка", "ло", "ми", "но", "пе", "ро", "са", "ту", "чен"];
const CJK: [&str; 12] = ["山", "田", "中", "村", "木", "林", "森", "川", "石", "高", "小", "大"];
const SUBJECTS: [&str; 12] =
    ["History", "Music", "Linguistics", "Agriculture", "Chemistry", "Law", "Education", "Poetry", "Medicine", "Geology", "Philosophy", "Engineering"];
const PLACES: [&str; 10] = ["Portadown", "Mampong", "Lviv", "Oaxaca", "Uppsala", "Kyoto", "Graz", "Tunis", "Bergen", "Valdivia"];
const PHRASES: [&str; 14] = [
    "title page",
    "page 4 of cover",
    "data sheet",
    "born",
    "educated at",
    "professor of",
    "lives in",
    "author of several books on",
    "member of the academy",
    "founded the institute",
    "received a doctorate",
    "viewed online",
    "worked as editor",
    "translated from",
];

/// Writes the records in order.
///
/// # Errors
/// When the output fails.
pub fn write(what: &Authorities, out: &mut dyn Write) -> io::Result<()> {
    for index in 0..what.records {
        let bytes = record(what, what.first + index).map_err(|error| io::Error::other(error.to_string()))?;
        out.write_all(&bytes)?;
    }
    out.flush()
}

/// Returns the number of a record, unique below 10^8 records.
fn serial(what: &Authorities, index: u64) -> u64 {
    const RANGE: u64 = 100_000_000;
    match what.keys {
        KeyOrder::Ascending => index % RANGE,
        // multiplication by a number coprime to the range is a permutation
        KeyOrder::Random => (index % RANGE).wrapping_mul(61_803_399) % RANGE,
    }
}

fn record(what: &Authorities, index: u64) -> Result<Vec<u8>, MarcError> {
    let random = &mut Random::of_item(what.seed, index);
    let number = serial(what, index);
    let status = *random.one(b"cccccccccccccccccccccccccnnnnnnnnnnnnnnnnnnnnnnd");
    let mut marc = MarcBuilder::new(&format!("00000{}z  a2200000n  4500", char::from(status)))?;
    marc.control("001", &format!("n{number:08}   "))?;
    marc.control("003", "DLC")?;
    let (year, month, day) = (random.between(1995, 2024), random.between(1, 12), random.between(1, 28));
    let time = format!("{:02}{:02}{:02}.0", random.below(24), random.below(60), random.below(60));
    marc.control("005", &format!("{year}{month:02}{day:02}{time}"))?;
    marc.control("008", &format!("{:02}{month:02}{day:02}n| azannaabn          |a aaa      ", random.below(100)))?;
    let field = |marc: &mut MarcBuilder, tag: &str, indicators: &str, subfields: &[(&str, &str)]| -> Result<(), MarcError> {
        marc.data(tag, &indicators[..1], &indicators[1..])?;
        subfields.iter().try_for_each(|(code, value)| marc.subfield(code, value))
    };
    let lccn = format!("n  {number:08} ");
    if random.per_mille(44) {
        let cancelled = format!("n  {:08} ", random.below(100_000_000));
        field(&mut marc, "010", "  ", &[("a", &lccn), ("z", &cancelled)])?;
    } else {
        field(&mut marc, "010", "  ", &[("a", &lccn)])?;
    }
    if random.per_mille(565) {
        let other = format!("(OCoLC)oca{:08}", random.below(100_000_000));
        field(&mut marc, "035", "  ", &[("a", &other)])?;
    }
    let mut cataloguing = vec![("a", "DLC"), ("b", "eng"), ("e", "rda"), ("c", "DLC")];
    cataloguing.extend(std::iter::repeat_n(("d", "DLC"), random.run(480, 8) as usize));
    field(&mut marc, "040", "  ", &cataloguing)?;
    // 45 % of the records have non-ASCII letters, and in those about every other name
    let foreign = random.per_mille(450);
    let kind = random.below(1_000);
    let birth = random.between(1780, 1998);
    let tag = match kind {
        0..824 => "100",
        824..944 => "110",
        944..966 => "111",
        966..988 => "130",
        _ => "151",
    };
    if random.per_mille(455) {
        field(&mut marc, "046", "  ", &[("f", &format!("{birth}{month:02}{day:02}")), ("2", "edtf")])?;
    }
    let dates = if random.per_mille(300) { format!("{birth}-{}", birth + random.between(30, 90)) } else { format!("{birth}-") };
    let main = name(random, foreign, tag);
    heading(random, &mut marc, tag, &main, &dates)?;
    if tag == "100" && random.per_mille(460) {
        field(&mut marc, "370", "  ", &[("a", *random.one(&PLACES)), ("c", &word(random, foreign)), ("2", "naf")])?;
    }
    if random.per_mille(270) {
        field(&mut marc, "372", "  ", &[("a", *random.one(&SUBJECTS)), ("a", *random.one(&SUBJECTS)), ("2", "lcsh")])?;
    }
    for _ in 0..random.run(230, 6) {
        let institution = format!("{} of {}", random.one(&["University", "Institute", "Academy", "Museum"]), random.one(&PLACES));
        field(&mut marc, "373", "  ", &[("a", &institution), ("2", "naf"), ("s", &birth.to_string())])?;
    }
    if tag == "100" {
        if random.per_mille(370) {
            field(
                &mut marc,
                "374",
                "  ",
                &[("a", "College teachers"), ("a", *random.one(&["Poets", "Historians", "Composers", "Linguists"])), ("2", "lcsh")],
            )?;
        }
        if random.per_mille(480) {
            field(&mut marc, "377", "  ", &[("a", *random.one(&["eng", "rus", "ger", "jpn", "spa", "fre"]))])?;
        }
    }
    let tracing = format!("4{}", &tag[1..]);
    let many = if random.per_mille(4) { random.between(20, 120) } else { random.run(530, 20) };
    for _ in 0..many {
        let other = name(random, foreign, tag);
        heading(random, &mut marc, &tracing, &other, &dates)?;
    }
    if random.per_mille(55) {
        let related = name(random, foreign, "110");
        field(&mut marc, "510", "2 ", &[("w", "r"), ("i", "Founded by:"), ("a", &related)])?;
    }
    if random.per_mille(178) {
        field(&mut marc, "667", "  ", &[("a", "Non-Latin script reference not evaluated.")])?;
    }
    for _ in 0..1 + random.run(480, 30) {
        let title = format!("{}, {}:", phrase(random, foreign, 3, 9), random.between(1950, 2024));
        let length = if random.per_mille(40) { random.between(20, 90) } else { random.between(2, 7) };
        let note = format!("{} ({main})", phrase(random, foreign, 1, length));
        field(&mut marc, "670", "  ", &[("a", &title), ("b", &note)])?;
    }
    marc.finish().to_iso2709()
}

fn heading(random: &mut Random, marc: &mut MarcBuilder, tag: &str, name: &str, dates: &str) -> Result<(), MarcError> {
    let (first, second) = match &tag[1..] {
        "00" => ("1", " "),
        "10" | "11" => ("2", " "),
        "30" => (" ", "0"),
        _ => (" ", " "),
    };
    marc.data(tag, first, second)?;
    marc.subfield("a", name)?;
    match &tag[1..] {
        "00" => {
            if random.per_mille(110) {
                marc.subfield("q", &format!("({} {})", word(random, false), word(random, false)))?;
            }
            if random.per_mille(330) {
                marc.subfield("d", dates)?;
            }
            if random.per_mille(107) {
                marc.subfield("t", &phrase(random, false, 2, 5))?;
            }
        }
        "10" if random.per_mille(230) => marc.subfield("b", &phrase(random, false, 2, 5))?,
        "11" => {
            marc.subfield("d", &format!("({}", random.between(1900, 2024)))?;
            marc.subfield("c", &format!("{})", random.one(&PLACES)))?;
        }
        _ => {}
    }
    Ok(())
}

fn name(random: &mut Random, foreign: bool, tag: &str) -> String {
    match tag {
        "100" => {
            let style = if foreign { random.below(10) } else { 9 };
            match style {
                0 | 1 => format!("{}, {}.", capital(letters(random, &CYRILLIC)), capital(letters(random, &CYRILLIC))),
                2 => letters(random, &CJK),
                _ => format!("{}, {} {}.", word(random, foreign), word(random, foreign), char::from(b'A' + random.below(26) as u8)),
            }
        }
        "151" => format!("{} ({})", word(random, foreign), random.one(&PLACES)),
        _ => phrase(random, foreign, 3, 7),
    }
}

fn letters(random: &mut Random, from: &[&str]) -> String {
    (0..random.between(2, 3)).map(|_| *random.one(from)).collect()
}

fn capital(word: String) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn word(random: &mut Random, foreign: bool) -> String {
    let marked = foreign && random.per_mille(500);
    let syllables = random.between(2, 4);
    let place = random.below(syllables);
    let word = (0..syllables).map(|index| if marked && index == place { *random.one(&MARKED) } else { *random.one(&SYLLABLES) }).collect();
    capital(word)
}

fn phrase(random: &mut Random, foreign: bool, low: u64, high: u64) -> String {
    let words = random.between(low, high.max(low));
    let parts: Vec<String> =
        (0..words).map(|_| if random.per_mille(400) { (*random.one(&PHRASES)).to_owned() } else { word(random, foreign) }).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use stook_formats::marc::{MarcRecord, RECORD_END};

    fn sample(records: u64, keys: KeyOrder) -> Vec<u8> {
        let mut out = Vec::new();
        write(&Authorities { records, seed: 1, keys, first: 0 }, &mut out).expect("memory");
        out
    }

    #[test]
    fn records_are_valid_and_their_numbers_differ() {
        for keys in [KeyOrder::Ascending, KeyOrder::Random] {
            let bytes = sample(2_000, keys);
            let mut numbers = std::collections::HashSet::new();
            for record in bytes.split_inclusive(|byte| *byte == RECORD_END) {
                let parsed = MarcRecord::parse(record).expect("valid");
                assert_eq!(parsed.to_iso2709().expect("short"), record);
                let lccn = parsed.fields().find(|field| field.tag == *b"010").expect("010");
                assert!(numbers.insert(lccn.subfields().next().expect("$a").1.to_owned()));
            }
            assert_eq!(numbers.len(), 2_000);
        }
    }

    #[test]
    fn sizes_and_letters_are_like_the_real_ones() {
        let bytes = sample(5_000, KeyOrder::Ascending);
        let mean = bytes.len() / 5_000;
        assert!((760..=920).contains(&mean), "mean size {mean}");
        let foreign = bytes.split(|byte| *byte == RECORD_END).filter(|record| !record.is_ascii()).count();
        assert!((2_000..=2_500).contains(&foreign), "{foreign} records with letters outside ASCII");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(sample(50, KeyOrder::Random), sample(50, KeyOrder::Random));
    }
}
