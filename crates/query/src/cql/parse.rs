//! Reads a query in CQL 1.2: clauses with an index, a relation and a term, `and`, `or`, `not`, parentheses, and `sortBy`.

use super::CqlDiagnostic;

/// The maximum length of a query, in bytes.
const MAX_BYTES: usize = 8 << 10;
/// The maximum number of clauses.
const MAX_CLAUSES: usize = 50;
/// The maximum number of parentheses inside each other.
const MAX_DEPTH: usize = 32;

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlQuery {
    /// What is searched.
    pub clause: Clause,
    /// The order of the result.
    pub sort: Vec<CqlSort>,
}

/// A key of the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlSort {
    /// The index.
    pub index: String,
    /// Whether the largest comes first.
    pub descending: bool,
}

/// A part of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clause {
    /// A comparison.
    Term {
        /// The index; empty if the query names none.
        index: String,
        /// How it is compared.
        relation: Relation,
        /// With what, without the quotes; escapes are kept.
        term: String,
    },
    /// Two parts.
    Both(Boolean, Box<[Clause; 2]>),
}

/// How two parts are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boolean {
    /// Both must hold.
    And,
    /// One must hold.
    Or,
    /// The first must hold, and the second must not.
    Not,
}

/// How an index is compared with a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `=`, `adj` or none: as is usual for the index.
    Usual,
    /// `==` or `exact`.
    Exact,
    /// `any`: one of the words.
    Any,
    /// `all`: all words.
    All,
    /// `<>`.
    Different,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
}

const RELATIONS: [(&str, Relation); 13] = [
    ("=", Relation::Usual),
    ("scr", Relation::Usual),
    ("adj", Relation::Usual),
    ("==", Relation::Exact),
    ("exact", Relation::Exact),
    ("any", Relation::Any),
    ("all", Relation::All),
    ("<>", Relation::Different),
    ("<", Relation::Less),
    ("<=", Relation::LessOrEqual),
    (">", Relation::Greater),
    (">=", Relation::GreaterOrEqual),
    ("serverchoice", Relation::Usual),
];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 9] = ["==", "<>", "<=", ">=", "=", "<", ">", "(", ")"];

/// Reads a query.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<CqlQuery, CqlDiagnostic> {
    if text.len() > MAX_BYTES {
        return Err(syntax(format!("the query has {} bytes; {MAX_BYTES} are allowed", text.len())));
    }
    let mut parser = CqlParser { tokens: tokens(text)?, at: 0, clauses: 0 };
    if parser.peek() == Some(&Token::Symbol(">")) {
        return Err(CqlDiagnostic::new(48, "prefixes cannot be assigned; use the index names of the explain response"));
    }
    let clause = parser.clause(0)?;
    let sort = parser.sort()?;
    match parser.peek() {
        None => Ok(CqlQuery { clause, sort }),
        Some(token) => Err(syntax(format!("{} is not expected here", shown(token)))),
    }
}

fn syntax(details: impl Into<String>) -> CqlDiagnostic {
    CqlDiagnostic::new(10, details)
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(text) => format!("`{text}`"),
        Token::Quoted(text) => format!("\"{text}\""),
        Token::Symbol(symbol) => format!("`{symbol}`"),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, CqlDiagnostic> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = rest[symbol.len()..].trim_start();
            continue;
        }
        if let Some(inside) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let end = inside.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            let end = end.ok_or_else(|| syntax("a quote is not closed"))?;
            tokens.push(Token::Quoted(inside[..end].to_owned()));
            rest = inside[end + 1..].trim_start();
            continue;
        }
        let end = rest.find(|c: char| c.is_whitespace() || "()=<>\"".contains(c)).unwrap_or(rest.len());
        tokens.push(Token::Word(rest[..end].to_owned()));
        rest = rest[end..].trim_start();
    }
    Ok(tokens)
}

struct CqlParser {
    tokens: Vec<Token>,
    at: usize,
    clauses: usize,
}

