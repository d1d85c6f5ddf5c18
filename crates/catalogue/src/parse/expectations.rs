//! Parses the expectations of a source's files.

use super::parser::DefinitionParser;
use super::rules::SourceContext;
use super::yaml::Node;
use crate::model::definition::{DocumentsExpectation, Expectation, ExpectationTest, Feed, FieldExpectation, ValueExpectation};
use crate::model::ids::{CollectionId, FieldId};
use crate::parse::keywords;

/// What an expectation is about, of which it has one.
const SUBJECTS: [&str; 3] = ["field", "documents", "fresh"];

impl DefinitionParser<'_> {
    pub(super) fn expectations(&mut self, node: Option<&Node>, feeds: &[Feed], context: &SourceContext<'_>) -> Vec<Expectation> {
        let items = self.items(node, "expect");
        items.iter().filter_map(|item| self.expectation(item, feeds, context)).collect()
    }

    fn expectation(&mut self, node: &Node, feeds: &[Feed], context: &SourceContext<'_>) -> Option<Expectation> {
        self.section(node, "an expectation", &[keywords::EXPECT])?;
        let stops = self.choice(node.get("do"), "choice for do", &[("warn", false), ("stop", true)]).unwrap_or(false);
        let subjects: Vec<&str> = SUBJECTS.into_iter().filter(|word| node.get(word).is_some()).collect();
        let [subject] = subjects.as_slice() else {
            let help =
                "for example: { field: iata, matches: '^[A-Z]{3}$', at_least: 95% }, { documents: { at_least: 1000, fewer: 20% } } or { fresh: 48h }";
            self.problem_with_help(node, "an expectation is about one of `field`, `documents` and `fresh`", help);
            return None;
        };
        if *subject != "field" {
            for word in ["matches", "present", "unique", "at_least"] {
                if let Some(own) = node.get(word) {
                    self.problem(own, format!("`{word}` is about the values of a `field`"));
                }
            }
        }
        let (test, text) = match *subject {
            "field" => {
                let expected = self.field_expectation(node, feeds, context)?;
                let (collection, field) = expected.field;
                let name = &context.collections[collection].fields[field].name;
                let share = if expected.at_least < 100.0 { format!(" in at least {}%", expected.at_least) } else { String::new() };
                let text = match &expected.values {
                    ValueExpectation::Present => format!("`{name}` is present{share}"),
                    ValueExpectation::Unique => format!("`{name}` is unique{share}"),
                    ValueExpectation::Matches(regex) => format!("`{name}` matches {regex}{share}"),
                };
                (ExpectationTest::Field(expected), text)
            }
            "documents" => {
                let expected = self.documents_expectation(node.get("documents")?)?;
                (ExpectationTest::Documents(expected), documents_text(&expected))
            }
            _ => {
                let node = node.get("fresh")?;
                let age = self.duration(node, "an age")?;
                (ExpectationTest::Fresh(age), format!("the newest document is at most {} old", node.text().unwrap_or_default()))
            }
        };
        Some(Expectation { test, stops, text })
    }

    fn field_expectation(&mut self, node: &Node, feeds: &[Feed], context: &SourceContext<'_>) -> Option<FieldExpectation> {
        let field = self.fed_field(node.get("field")?, feeds, context)?;
        let mut tests = Vec::new();
        for (word, test) in [("present", ValueExpectation::Present), ("unique", ValueExpectation::Unique)] {
            if self.boolean(node.get(word), word) {
                tests.push(test);
            }
        }
        if let Some(pattern) = node.get("matches") {
            tests.push(ValueExpectation::Matches(self.regex(pattern, str::to_owned)?));
        }
        let at_least = node.get("at_least").map_or(Some(100.0), |node| self.percent(node))?;
        match <[ValueExpectation; 1]>::try_from(tests) {
            Ok([values]) => Some(FieldExpectation { field, values, at_least }),
            Err(_) => {
                self.problem(node, "of a field one of these is expected: `matches: REGEX`, `present: true` or `unique: true`");
                None
            }
        }
    }

    /// The field of this name in the only collection with it that the source feeds, or `collection.field`.
    fn fed_field(&mut self, node: &Node, feeds: &[Feed], context: &SourceContext<'_>) -> Option<(CollectionId, FieldId)> {
        let text = self.text_of(node, "a field")?;
        let (wanted, name) = match text.split_once('.') {
            Some((collection, name)) => (Some(collection), name),
            None => (None, text),
        };
        let mut found = Vec::new();
        let mut known = Vec::new();
        for feed in feeds {
            let collection = &context.collections[feed.collection];
            if wanted.is_some_and(|wanted| wanted != collection.name) {
                continue;
            }
            for entry in &feed.map {
                let field = &collection.fields[entry.field];
                known.push(field.name.as_str());
                if field.name == name && !found.contains(&(feed.collection, entry.field)) {
                    found.push((feed.collection, entry.field));
                }
            }
        }
        match found.as_slice() {
            [only] => return Some(*only),
            [] => {
                let message = format!("this source gives no value to a field `{name}`");
                match crate::diagnostic::did_you_mean(name, known.iter().copied()) {
                    Some(similar) => self.problem_with_help(node, message, format!("did you mean `{similar}`?")),
                    None => self.problem_with_help(node, message, format!("its fields are {}", known.join(", "))),
                }
            }
            [(first, _), ..] => {
                let help = format!("write the collection before it: {}.{name}", context.collections[*first].name);
                self.problem_with_help(node, format!("`{name}` is a field of several collections that this source feeds"), help);
            }
        }
        None
    }

    fn documents_expectation(&mut self, node: &Node) -> Option<DocumentsExpectation> {
        self.section(node, "a number of documents", &[keywords::EXPECT_DOCUMENTS])?;
        let mut number = |word: &str| node.get(word).and_then(|node| self.number_of(node, word, 0..=u32::MAX)).map(u64::from);
        let (at_least, at_most) = (number("at_least"), number("at_most"));
        let fewer = node.get("fewer").and_then(|node| self.percent(node));
        let more = node.get("more").and_then(|node| self.growth(node));
        let expected = DocumentsExpectation { at_least, at_most, fewer, more };
        if expected == DocumentsExpectation::default() {
            self.problem(node, "say `at_least`, `at_most`, `fewer` or `more`: { at_least: 1000, fewer: 20% }");
            return None;
        }
        Some(expected)
    }

    /// A percentage that may be more than 100.
    fn growth(&mut self, node: &Node) -> Option<f64> {
        let text = self.text_of(node, "a share")?;
        let share = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok()).filter(|share| (0.0..=1e6).contains(share));
        if share.is_none() {
            self.problem(node, format!("`{text}` is not a percentage such as 50%"));
        }
        share
    }
}

fn documents_text(expected: &DocumentsExpectation) -> String {
    let documents = |number: u64| if number == 1 { "1 document".to_owned() } else { format!("{number} documents") };
    let DocumentsExpectation { at_least, at_most, fewer, more } = expected;
    let parts = [
        at_least.map(|number| format!("at least {}", documents(number))),
        at_most.map(|number| format!("at most {}", documents(number))),
        fewer.map(|share| format!("at most {share}% fewer documents than the file before")),
        more.map(|share| format!("at most {share}% more documents than the file before")),
    ];
    format!("the file has {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}
