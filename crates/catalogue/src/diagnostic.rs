//! Errors in a definition or a query, shown at their positions.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::ops::Range;

/// An error at a position in a text. `span` is in bytes of that text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The bytes of the text that are wrong.
    pub span: Range<usize>,
    /// What is wrong, lower case, without a full stop.
    pub message: String,
    /// What the reader can do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates an error without help.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    /// Adds help.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Returns the line and column in `text`, both counted from 1, the column in characters.
    pub fn position(&self, text: &str) -> (usize, usize) {
        let start = floor_char_boundary(text, self.span.start);
        let before = &text[..start];
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (line, text[line_start..start].chars().count() + 1)
    }
}

/// Renders errors of one file: message, `file:line:column`, the line with a caret, help.
pub fn render(file: &str, text: &str, problems: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    for problem in problems {
        let start = floor_char_boundary(text, problem.span.start);
        let end = floor_char_boundary(text, problem.span.end).max(start);
        let snippet = Snippet::source(text).path(file).annotation(AnnotationKind::Primary.span(start..end));
        let mut group = Level::ERROR.primary_title(problem.message.as_str()).element(snippet);
        if let Some(help) = &problem.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        out.push_str(&renderer.render(&[group]).to_string());
        out.push_str("\n\n");
    }
    out
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the candidate most similar to `word`, if it is similar enough.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(word.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The most names that a message lists.
const MAX_LISTED: usize = 30;

/// Says what there is instead of an unknown name: `did you mean NAME?`, or all names, for the end of a message.
pub fn known_instead<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match did_you_mean(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "there are none".to_owned(),
        None if known.len() > MAX_LISTED => format!("there are {} and {} more", known[..MAX_LISTED].join(", "), known.len() - MAX_LISTED),
        None => format!("there are {}", known.join(", ")),
    }
}
