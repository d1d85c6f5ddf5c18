//! Parses texts to [`Query`]. An error has its position in the text, and suggests what could be written there.

use super::combined::{Alternatives, COMBINED_HELP};
use super::syntax::{
    ComparisonOperator, ConditionTree, FieldPath, GrepItem, GroupFunction, GroupItem, Query, QueryCondition, Selection, SortItem, Stage, ValueLiteral,
};
use super::tokens::{ends_bare, leading_name};
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_store::plan::{ALL_VALUES, AggregateFunction, FUNCTIONS, PERCENTILE, PERIODS, Period};

/// The maximum length of a query, in bytes.
pub const MAX_QUERY: usize = 64 << 10;

/// The maximum number of conditions of a query; the values of a list do not count.
pub const MAX_CONDITIONS: usize = 200;

/// The maximum number of fields that a query sorts by, and of aggregates.
pub const MAX_PARTS: usize = 100;

/// The maximum number of columns by which rows are grouped.
pub const MAX_GROUP_COLUMNS: usize = 4;

/// The maximum number of wildcards in a value.
pub const MAX_STARS: usize = 100;

/// Parses a query.
///
/// # Errors
/// The first position at which the text does not follow the grammar, and what was expected there.
pub fn parse(text: &str) -> Result<Query, Diagnostic> {
    if text.len() > MAX_QUERY {
        let message = format!("a query has at most {MAX_QUERY} bytes, this one has {}", text.len());
        return Err(Diagnostic::new(0..0, message).help("ask for a part of the values at a time"));
    }
    if let Some(at) = text.find('\0') {
        return Err(Diagnostic::new(at..at + 1, "a query has no NUL character").help("no stored text has one either"));
    }
    let mut parser = QueryParser { text, at: 0, condition_end: 0, conditions: 0, criteria: 0, aggregates: 0 };
    let lookup = parser.lookup()?;
    let mut stages: Vec<Stage> = Vec::new();
    while parser.eat("|") {
        stages.push(parser.stage()?);
    }
    Ok(Query { lookup, stages })
}

pub(super) struct QueryParser<'t> {
    text: &'t str,
    pub(super) at: usize,
    /// The end of the last condition, with the parentheses around it.
    pub(super) condition_end: usize,
    /// Number of conditions so far.
    conditions: usize,
    /// Number of sort fields so far.
    criteria: usize,
    /// Number of aggregates so far.
    aggregates: usize,
}

const STAGE_NAMES: [&str; 12] = ["grep", "sort", "limit", "unique", "each", "sum", "count", "min", "max", "avg", "median", PERCENTILE];

/// How rows are grouped.
const BY_HELP: &str = "aggregates come first, then `by`: | count(key) by status";

/// Comparisons that are words.
const COMPARISON_WORDS: [(&str, ComparisonOperator); 5] = [
    ("in", ComparisonOperator::In),
    ("between", ComparisonOperator::Between),
    ("last", ComparisonOperator::Last),
    ("intersects", ComparisonOperator::Intersects),
    ("within", ComparisonOperator::Within),
];

const COMPARISONS: &str = "= != < <= > >= ~ in between last intersects within";

const BBOX_HELP: &str =
    "for example: intersects bbox(5, 45, 15, 55), which is west, south, east and north in degrees, or intersects \"POINT(14.5 50)\"";

const QUOTES_HELP: &str = "a value with blanks, quotes or any of , | [ ] ( ) = < > ! needs quotes around it";

/// "is 1", "are 2".
fn count_phrase(count: usize) -> String {
    if count == 1 { "is 1".to_owned() } else { format!("are {count}") }
}

/// Whether a text begins with a comparison, so that what stands before it is the name of a field.
pub(super) fn is_compared(text: &str) -> bool {
    let text = text.trim_start();
    let word = leading_name(text);
    match word {
        "in" | "between" => text[word.len()..].trim_start().starts_with('['),
        "last" | "intersects" | "within" => true,
        _ => text.starts_with(['=', '!', '<', '>', '~']),
    }
}

