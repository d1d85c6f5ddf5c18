//! One record made of several: the fields of one of them, and what the others keep or add.

use crate::marcspec::MarcSpec;
use crate::record::{MarcField, MarcRecord, SUBFIELD};
use crate::{MarcBuilder, MarcError};
use std::borrow::Cow;
use std::collections::HashSet;

const CONTROL_NUMBER: [u8; 3] = *b"001";
const AGENCY: [u8; 3] = *b"003";
const CHANGED: [u8; 3] = *b"005";

/// A field that a rule names: its tag, and its data as in [`MarcField::data`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldText {
    /// Three characters.
    pub tag: [u8; 3],
    /// Data without terminator.
    pub data: String,
}

/// How the fields of one record are chosen from several.
#[derive(Debug, Clone, Default)]
pub struct ComposeRules<'r> {
    /// Fields that a record keeps, whichever record the others are from: the number of that record, and its fields. Of several that keep the same
    /// fields the first one does.
    pub kept: Vec<(usize, &'r [MarcSpec])>,
    /// Fields of which every record gives its own, each once.
    pub united: &'r [MarcSpec],
    /// The tag of the field for the control numbers of the other records.
    pub other_numbers: Option<[u8; 3]>,
    /// Fields for a record that has none of their tag.
    pub defaults: &'r [FieldText],
}

/// Makes one record of several, in the order of MARC. It begins as the one with the number `base`; `changed` gives field 005 from the numbers of the
/// records that the result has something of. The same records in the same order give the same result.
///
/// # Errors
/// When a record has a tag that no record can be built with.
pub fn compose<'r>(
    records: &[&'r MarcRecord<'r>],
    base: usize,
    rules: &ComposeRules<'r>,
    changed: &dyn Fn(&[usize]) -> Option<String>,
) -> Result<MarcRecord<'static>, MarcError> {
    let mut composer = Composer { records, base, entries: Vec::new() };
    composer.entries.extend((0_u32..).zip(records[base].fields()).map(|(number, field)| Entry::of(base, number, field)));
    for (owner, specs) in rules.kept.iter().rev() {
        specs.iter().for_each(|spec| composer.keep(*owner, spec));
    }
    composer.follow_control_number();
    let others: Vec<usize> = (0..records.len()).filter(|number| *number != base).collect();
    for spec in rules.united {
        composer.unite(&others, spec);
    }
    let mut used: HashSet<usize> = composer.entries.iter().filter_map(|entry| Some(entry.from?.0)).chain([base]).collect();
    if let Some(tag) = rules.other_numbers {
        used.extend(composer.add_other_numbers(tag));
    }
    let present: HashSet<[u8; 3]> = composer.entries.iter().map(|entry| entry.tag).collect();
    for FieldText { tag, data } in rules.defaults.iter().filter(|default| !present.contains(&default.tag)) {
        composer.insert(Entry { tag: *tag, data: Cow::Borrowed(data), from: None });
    }
    let used: Vec<usize> = (0..records.len()).filter(|number| used.contains(number)).collect();
    if let Some(changed) = changed(&used) {
        composer.set(CHANGED, changed);
    }
    let mut builder = MarcBuilder::new(records[base].leader())?;
    for entry in &composer.entries {
        builder.field(MarcField { tag: entry.tag, data: &entry.data })?;
    }
    Ok(builder.finish())
}

/// A field of the result.
struct Entry<'r> {
    tag: [u8; 3],
    data: Cow<'r, str>,
    /// The record that it is from, and its number there.
    from: Option<(usize, u32)>,
}

impl<'r> Entry<'r> {
    fn of(record: usize, number: u32, field: MarcField<'r>) -> Self {
        Self { tag: field.tag, data: Cow::Borrowed(field.data), from: Some((record, number)) }
    }
}

struct Composer<'c, 'r> {
    records: &'c [&'r MarcRecord<'r>],
    base: usize,
    entries: Vec<Entry<'r>>,
}

