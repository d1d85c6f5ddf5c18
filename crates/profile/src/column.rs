//! What is known of the values of one column, or of what one path finds: gathered value by value in bounded memory.

use crate::distinct::{DistinctValues, hash_of};
use crate::kind::{KINDS, Kind, KindCounts};
use crate::number::plain_number;
use crate::separated::SeparatedValues;
use std::collections::{BTreeMap, HashMap};

/// Texts that may stand for an absent value.
pub(crate) const NULL_TOKENS: [&str; 25] = [
    "\\N", "NULL", "null", "Null", "(null)", "#N/A", "N/A", "n/a", "<NA>", "#NULL!", "NA", "NaN", "nan", "None", "none", "nil", "-", "--", "—", "–",
    "?", ".", "..", "...", "-999",
];

/// Distinct texts that are counted one by one.
const COUNTED: usize = 1_000;
/// Bytes of a text that is shown or counted.
const SHOWN: usize = 80;
/// Examples that are kept.
const EXAMPLES: usize = 5;
/// Numbers that are kept for a histogram.
const SAMPLED_NUMBERS: usize = 1_000;

/// The type that a value has in its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// A text; the only type of tables, XML and MARC.
    Text,
    /// A number in JSON.
    Number,
    /// true or false in JSON.
    Boolean,
}

/// How many values have which type in their format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NativeCounts {
    /// Texts.
    pub texts: u64,
    /// Numbers in JSON.
    pub numbers: u64,
    /// true or false in JSON.
    pub booleans: u64,
    /// Objects in JSON, or elements in XML, that contain others.
    pub nested: u64,
    /// Lists in JSON that hold lists, null or a mixture.
    pub mixed: u64,
}

/// The profile of a column or of a path.
#[derive(Debug, Clone, Default)]
pub struct ColumnProfile {
    /// The column's name, or the path in the language of the format.
    pub path: String,
    /// Documents in which it has a value.
    pub documents: u64,
    /// Values; more than documents if a document has several.
    pub values: u64,
    /// The most values that a document has.
    pub most_in_document: u64,
    /// Their types in the format.
    pub native: NativeCounts,
    /// The distinct values.
    pub distinct: DistinctValues,
    /// The first values, each once.
    pub examples: Vec<String>,
    /// The number of characters of the shortest value.
    pub shortest: u64,
    /// The number of characters of the longest value.
    pub longest: u64,
    /// Values with white space around them.
    pub padded: u64,
    /// The least and the greatest text, shortened.
    pub texts: Option<(String, String)>,
    /// The numbers among the values.
    pub numbers: Numbers,
    /// Texts that may stand for an absent value, with their number; they are not among the values until [`ColumnProfile::take_tokens`].
    pub tokens: BTreeMap<String, u64>,
    /// The path of the list in whose elements this one is found.
    pub inside: Option<String>,
    /// Whether its values stand in lists of JSON, if only in lists of one.
    pub(crate) is_list: bool,
    /// Whether an element of that list may have several of its values.
    pub(crate) is_in_inner_list: bool,
    pub(crate) kinds: KindCounts,
    pub(crate) separated: SeparatedValues,
    pub(crate) counted: HashMap<String, u64>,
    /// Whether `counted` has every value.
    pub(crate) is_counted: bool,
    characters: u64,
}

/// Numbers of a column: their bounds, and a sample of them.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    /// How many there are.
    pub count: u64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    sample: Vec<f64>,
}

impl Numbers {
    fn add(&mut self, number: f64) {
        if self.count == 0 {
            (self.least, self.greatest) = (number, number);
        }
        (self.least, self.greatest) = (self.least.min(number), self.greatest.max(number));
        // a place in the sample for each number with the same chance; the same numbers give the same sample
        let place = (hash_of(&self.count.to_string()) % (self.count + 1)) as usize;
        self.count += 1;
        if self.sample.len() < SAMPLED_NUMBERS {
            self.sample.push(number);
        } else if place < SAMPLED_NUMBERS {
            self.sample[place] = number;
        }
    }

    /// The shares of the numbers in equal parts between the least and the greatest.
    pub fn histogram(&self, parts: usize) -> Vec<f64> {
        let width = (self.greatest - self.least) / parts as f64;
        let mut found = vec![0.0; parts];
        for number in &self.sample {
            let part = if width > 0.0 { ((number - self.least) / width) as usize } else { 0 };
            found[part.min(parts - 1)] += 1.0 / self.sample.len() as f64;
        }
        found
    }
}

