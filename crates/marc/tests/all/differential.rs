//! Damaged records as pymarc reads them at its most permissive, and as they are read here: nothing that it reads may be lost.
//!
//! `STOOK_TEST_PYTHON` names a Python that has pymarc (else `~/.cache/stook/venv/bin/python` is tried), `STOOK_TEST_DATA` a folder of real
//! MARC files (else `../shared/data/marc` next to the repository). Records are made here if there are none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use stook_marc::{MarcBuilder, MarcRecord, ReadOptions, RepairKind, Repairs, scan, show_tag};

/// Damaged records that are compared; `STOOK_TEST_DAMAGED` says another number.
const DAMAGED: usize = 20_000;

/// A generator of numbers that is the same everywhere (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Python that has pymarc; without one the test is left out, or fails where it is required.
fn python() -> Option<PathBuf> {
    let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/stook/venv/bin/python"));
    let python = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from).or_else(of_home)?;
    let probed = Command::new(&python).args(["-c", "import pymarc"]).output();
    if probed.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("STOOK_TEST_REQUIRE").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    assert!(!required, "STOOK_TEST_REQUIRE is set, but {} cannot import pymarc", python.display());
    println!("skipped: {} cannot import pymarc", python.display());
    None
}

/// Good records: some made here, and the real ones that are found.
fn good_records() -> Vec<Vec<u8>> {
    let folder = std::env::var_os("STOOK_TEST_DATA").map_or_else(|| repository().join("../shared/data/marc"), PathBuf::from);
    let mut paths: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "mrc"));
    paths.sort();
    let mut records = Vec::new();
    for file in paths.iter().filter_map(|path| std::fs::read(path).ok()) {
        let whole = file.split_inclusive(|byte| *byte == 0x1d).filter(|bytes| MarcRecord::parse(bytes).is_ok());
        records.extend(whole.take(1_000).map(<[u8]>::to_vec));
    }
    for number in 0..200 {
        let mut builder = MarcBuilder::new("00000nam a2200000 i 4500").expect("leader");
        builder.control("001", &format!("n{number}")).expect("control field");
        for (tag, text) in [("100", "Dvořák, Antonín,"), ("245", "Příliš žluťoučký kůň"), ("500", "中文 note"), ("650", "Music")] {
            builder.data(tag, "1", " ").expect("data field");
            builder.subfield("a", &text.repeat(1 + number % 5)).expect("subfield");
            builder.subfield("d", "1841-1904").expect("subfield");
        }
        records.push(builder.finish().to_iso2709().expect("short"));
    }
    records
}

/// Damages a record in one to three places.
fn damage(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(3) {
        // half of it in the leader and the directory
        let data = bytes.iter().position(|byte| *byte == 0x1e).unwrap_or(24);
        let at = if random.below(2) == 0 { random.below(data) } else { random.below(bytes.len()) }.min(bytes.len() - 1);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, random.below(256) as u8),
            4 => drop(bytes.drain(at..(at + random.below(8)).min(bytes.len()))),
            _ => bytes[at] = [0x1f, b'0' + random.below(10) as u8, b' ', b'9'][random.below(4)],
        }
        if bytes.len() < 30 {
            return good.to_vec();
        }
    }
    if random.below(20) == 0 {
        bytes.truncate(30 + random.below(bytes.len() - 30));
    }
    // pymarc reads no record whose length is wrong
    if random.below(3) > 0 {
        let length = format!("{:05}", bytes.len());
        bytes[..5].copy_from_slice(&length.as_bytes()[..5]);
    }
    bytes
}

/// Whether text is but a piece of the leader or the directory.
fn bytes_of_structure(bytes: &[u8], text: &str) -> bool {
    let end = bytes.iter().position(|byte| *byte == 0x1e).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).contains(text)
}

/// All values of a record, as text to look for others in.
fn text(record: &MarcRecord<'_>) -> String {
    let mut text = String::new();
    for field in record.fields() {
        text.push_str(&show_tag(field.tag));
        text.push_str(field.data);
        text.push('\u{1e}');
    }
    text
}