impl QueryParser<'_> {
    pub(super) fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    pub(super) fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    pub(super) fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.rest().is_empty()
    }

    /// An error about what comes next: a word, or one character.
    pub(super) fn error(&self, message: impl Into<String>) -> Diagnostic {
        let rest = self.rest();
        let word = rest.find(ends_bare).unwrap_or(rest.len());
        let length = if word > 0 { word } else { rest.chars().next().map_or(0, char::len_utf8) };
        Diagnostic::new(self.at..self.at + length, message)
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn lookup(&mut self) -> Result<Selection, Diagnostic> {
        if self.at_end() {
            return Err(self.error("a query begins with a collection").help("for example: authority heading=Smith*"));
        }
        let mut collection = self.path("a collection", "for example: authority heading=Smith*")?;
        // the alternatives, each with conditions all of which must hold
        let mut alternatives = Alternatives::default();
        let mut first_condition = None;
        let mut extra_names: Vec<(FieldPath, Box<Diagnostic>)> = Vec::new();
        // the first name without a comparison selects the collection; if there is none, the first name does
        let mut has_only_names = true;
        if let Some(operator) = self.operator() {
            first_condition = Some(collection.span.start);
            alternatives.add(ConditionTree::One(self.comparison(collection.clone(), operator)?));
            has_only_names = false;
        }
        loop {
            let comma = self.eat(",");
            if !alternatives.is_empty() {
                self.word_between(&mut alternatives)?;
            }
            if self.at_end() || self.rest().starts_with('|') {
                if comma {
                    let problem = self.error("expected a condition after `,`").help("leave out the last `,`");
                    return Err(extra_names.into_iter().next().map_or(problem, |(_, first)| *first));
                }
                let open_alternatives = first_condition.filter(|_| alternatives.are_several());
                let (conditions, combined) = alternatives.split();
                let names = extra_names.iter().map(|(path, _)| path.span.end).chain([collection.span.end]);
                let end = names.chain([self.condition_end]).max().unwrap_or(self.at);
                return Ok(Selection { collection, extra_names, conditions, combined, given: Vec::new(), open_alternatives, end });
            }
            if self.is_combined() {
                first_condition = first_condition.or(Some(self.at));
                alternatives.add(self.tree(0)?);
                continue;
            }
            let path = self.path("a condition, `|` or the end", QUOTES_HELP)?;
            match self.operator() {
                Some(operator) => {
                    first_condition = first_condition.or(Some(path.span.start));
                    alternatives.add(ConditionTree::One(self.comparison(path, operator)?));
                }
                None if !has_only_names && self.continues_after_name() => (collection, has_only_names) = (path, true),
                None if extra_names.len() < MAX_PARTS && !STAGE_NAMES.contains(&path.text.as_str()) && self.continues_after_name() => {
                    let problem = self.missing_comparison(&path);
                    extra_names.push((path, Box::new(problem)));
                }
                None => return Err(self.missing_comparison(&path)),
            }
        }
    }

    /// Whether a name may end here: another name, a stage or nothing follows, but not a misspelt operator.
    fn continues_after_name(&mut self) -> bool {
        let (is_at_end, word) = (self.at_end(), leading_name(self.rest()).to_ascii_lowercase());
        // a word of two letters is similar to too many others
        let long_words = COMPARISON_WORDS.iter().map(|(known, _)| *known).filter(|known| *known != "in");
        let is_operator = word == "in" || did_you_mean(&word, long_words).is_some();
        is_at_end || self.rest().starts_with(['|', ',']) || !(word.is_empty() || is_operator)
    }

    /// The error for a name that is followed by something else than a comparison.
    pub(super) fn missing_comparison(&self, path: &FieldPath) -> Diagnostic {
        let name = path.text.as_str();
        if name.eq_ignore_ascii_case("and") || name.eq_ignore_ascii_case("or") {
            return Diagnostic::new(path.span.clone(), format!("expected a condition before `{name}`")).help(COMBINED_HELP);
        }
        if name.eq_ignore_ascii_case("by") || (name.eq_ignore_ascii_case("group") && leading_name(self.rest()).eq_ignore_ascii_case("by")) {
            return Diagnostic::new(path.span.clone(), "rows are grouped in a stage").help(BY_HELP);
        }
        if STAGE_NAMES.contains(&name) {
            return Diagnostic::new(path.span.clone(), format!("`{name}` is a stage")).help(format!("stages begin with `|`: | {name}"));
        }
        let problem = self.error(format!("expected a comparison after `{name}`: {COMPARISONS}"));
        if self.rest().starts_with("!~") {
            return problem.help(format!("`not` negates a search for words: not {name} ~ word"));
        }
        let word = leading_name(self.rest()).to_ascii_lowercase();
        match did_you_mean(&word, COMPARISON_WORDS.iter().map(|(known, _)| *known)).filter(|_| !word.is_empty()) {
            Some(suggestion) => problem.help(format!("did you mean `{suggestion}`?")),
            None => problem.help(format!("for example {name}=value; or, if `{name}` belongs to a value, quotes around all of it")),
        }
    }

    pub(super) fn path(&mut self, expected: &str, help: &str) -> Result<FieldPath, Diagnostic> {
        self.skip_blanks();
        let length = leading_name(self.rest()).len();
        if length == 0 {
            return Err(self.error(format!("expected {expected}")).help(help));
        }
        let span = self.at..self.at + length;
        self.at += length;
        Ok(FieldPath { text: self.text[span.clone()].to_owned(), span })
    }

    pub(super) fn operator(&mut self) -> Option<ComparisonOperator> {
        self.skip_blanks();
        let symbols = [
            ("!=", ComparisonOperator::NotEqual),
            ("<=", ComparisonOperator::AtMost),
            (">=", ComparisonOperator::AtLeast),
            ("=", ComparisonOperator::Equal),
            ("<", ComparisonOperator::Less),
            (">", ComparisonOperator::Greater),
            ("~", ComparisonOperator::Words),
        ];
        if let Some((symbol, operator)) = symbols.into_iter().find(|(symbol, _)| self.rest().starts_with(symbol)) {
            self.at += symbol.len();
            return Some(operator);
        }
        let word = leading_name(self.rest());
        let operator = COMPARISON_WORDS.into_iter().find(|(known, _)| *known == word).map(|(_, operator)| operator)?;
        // a comparison after this word means that it is the name of a field
        if is_compared(&self.rest()[word.len()..]) {
            return None;
        }
        self.at += word.len();
        Some(operator)
    }

    pub(super) fn comparison(&mut self, path: FieldPath, operator: ComparisonOperator) -> Result<QueryCondition, Diagnostic> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            return Err(
                Diagnostic::new(path.span, format!("a query has at most {MAX_CONDITIONS} conditions")).help("`in [a, b]` takes any number of values")
            );
        }
        let start = path.span.start;
        let values = match operator {
            ComparisonOperator::In => self.list("`in` takes a list in brackets: in [a, b]")?,
            ComparisonOperator::Between => {
                self.skip_blanks();
                let at = self.at;
                let values = self.list("`between` takes two values in brackets: between [1, 5]")?;
                if values.len() != 2 {
                    let message = format!("expected two values, there {}", count_phrase(values.len()));
                    return Err(Diagnostic::new(at..self.at, message).help("for example: between [1, 5]"));
                }
                values
            }
            ComparisonOperator::Intersects | ComparisonOperator::Within => self.geometry()?,
            _ => {
                self.skip_blanks();
                if self.rest().starts_with('[') {
                    let example = if operator == ComparisonOperator::Last { "last 24h".to_owned() } else { format!("{} in [a, b]", path.text) };
                    return Err(self.error("expected one value, not a list").help(format!("for example: {example}")));
                }
                vec![self.value()?]
            }
        };
        self.condition_end = self.at;
        Ok(QueryCondition { path, operator, values, span: start..self.at })
    }

    fn list(&mut self, help: &str) -> Result<Vec<ValueLiteral>, Diagnostic> {
        if !self.eat("[") {
            return Err(self.error("expected a list").help(help));
        }
        let mut values = vec![self.value()?];
        while self.eat(",") {
            values.push(self.value()?);
        }
        if !self.eat("]") {
            return Err(self.error("expected `,` or `]`").help(QUOTES_HELP));
        }
        Ok(values)
    }

    /// Parses a box, which has four sides, or one quoted text.
    fn geometry(&mut self) -> Result<Vec<ValueLiteral>, Diagnostic> {
        self.skip_blanks();
        if self.rest().starts_with(['"', '\'']) {
            return Ok(vec![self.value()?]);
        }
        let word = leading_name(self.rest());
        let has_parenthesis = self.rest()[word.len()..].trim_start().starts_with('(');
        if word != "bbox" || !has_parenthesis {
            let problem = self.error("expected `bbox(west, south, east, north)`, or a geometry in quotes");
            return Err(match did_you_mean(&word.to_ascii_lowercase(), ["bbox"]).filter(|_| has_parenthesis) {
                Some(suggestion) => problem.help(format!("did you mean `{suggestion}`?")),
                None => problem.help(BBOX_HELP),
            });
        }
        let start = self.at;
        self.at += word.len();
        self.eat("(");
        let mut sides = Vec::with_capacity(4);
        loop {
            self.skip_blanks();
            if self.rest().starts_with(')') {
                break;
            }
            sides.push(self.value()?);
            if !self.eat(",") {
                break;
            }
        }
        if !self.eat(")") {
            return Err(self.error("expected `,` or `)`").help(BBOX_HELP));
        }
        if sides.len() != 4 {
            return Err(Diagnostic::new(start..self.at, format!("expected four sides of a box, there {}", count_phrase(sides.len()))).help(BBOX_HELP));
        }
        Ok(sides)
    }

    fn value(&mut self) -> Result<ValueLiteral, Diagnostic> {
        self.skip_blanks();
        let start = self.at;
        let value = match self.rest().chars().next() {
            Some('\'') => {
                let Some(length) = self.text[start + 1..].find('\'') else { return Err(self.unclosed_quote()) };
                self.at = start + length + 2;
                ValueLiteral { pieces: vec![self.text[start + 1..start + 1 + length].to_owned()], span: start..self.at }
            }
            Some('"') => self.double_quoted(start)?,
            _ => {
                let length = self.rest().find(ends_bare).unwrap_or(self.rest().len());
                if length == 0 {
                    let help =
                        if self.rest().starts_with(['=', '<', '>', '!']) { format!("comparisons are {COMPARISONS}") } else { QUOTES_HELP.to_owned() };
                    return Err(self.error("expected a value").help(help));
                }
                self.at += length;
                let pieces = self.text[start..self.at].split('*').map(str::to_owned).collect();
                ValueLiteral { pieces, span: start..self.at }
            }
        };
        if value.pieces.len() > MAX_STARS + 1 {
            return Err(Diagnostic::new(value.span, format!("a value has at most {MAX_STARS} `*`")).help("in single quotes it is a star"));
        }
        let next = self.rest().chars().next();
        let is_quoted = self.text[start..].starts_with(['"', '\'']);
        match next {
            Some('"' | '\'') => {
                Err(self.error("there is a quote inside a value").help("put all of the value into the other kind of quotes: \"O'Neil\""))
            }
            Some(other) if is_quoted && !ends_bare(other) => {
                Err(self.error("the value continues after its closing quote").help("put the entire value in quotes, followed by a space or `,`"))
            }
            _ => Ok(value),
        }
    }

    fn unclosed_quote(&self) -> Diagnostic {
        Diagnostic::new(self.at..self.at + 1, "this quote is never closed").help("a quote inside a value needs the other kind of quotes around it")
    }

    fn double_quoted(&mut self, start: usize) -> Result<ValueLiteral, Diagnostic> {
        let mut pieces = vec![String::new()];
        let mut characters = self.text[start + 1..].char_indices();
        while let Some((offset, character)) = characters.next() {
            match character {
                '"' => {
                    self.at = start + 1 + offset + 1;
                    return Ok(ValueLiteral { pieces, span: start..self.at });
                }
                '*' => pieces.push(String::new()),
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\' | '*'))) => push(&mut pieces, escaped),
                    other => {
                        push(&mut pieces, '\\');
                        if let Some((_, other)) = other {
                            push(&mut pieces, other);
                        }
                    }
                },
                other => push(&mut pieces, other),
            }
        }
        Err(self.unclosed_quote())
    }

    fn stage(&mut self) -> Result<Stage, Diagnostic> {
        let name = self.path("a stage", &format!("stages are {}", STAGE_NAMES.join(", ")))?;
        let stage = match name.text.as_str() {
            "grep" => self.grep()?,
            "sort" => self.sort()?,
            "unique" => Stage::Unique,
            "limit" => Stage::Limit(self.limit()?),
            "each" => Stage::Each(self.path("a list", "`each` takes a list of structs: each replica")?),
            _ => self.aggregates(name)?,
        };
        if self.at_end() || self.rest().starts_with('|') {
            return Ok(stage);
        }
        Err(match stage {
            Stage::Unique => self.error("expected `|` or the end").help("`unique` is about whole rows; `grep` chooses their columns"),
            Stage::Limit(_) => self.error("expected `|` or the end").help("`limit` takes one number: limit 10"),
            Stage::Each(_) => self.error("expected `|` or the end").help("`each` takes one list"),
            Stage::Sort(_) => {
                self.error("expected `,`, `|` or the end").help("fields are separated by `,`, and `-` after one sorts it in descending order")
            }
            Stage::Grep(_) => self.error("expected `,`, `|` or the end").help("fields and conditions are separated by `,`"),
            Stage::Aggregates(_, by) if by.is_empty() => {
                self.error("expected `,`, `by`, `|` or the end").help("aggregates are separated by `,`; `by` and fields after them group the rows")
            }
            Stage::Aggregates(..) => self.error("expected `,`, `|` or the end").help("the fields after `by` are separated by `,`"),
        })
    }

    fn limit(&mut self) -> Result<u64, Diagnostic> {
        const EXAMPLE: &str = "for example: limit 10";
        let number = self.path("a number of rows", EXAMPLE)?;
        let problem = || Diagnostic::new(number.span.clone(), format!("`{}` is not a number of rows", number.text));
        number.text.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| problem().help(EXAMPLE))
    }

    fn grep(&mut self) -> Result<Stage, Diagnostic> {
        let mut items = Vec::new();
        loop {
            if self.is_combined() {
                items.push(GrepItem::Combined(self.alternatives(0)?));
            } else {
                let path = self.path("a field", "`grep` takes fields to show and conditions: grep name, size>5")?;
                items.push(match self.operator() {
                    Some(operator) => {
                        let first = ConditionTree::One(self.comparison(path, operator)?);
                        match self.rest_of_alternatives(first, 0)? {
                            ConditionTree::One(condition) => GrepItem::Condition(condition),
                            combined => GrepItem::Combined(combined),
                        }
                    }
                    None => GrepItem::Column(path),
                });
            }
            if !self.eat(",") {
                return Ok(Stage::Grep(items));
            }
        }
    }

    fn sort(&mut self) -> Result<Stage, Diagnostic> {
        let mut order = Vec::new();
        loop {
            let name = self.path("a field", "write `-` after the field: sort size-")?;
            let (function, path) = match self.eat("(") {
                true => self.group_function(&name).map(|(function, path)| (Some(function), path))?,
                false => (None, name),
            };
            let descending = self.eat("-");
            self.criteria += 1;
            if self.criteria > MAX_PARTS {
                return Err(Diagnostic::new(path.span, format!("a query sorts by at most {MAX_PARTS} fields")).help("ties are broken by key"));
            }
            order.push(SortItem { function, path, descending });
            if !self.eat(",") {
                return Ok(Stage::Sort(order));
            }
        }
    }

    fn aggregates(&mut self, first: FieldPath) -> Result<Stage, Diagnostic> {
        let mut aggregates = Vec::new();
        let mut name = first;
        loop {
            if !is_aggregate(&name.text) {
                return Err(unknown_function(&name, aggregates.is_empty()));
            }
            if !self.eat("(") {
                let example = match name.text.as_str() {
                    PERCENTILE => "percentile(field, 95)".to_owned(),
                    name => format!("{name}(field)"),
                };
                return Err(self.error("expected `(`").help(format!("an aggregate names its field: {example}")));
            }
            aggregates.push(self.aggregate(&name)?);
            self.aggregates += 1;
            if self.aggregates > MAX_PARTS {
                return Err(Diagnostic::new(name.span, format!("a query has at most {MAX_PARTS} aggregates")).help("ask for some of them at a time"));
            }
            if !self.eat(",") {
                let by = self.groups()?;
                return Ok(Stage::Aggregates(aggregates, by));
            }
            name = self.path("an aggregate", "for example: sum(size), count(key)")?;
        }
    }

    /// Parses what follows the parenthesis after the name of an aggregate.
    fn aggregate(&mut self, name: &FieldPath) -> Result<(AggregateFunction, FieldPath), Diagnostic> {
        let is_percentile = name.text == PERCENTILE;
        let example = if is_percentile { "percentile(field, 95)".to_owned() } else { format!("{}(field)", name.text) };
        let mut path = self.path("a field", &format!("an aggregate names its field: {example}"))?;
        self.skip_blanks();
        // a field may be called `distinct`, too
        let is_distinct = name.text == AggregateFunction::Count.name() && path.text == "distinct" && !leading_name(self.rest()).is_empty();
        if is_distinct {
            path = self.path("a field", "for example: count(distinct status)")?;
        }
        let function = if is_distinct {
            AggregateFunction::CountDistinct
        } else if is_percentile {
            if !self.eat(",") {
                return Err(self.error("expected `,` and a percentile").help(format!("for example: percentile({}, 95)", path.text)));
            }
            let number = self.path("a percentile", &format!("for example: percentile({}, 95)", path.text))?;
            AggregateFunction::Percentile(percentile(&number, &path)?)
        } else {
            let function = FUNCTIONS.iter().find(|(_, known)| *known == name.text).map(|(function, _)| *function);
            function.ok_or_else(|| unknown_function(name, false))?
        };
        if !self.eat(")") {
            let help = match is_percentile {
                true => format!("a percentile is of one field: percentile({}, 95)", path.text),
                false => format!("an aggregate is about one field: {}({})", name.text, path.text),
            };
            return Err(self.error("expected `)`").help(help));
        }
        Ok((function, path))
    }

    /// Parses what follows the parenthesis after the name of a function in `sort`.
    fn group_function(&mut self, name: &FieldPath) -> Result<(GroupFunction, FieldPath), Diagnostic> {
        if is_aggregate(&name.text) {
            return self.aggregate(name).map(|(function, path)| (GroupFunction::Aggregate(function), path));
        }
        let known = FUNCTIONS.iter().map(|(_, name)| *name).chain([PERCENTILE]).chain(PERIODS.iter().map(|(_, name)| *name));
        let period = period_of(name, known)?;
        Ok((GroupFunction::Period(period), self.period(name)?))
    }

    /// Parses what follows the parenthesis after the name of a period.
    fn period(&mut self, name: &FieldPath) -> Result<FieldPath, Diagnostic> {
        let path = self.path("a field", &format!("a period is of one field: {}(field)", name.text))?;
        if !self.eat(")") {
            return Err(self.error("expected `)`").help(format!("a period is of one field: {}({})", name.text, path.text)));
        }
        Ok(path)
    }

    /// Parses `by` and the columns after it, if they follow.
    fn groups(&mut self) -> Result<Vec<GroupItem>, Diagnostic> {
        self.skip_blanks();
        let word = leading_name(self.rest());
        if word.eq_ignore_ascii_case("group") {
            return Err(self.error("rows are grouped by `by` alone").help("leave out `group`: count(key) by status"));
        }
        if word != "by" {
            let is_meant = word.eq_ignore_ascii_case("by");
            return if is_meant {
                Err(self.error(format!("`{word}` is written `by`")).help("words are written in small letters"))
            } else {
                Ok(Vec::new())
            };
        }
        self.at += word.len();
        let mut groups: Vec<GroupItem> = Vec::new();
        loop {
            let name = self.path("a field", "`by` takes fields, and periods of times: by status, month(changed)")?;
            let span = name.span.clone();
            let group = if self.eat("(") {
                if is_aggregate(&name.text) {
                    let problem = Diagnostic::new(name.span.clone(), format!("`{}` is an aggregate", name.text));
                    return Err(problem.help(BY_HELP));
                }
                let period = period_of(&name, PERIODS.iter().map(|(_, name)| *name))?;
                GroupItem { period: Some(period), path: self.period(&name)? }
            } else {
                GroupItem { period: None, path: name }
            };
            groups.push(group);
            if groups.len() > MAX_GROUP_COLUMNS {
                return Err(Diagnostic::new(span, format!("rows are grouped by at most {MAX_GROUP_COLUMNS} columns"))
                    .help("ask twice, with some of them each time"));
            }
            if !self.eat(",") {
                return Ok(groups);
            }
        }
    }
}