impl CqlParser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    /// Clauses with operators between them, which bind from the left.
    fn clause(&mut self, depth: usize) -> Result<Clause, CqlDiagnostic> {
        if depth > MAX_DEPTH {
            return Err(syntax(format!("more than {MAX_DEPTH} parentheses are open")));
        }
        let mut left = self.single(depth)?;
        while let Some(Token::Word(word)) = self.peek() {
            let word = word.to_ascii_lowercase();
            let (name, modifiers) = word.split_once('/').map_or((word.as_str(), ""), |(name, modifiers)| (name, modifiers));
            let boolean = match name {
                "and" => Boolean::And,
                "or" => Boolean::Or,
                "not" => Boolean::Not,
                "prox" => return Err(CqlDiagnostic::new(39, "prox")),
                _ => break,
            };
            if !modifiers.is_empty() {
                return Err(CqlDiagnostic::new(46, modifiers));
            }
            self.at += 1;
            let right = self.single(depth)?;
            left = Clause::Both(boolean, Box::new([left, right]));
        }
        Ok(left)
    }

    fn single(&mut self, depth: usize) -> Result<Clause, CqlDiagnostic> {
        self.clauses += 1;
        if self.clauses > MAX_CLAUSES {
            return Err(CqlDiagnostic::new(38, MAX_CLAUSES.to_string()));
        }
        let first = match self.next() {
            None => return Err(syntax("a term is missing at the end")),
            Some(Token::Symbol("(")) => {
                let inside = self.clause(depth + 1)?;
                return match self.next() {
                    Some(Token::Symbol(")")) => Ok(inside),
                    _ => Err(syntax("a parenthesis is not closed")),
                };
            }
            Some(token @ Token::Symbol(_)) => return Err(syntax(format!("{} is not expected here", shown(&token)))),
            Some(Token::Word(text) | Token::Quoted(text)) => text,
        };
        let Some(relation) = self.relation()? else { return Ok(Clause::Term { index: String::new(), relation: Relation::Usual, term: first }) };
        match self.next() {
            Some(Token::Word(term) | Token::Quoted(term)) => Ok(Clause::Term { index: first, relation, term }),
            Some(token) => Err(syntax(format!("{} is not a term", shown(&token)))),
            None => Err(syntax("a term is missing at the end")),
        }
    }

    /// Reads a relation, if there is one: a symbol, or a word that a term follows.
    fn relation(&mut self) -> Result<Option<Relation>, CqlDiagnostic> {
        let name = match self.peek() {
            Some(Token::Symbol(symbol)) if *symbol != "(" && *symbol != ")" => (*symbol).to_owned(),
            Some(Token::Word(word)) => {
                let lower = word.to_ascii_lowercase();
                let is_operator = ["and", "or", "not", "prox"].contains(&lower.split('/').next().unwrap_or_default()) || lower == "sortby";
                if is_operator {
                    return Ok(None);
                }
                lower
            }
            _ => return Ok(None),
        };
        self.at += 1;
        let (name, modifiers) = name.split_once('/').map_or((name.as_str(), ""), |(name, modifiers)| (name, modifiers));
        let name = name.strip_prefix("cql.").unwrap_or(name);
        // a modifier of a symbol is a word after it
        let following = match self.peek() {
            Some(Token::Word(word)) if modifiers.is_empty() && word.starts_with('/') => word.clone(),
            _ => modifiers.to_owned(),
        };
        if !following.is_empty() {
            return Err(CqlDiagnostic::new(20, following.trim_start_matches('/')));
        }
        let found = RELATIONS.iter().find(|(known, _)| *known == name).map(|(_, relation)| *relation);
        found.map(Some).ok_or_else(|| CqlDiagnostic::new(19, name))
    }

    fn sort(&mut self) -> Result<Vec<CqlSort>, CqlDiagnostic> {
        match self.peek() {
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("sortby") => self.at += 1,
            _ => return Ok(Vec::new()),
        }
        let mut keys = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            let mut parts = word.split('/');
            let mut key = CqlSort { index: parts.next().unwrap_or_default().to_owned(), descending: false };
            for modifier in parts {
                match modifier.to_ascii_lowercase().trim_start_matches("sort.") {
                    "ascending" => key.descending = false,
                    "descending" => key.descending = true,
                    _ => return Err(CqlDiagnostic::new(83, modifier)),
                }
            }
            keys.push(key);
            self.at += 1;
        }
        if keys.is_empty() { Err(syntax("`sortBy` names no index")) } else { Ok(keys) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(clause: &Clause) -> String {
        match clause {
            Clause::Term { index, relation, term } => format!("{index}:{relation:?}:{term}"),
            Clause::Both(boolean, parts) => format!("({} {boolean:?} {})", shape(&parts[0]), shape(&parts[1])),
        }
    }

    #[test]
    fn operators_bind_from_the_left_and_parentheses_group() {
        for (text, expected) in [
            ("sea", ":Usual:sea"),
            ("\"the \\\"sea\\\"\"", ":Usual:the \\\"sea\\\""),
            ("dc.title=sea", "dc.title:Usual:sea"),
            ("dc.title = sea AND b any \"x y\" or c", "((dc.title:Usual:sea And b:Any:x y) Or :Usual:c)"),
            ("a not (b or c<=5)", "(:Usual:a Not (:Usual:b Or c:LessOrEqual:5))"),
            ("a cql.exact b", "a:Exact:b"),
            ("a == b*", "a:Exact:b*"),
            ("and=or", "and:Usual:or"),
            ("(((a)))", ":Usual:a"),
        ] {
            assert_eq!(shape(&parse(text).unwrap().clause), expected, "{text}");
        }
        let sorted = parse("a sortBy dc.title/sort.descending year").unwrap().sort;
        let key = |index: &str, descending| CqlSort { index: index.into(), descending };
        assert_eq!(sorted, [key("dc.title", true), key("year", false)]);
    }

    #[test]
    fn mistakes_have_the_numbers_of_the_standard() {
        for (text, number) in [
            ("", 10),
            ("(a", 10),
            ("a)", 10),
            ("a and", 10),
            ("a = ", 10),
            ("a = (b)", 10),
            ("\"a", 10),
            ("a prox b", 39),
            ("a and/x b", 46),
            ("a =/stem b", 20),
            ("a any/relevant b", 20),
            ("a within \"1 2\"", 19),
            ("> dc = \"uri\" a", 48),
            ("a sortBy b/sort.locale=de", 83),
            (&"a and ".repeat(60), 38),
            (&"(".repeat(60), 10),
        ] {
            assert_eq!(parse(text).unwrap_err().number, number, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ab()=<>/\"\\\\ *?andort]{0,40}") {
            let _ = parse(&text);
        }
    }
}