#[test]
#[allow(clippy::too_many_lines)]
fn nothing_is_lost_that_pymarc_reads() {
    use RepairKind::{
        BaseAddress, Character, ControlCharacter, ControlField, Directory, Encoding, FieldPosition, Indicator, NoData, NoEntry, NoSubfield,
        SubfieldCode, Tag, Terminator,
    };
    let Some(python) = python() else { return };
    let number = std::env::var("STOOK_TEST_DAMAGED").ok().and_then(|number| number.parse().ok()).unwrap_or(DAMAGED);
    let (good, mut random) = (good_records(), Random(39));
    let damaged: Vec<Vec<u8>> = (0..number).map(|_| damage(&good[random.below(good.len())], &mut random)).collect();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-damaged", std::process::id()));
    let framed: Vec<u8> = damaged.iter().flat_map(|bytes| (bytes.len() as u32).to_be_bytes().into_iter().chain(bytes.iter().copied())).collect();
    std::fs::write(&file, framed).expect("a file");
    let script = repository().join("tests/reference/marc_permissive.py");
    let output = Command::new(&python).arg(script).arg(&file).env("PYTHONDONTWRITEBYTECODE", "1").output().expect("Python");
    std::fs::remove_file(&file).expect("a file");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<&str> = std::str::from_utf8(&output.stdout).expect("UTF-8").lines().collect();
    assert_eq!(theirs.len(), damaged.len());

    let (mut lost, mut differences) = (Vec::new(), BTreeMap::<&str, (usize, String)>::new());
    let mut count = |name: &'static str, example: &dyn Fn() -> String| {
        let entry = differences.entry(name).or_insert_with(|| (0, example()));
        entry.0 += 1;
    };
    for (bytes, theirs) in damaged.iter().zip(&theirs) {
        let theirs: serde_json::Value = serde_json::from_str(theirs).expect("JSON");
        let mut repairs = Repairs::default();
        let ours = MarcRecord::read(bytes, &ReadOptions::REPAIR, &mut repairs);
        let shown_repairs = || repairs.into_iter().map(|repair| format!("\n      {repair}")).collect::<String>();
        let (record, fields) = match (ours, theirs["fields"].as_array()) {
            (Ok(_), None) => {
                count("read here only", &|| theirs["error"].to_string());
                continue;
            }
            (Err(error), None) => {
                count("read by neither", &|| error.to_string());
                continue;
            }
            (Err(error), Some(_)) => {
                lost.push(format!("{error}: {:?}", String::from_utf8_lossy(bytes)));
                continue;
            }
            (Ok(record), Some(fields)) => (record, fields),
        };
        let ours = text(&record);
        let mut same = true;
        for field in fields {
            let tag = field[0].as_str().unwrap_or_default();
            let values: Vec<&str> = match field[3].as_array() {
                Some(subfields) => subfields.iter().filter_map(|subfield| subfield[1].as_str()).collect(),
                None => field[1].as_str().into_iter().collect(),
            };
            for value in values.into_iter().filter(|value| !value.is_empty() && !ours.contains(value)) {
                same = false;
                let shown = || format!("{tag} {value:?}{}", shown_repairs());
                // a value that begins or ends at a wrong position has parts of others in it, which are fields here
                let mut parts = value.split(['\u{1e}', '\u{1d}', '\u{1f}', '\0', '\u{fffd}']).filter(|part| part.chars().count() > 1);
                let found = parts.all(|part| ours.contains(part) || bytes_of_structure(bytes, part));
                let has = |kinds: &[RepairKind]| kinds.iter().any(|kind| repairs.has(*kind));
                let moved = has(&[FieldPosition, NoData, Directory, BaseAddress, NoEntry, Terminator]);
                match () {
                    () if found && moved => count("all text is there: fields that pymarc cuts at wrong positions, found by terminators here", &shown),
                    () if found && has(&[Character, ControlCharacter]) => {
                        count("all text is there: bytes that are no character, or structure records", &shown)
                    }
                    () if found => count("all text is there: subfields where none should be, or without a code", &shown),
                    () if has(&[Tag]) && !tag.bytes().all(|byte| byte.is_ascii_graphic()) => {
                        count("a field without a valid tag, left out and named here", &shown);
                    }
                    () if has(&[Tag, NoEntry]) => count("other fields of records of which a part was left out and named here", &shown),
                    () if has(&[Encoding]) => count("UTF-8 under a leader that says MARC-8, read as MARC-8 by pymarc", &shown),
                    () if bytes.get(9) != Some(&b'a') => count("MARC-8, of which pymarc drops control characters", &shown),
                    () if has(&[ControlField, SubfieldCode, NoSubfield, Indicator]) => count("other text between the parts of a field", &shown),
                    () if moved && has(&[Character]) => count("characters cut by wrong positions", &shown),
                    () => lost.push(format!("{}\n   {:?}", shown(), String::from_utf8_lossy(bytes))),
                }
            }
        }
        if same {
            count(if repairs.is_empty() { "the same, nothing repaired" } else { "the same, repaired" }, &shown_repairs);
        }
    }
    for (name, (number, example)) in &differences {
        println!("{number:6} {name}, as in {example}");
    }
    assert!(lost.is_empty(), "{} lost, as in\n{}", lost.len(), lost.iter().take(5).cloned().collect::<Vec<_>>().join("\n"));
}

#[test]
fn good_neighbours_are_never_lost() {
    let (good, mut random) = (good_records(), Random(1971));
    for _ in 0..10_000 {
        let [before, damaged, after] = [(); 3].map(|()| &good[random.below(good.len())]);
        let damaged = damage(damaged, &mut random);
        let file = [before.as_slice(), &damaged, after].concat();
        let whole =
            |bytes: &[u8]| MarcRecord::read(bytes, &ReadOptions::REPAIR, &mut Repairs::default()).map(|record| text(&record)).expect("it is good");
        let found: Vec<_> = scan::read(&file, ReadOptions::REPAIR).map(|found| found.map(|found| text(&found.record))).collect();
        assert_eq!(found.first(), Some(&Ok(whole(before))));
        assert_eq!(found.last(), Some(&Ok(whole(after))), "behind {:?}", String::from_utf8_lossy(&damaged));
    }
}