fn is_aggregate(name: &str) -> bool {
    name == PERCENTILE || FUNCTIONS.iter().any(|(_, known)| *known == name)
}

/// The period with this name; in the error, `known` are the names that were possible.
fn period_of<'n>(name: &FieldPath, known: impl Iterator<Item = &'n str> + Clone) -> Result<Period, Diagnostic> {
    let period = PERIODS.iter().find(|(_, known)| *known == name.text).map(|(period, _)| *period);
    period.ok_or_else(|| {
        let problem = Diagnostic::new(name.span.clone(), format!("there is no function `{}` here", name.text));
        match did_you_mean(&name.text, known.clone()) {
            Some(suggestion) => problem.help(format!("did you mean `{suggestion}`?")),
            None => problem.help(format!("functions are {}", known.collect::<Vec<_>>().join(", "))),
        }
    })
}

/// A percentile as written, in hundredths of a percent.
fn percentile(number: &FieldPath, path: &FieldPath) -> Result<u16, Diagnostic> {
    let (whole, fraction) = number.text.split_once('.').unwrap_or((&number.text, "0"));
    let is_number = [whole, fraction].iter().all(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()));
    let hundredths = (is_number && fraction.len() <= 2).then(|| format!("{whole}{fraction:0<2}").parse().ok()).flatten();
    hundredths.filter(|hundredths| *hundredths <= ALL_VALUES).ok_or_else(|| {
        let problem = Diagnostic::new(number.span.clone(), format!("`{}` is not a percentile", number.text));
        problem.help(format!("a number from 0 to 100, with at most two decimals: percentile({}, 99.9)", path.text))
    })
}