impl ColumnProfile {
    pub(crate) fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), is_counted: true, ..Self::default() }
    }

    /// Adds a value, and returns its hash; texts that may stand for an absent value are only counted, if they are set apart.
    pub(crate) fn add(&mut self, text: &str, native: Native, sets_apart: bool) -> u64 {
        if sets_apart && (text.trim().is_empty() || NULL_TOKENS.contains(&text)) && (self.tokens.len() < 16 || self.tokens.contains_key(text)) {
            *self.tokens.entry(text.to_owned()).or_default() += 1;
            return hash_of(text);
        }
        match native {
            Native::Text => self.native.texts += 1,
            Native::Number => self.native.numbers += 1,
            Native::Boolean => self.native.booleans += 1,
        }
        self.add_times(text, 1)
    }

    fn add_times(&mut self, text: &str, times: u64) -> u64 {
        let hash = hash_of(text);
        let length = text.chars().count() as u64;
        self.shortest = if self.values == 0 { length } else { self.shortest.min(length) };
        self.longest = self.longest.max(length);
        let shown = shortened(text);
        self.count_text(shown, text.len(), times);
        match &mut self.texts {
            None => self.texts = Some((shown.to_owned(), shown.to_owned())),
            Some((least, _)) if shown < least.as_str() => shown.clone_into(least),
            Some((_, greatest)) if shown > greatest.as_str() => shown.clone_into(greatest),
            Some(_) => {}
        }
        let trimmed = text.trim();
        let number = plain_number(trimmed).or_else(|| self.written_number(trimmed)).map(|read| read.value);
        for _ in 0..times {
            self.values += 1;
            self.characters += length;
            self.padded += u64::from(trimmed.len() < text.len());
            self.distinct.add(hash);
            self.kinds.add(text);
            self.separated.add(text);
            if let Some(number) = number {
                self.numbers.add(number);
            }
        }
        hash
    }

    fn count_text(&mut self, shown: &str, length: usize, times: u64) {
        if self.examples.len() < EXAMPLES && !self.examples.iter().any(|example| example == shown) {
            self.examples.push(shown.to_owned());
        }
        let is_whole = shown.len() == length;
        if let Some(count) = self.counted.get_mut(shown).filter(|_| is_whole) {
            *count += times;
        } else if self.counted.len() < COUNTED && is_whole {
            self.counted.insert(shown.to_owned(), times);
        } else {
            self.is_counted = false;
        }
    }

    fn written_number(&self, text: &str) -> Option<crate::number::ReadNumber> {
        let forms = KINDS.iter().filter_map(|kind| if let Kind::Written(form) = kind { Some(*form) } else { None });
        // a column of texts has given up all forms, and is not searched for numbers any more
        forms.filter(|form| self.kinds.of(Kind::Written(*form)) * 2 >= self.values).find_map(|form| form.read(text))
    }

    /// Makes texts that were set apart values like others: in this column, they do not stand for an absent value.
    pub(crate) fn take_tokens(&mut self, is_value: impl Fn(&str) -> bool) {
        let (taken, left) = std::mem::take(&mut self.tokens).into_iter().partition(|(token, _)| is_value(token));
        self.tokens = left;
        for (token, times) in taken {
            self.native.texts += times;
            self.documents += times;
            self.most_in_document = self.most_in_document.max(1);
            self.add_times(&token, times.min(2));
            self.values += times - times.min(2);
        }
    }

    /// The mean number of characters.
    pub fn mean_length(&self) -> f64 {
        self.characters as f64 / self.values.max(1) as f64
    }

    /// The most frequent values with their numbers, as far as they were counted one by one.
    pub fn frequent(&self, most: usize) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self.counted.iter().map(|(text, count)| (text.as_str(), *count)).collect();
        all.sort_unstable_by(|(one, often), (other, seldom)| seldom.cmp(often).then(one.cmp(other)));
        all.truncate(most);
        all
    }
}

/// The beginning of a text, as far as it is shown.
pub(crate) fn shortened(text: &str) -> &str {
    if text.len() <= SHOWN {
        return text;
    }
    let end = (0..=SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