impl<'r> Composer<'_, 'r> {
    /// Replaces the fields of a spec by those of the record that keeps them, if it has any.
    fn keep(&mut self, owner: usize, spec: &MarcSpec) {
        let own: Vec<u32> = spec.fields(self.records[owner]);
        if own.is_empty() {
            return;
        }
        let named: Vec<HashSet<u32>> = self.records.iter().map(|record| spec.fields(record).into_iter().collect()).collect();
        let is_named = |entry: &Entry<'_>| entry.from.is_some_and(|(record, number)| named[record].contains(&number));
        let present: Vec<(usize, u32)> = self.entries.iter().filter(|entry| is_named(entry)).filter_map(|entry| entry.from).collect();
        if present.iter().copied().eq(own.iter().map(|number| (owner, *number))) {
            return;
        }
        self.entries.retain(|entry| !is_named(entry));
        self.insert_all(owner, &own);
    }

    /// Field 003 says whose number 001 is: where 001 is not that of the record that the result begins as, 003 is of the same record as 001.
    fn follow_control_number(&mut self) {
        let Some((owner, _)) = self.entries.iter().find(|entry| entry.tag == CONTROL_NUMBER).and_then(|entry| entry.from) else { return };
        if owner == self.base || text_of(self.records[owner], CONTROL_NUMBER) == text_of(self.records[self.base], CONTROL_NUMBER) {
            return;
        }
        self.entries.retain(|entry| entry.tag != AGENCY);
        let own: Vec<u32> = self.records[owner].tagged(|tag| *tag == AGENCY).map(|(number, _)| number as u32).collect();
        self.insert_all(owner, &own);
    }

    /// Adds the fields of a spec that other records have and the result lacks.
    fn unite(&mut self, others: &[usize], spec: &MarcSpec) {
        for other in others {
            // one by one, because a record may repeat a field
            for number in spec.fields(self.records[*other]) {
                let Some(field) = self.records[*other].field_at(number) else { continue };
                if !self.entries.iter().any(|entry| entry.tag == field.tag && *entry.data == *field.data) {
                    self.insert(Entry::of(*other, number, field));
                }
            }
        }
    }

    /// Adds the control numbers of the other records as `$a` of a field, each after its agency in parentheses; returns the records whose numbers are new.
    fn add_other_numbers(&mut self, tag: [u8; 3]) -> Vec<usize> {
        let of = |name: [u8; 3], entries: &[Entry<'_>]| {
            entries.iter().find(|entry| entry.tag == name).map(|entry| entry.data.trim().to_owned()).unwrap_or_default()
        };
        let own = (of(CONTROL_NUMBER, &self.entries), of(AGENCY, &self.entries));
        let mut givers = Vec::new();
        for (giver, record) in self.records.iter().enumerate() {
            let (number, agency) = (text_of(record, CONTROL_NUMBER), text_of(record, AGENCY));
            // without an agency on either side, the same number is the same
            let is_own = number == own.0 && (agency == own.1 || agency.is_empty() || own.1.is_empty());
            if number.is_empty() || is_own {
                continue;
            }
            let text = if agency.is_empty() { number.to_owned() } else { format!("({agency}){number}") };
            let has_text = |entry: &Entry<'_>| {
                let field = MarcField { tag: entry.tag, data: &entry.data };
                entry.tag == tag && field.subfields().any(|(code, value)| code == "a" && value.trim() == text)
            };
            if !self.entries.iter().any(has_text) {
                self.insert(Entry { tag, data: format!("  {}a{text}", char::from(SUBFIELD)).into(), from: None });
                givers.push(giver);
            }
        }
        givers
    }

    /// Gives the result one field of a tag, where the first one was.
    fn set(&mut self, tag: [u8; 3], data: String) {
        let first = self.entries.iter().position(|entry| entry.tag == tag);
        self.entries.retain(|entry| entry.tag != tag);
        let entry = Entry { tag, data: data.into(), from: None };
        match first {
            Some(first) => self.entries.insert(first, entry),
            None => self.insert(entry),
        }
    }

    fn insert_all(&mut self, owner: usize, numbers: &[u32]) {
        let record = self.records[owner];
        for number in numbers {
            if let Some(field) = record.field_at(*number) {
                self.insert(Entry::of(owner, *number, field));
            }
        }
    }

    /// Inserts a field after the last one of its hundred whose tag is not greater, so that fields that a cataloguer has put in another order stay.
    fn insert(&mut self, entry: Entry<'r>) {
        let last = |precedes: &dyn Fn(&[u8; 3]) -> bool| self.entries.iter().rposition(|other| precedes(&other.tag)).map(|position| position + 1);
        let in_hundred = last(&|tag| tag[0] == entry.tag[0] && *tag <= entry.tag);
        let at = in_hundred.or_else(|| last(&|tag| tag[0] < entry.tag[0])).unwrap_or(0);
        self.entries.insert(at, entry);
    }
}