/// The error for a name that is no function, at the beginning of a stage or in a list of aggregates.
fn unknown_function(name: &FieldPath, begins_stage: bool) -> Diagnostic {
    let problem = |expected: &str| Diagnostic::new(name.span.clone(), format!("`{}` is not {expected}", name.text));
    if begins_stage {
        if ["by", "group"].iter().any(|word| name.text.eq_ignore_ascii_case(word)) {
            return problem("a stage").help(BY_HELP);
        }
        return match did_you_mean(&name.text, STAGE_NAMES) {
            Some(suggestion) => problem("a stage").help(format!("did you mean `{suggestion}`?")),
            None => problem("a stage").help(format!("stages are {}", STAGE_NAMES.join(", "))),
        };
    }
    if STAGE_NAMES.contains(&name.text.as_str()) {
        return problem("an aggregate").help(format!("stages begin with `|`: | {}", name.text));
    }
    let functions: Vec<&str> = FUNCTIONS.iter().map(|(_, function)| *function).chain([PERCENTILE]).collect();
    match did_you_mean(&name.text, functions.iter().copied()) {
        Some(suggestion) => problem("an aggregate").help(format!("did you mean `{suggestion}`?")),
        None => problem("an aggregate").help(format!("aggregates are {}", functions.join(", "))),
    }
}

fn push(pieces: &mut [String], character: char) {
    if let Some(last) = pieces.last_mut() {
        last.push(character);
    }
}