/// The text of the first field of a tag, without blanks around it.
fn text_of<'r>(record: &'r MarcRecord<'_>, tag: [u8; 3]) -> &'r str {
    record.tagged(|other| *other == tag).next().map_or("", |(_, field)| field.data.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Repairs, line};

    fn record(lines: &str) -> MarcRecord<'static> {
        line::read(format!("=LDR  00000nam a2200000 i 4500\n{lines}\n").as_bytes(), &crate::ReadOptions::STRICT, &mut Repairs::default())
            .expect("a record")
    }

    fn lines(record: &MarcRecord<'_>) -> Vec<String> {
        let text = line::write_nearest(record, &mut Repairs::default());
        text.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    fn specs(texts: &[&str]) -> Vec<MarcSpec> {
        texts.iter().map(|text| MarcSpec::parse(text).expect("a spec")).collect()
    }

    const FIRST: &str =
        "=001  n1\n=003  DLC\n=005  20240101000000.0\n=245  10$aSea\n=520  \\\\$aof LC\n=500  \\\\$anote\n=590  \\\\$aof LC\n=650  \\0$aSea";
    const OTHER: &str = "=001  77\n=003  DE-1\n=245  10$aother\n=590  \\\\$alocal\n=650  \\0$aSea\n=650  \\7$aMeer\n=945  \\\\$i1\n=910  \\\\$ax";

    #[test]
    fn fields_are_kept_united_and_added_in_their_order() {
        let (first, other) = (record(FIRST), record(OTHER));
        let (kept, united) = (specs(&["590", "9.."]), specs(&["650"]));
        let defaults = [FieldText { tag: *b"040", data: "  \u{1f}aDE-1".into() }, FieldText { tag: *b"245", data: "00\u{1f}anone".into() }];
        let rules = ComposeRules { kept: vec![(1, &kept)], united: &united, other_numbers: Some(*b"035"), defaults: &defaults };
        let composed = compose(&[&first, &other], 0, &rules, &|used| Some(format!("{used:?}"))).expect("it is built");
        let expected = [
            "=001  n1",
            "=003  DLC",
            "=005  [0,\\1]",
            "=035  \\\\$a(DE-1)77",
            "=040  \\\\$aDE-1",
            "=245  10$aSea",
            "=520  \\\\$aof LC",
            "=500  \\\\$anote",
            "=590  \\\\$alocal",
            "=650  \\0$aSea",
            "=650  \\7$aMeer",
            "=910  \\\\$ax",
            "=945  \\\\$i1",
        ];
        assert_eq!(lines(&composed), expected);
        // what was composed is not composed further
        let again = compose(&[&composed], 0, &ComposeRules { kept: Vec::new(), ..rules.clone() }, &|_| Some("[0, 1]".into())).expect("it is built");
        assert_eq!(again, composed);
    }

    #[test]
    fn a_control_number_that_is_kept_brings_its_agency_and_the_other_becomes_a_number() {
        let (first, other) = (record(FIRST), record("=001  77\n=245  10$aother"));
        let kept = specs(&["001"]);
        let rules = ComposeRules { kept: vec![(1, &kept)], other_numbers: Some(*b"035"), ..ComposeRules::default() };
        let composed = compose(&[&first, &other], 0, &rules, &|_| None).expect("it is built");
        assert_eq!(lines(&composed)[..4], ["=001  77", "=005  20240101000000.0", "=035  \\\\$a(DLC)n1", "=245  10$aSea"]);
        // the same number with an agency stays as it is
        let same = record("=001  n1\n=245  10$aother");
        let composed = compose(&[&first, &same], 0, &rules, &|_| None).expect("it is built");
        assert_eq!(lines(&composed)[..2], ["=001  n1", "=003  DLC"]);
    }

    #[test]
    fn an_update_is_what_other_systems_make_of_it() {
        // the stored record keeps its number and its identifiers; all else is of the incoming one, whose number becomes an 035
        let stored = record("=001  ybp7406411\n=856  40$uhttp://example.com\n=999  ff$s1$i2");
        let incoming = record("=001  ybp7406512\n=245  00$aNew\n=856  40$uhttp://proxy/example.com");
        let kept = specs(&["001", "999{^1=\\f}{^2=\\f}"]);
        let rules = ComposeRules { kept: vec![(1, &kept)], other_numbers: Some(*b"035"), ..ComposeRules::default() };
        let composed = compose(&[&incoming, &stored], 0, &rules, &|_| Some("20240101000000.0".into())).expect("it is built");
        let expected = [
            "=001  ybp7406411",
            "=005  20240101000000.0",
            "=035  \\\\$aybp7406512",
            "=245  00$aNew",
            "=856  40$uhttp://proxy/example.com",
            "=999  ff$s1$i2",
        ];
        assert_eq!(lines(&composed), expected);
        // the same number is not repeated, whoever says whose it is
        let incoming = record("=001  ybp7406411\n=003  DLC\n=245  00$aNew");
        let composed = compose(&[&incoming, &stored], 0, &rules, &|_| None).expect("it is built");
        assert_eq!(lines(&composed), ["=001  ybp7406411", "=003  DLC", "=245  00$aNew", "=999  ff$s1$i2"]);
    }

    #[test]
    fn of_several_that_keep_fields_the_first_one_does() {
        let (first, second, third) = (record(FIRST), record("=001  2\n=590  \\\\$atwo"), record("=001  3\n=590  \\\\$athree"));
        let kept = specs(&["590"]);
        let of = |kept: Vec<(usize, &[MarcSpec])>| {
            let rules = ComposeRules { kept, ..ComposeRules::default() };
            let composed = compose(&[&first, &second, &third], 0, &rules, &|_| None).expect("it is built");
            lines(&composed).into_iter().filter(|line| line.starts_with("=590")).collect::<Vec<_>>()
        };
        assert_eq!(of(vec![(1, &kept), (2, &kept)]), ["=590  \\\\$atwo"]);
        assert_eq!(of(vec![(2, &kept), (1, &kept)]), ["=590  \\\\$athree"]);
        assert_eq!(of(vec![(0, &kept), (1, &kept)]), ["=590  \\\\$aof LC"]);
    }
}
