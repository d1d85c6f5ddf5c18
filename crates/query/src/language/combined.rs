//! Parses conditions that are combined by `and`, `or`, `not` and parentheses.

use super::parse::{QueryParser, is_compared};
use super::syntax::{ConditionTree, QueryCondition};
use super::tokens::leading_name;
use stook_catalogue::diagnostic::Diagnostic;

/// The maximum depth of parentheses.
const MAX_DEPTH: usize = 32;

pub(super) const COMBINED_HELP: &str = "for example: (status=read or pages<100) not subjects=travel";

/// Alternatives, each of which is conditions that must all hold.
#[derive(Default)]
pub(super) struct Alternatives {
    /// Those that are complete.
    complete: Vec<ConditionTree>,
    /// The conditions of the last one.
    last: Vec<ConditionTree>,
}

impl Alternatives {
    /// Adds a condition to the last alternative.
    pub(super) fn add(&mut self, condition: ConditionTree) {
        self.last.push(condition);
    }

    /// Begins the next alternative.
    fn begin(&mut self) {
        self.complete.push(all(std::mem::take(&mut self.last)));
    }

    /// Whether there is no condition yet.
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Whether there is more than one.
    pub(super) fn are_several(&self) -> bool {
        !self.complete.is_empty()
    }

    /// One tree, without levels that combine a single condition.
    fn into_tree(mut self) -> ConditionTree {
        if self.complete.is_empty() {
            return all(self.last);
        }
        self.begin();
        ConditionTree::Any(self.complete)
    }

    /// Plain conditions, all of which must hold, and those that are combined.
    pub(super) fn split(self) -> (Vec<QueryCondition>, Vec<ConditionTree>) {
        if self.are_several() {
            return (Vec::new(), vec![self.into_tree()]);
        }
        split(self.last)
    }
}

/// Conditions that must all hold: plain ones, and those that are combined in another way.
pub(crate) fn split(trees: Vec<ConditionTree>) -> (Vec<QueryCondition>, Vec<ConditionTree>) {
    let (mut conditions, mut combined) = (Vec::new(), Vec::new());
    let mut waiting: Vec<ConditionTree> = trees.into_iter().rev().collect();
    while let Some(tree) = waiting.pop() {
        match tree {
            ConditionTree::One(condition) => conditions.push(condition),
            ConditionTree::All(inner) => waiting.extend(inner.into_iter().rev()),
            tree @ (ConditionTree::Not(_) | ConditionTree::Any(_)) => combined.push(tree),
        }
    }
    (conditions, combined)
}

/// Conditions that must all hold, as one tree.
fn all(mut conditions: Vec<ConditionTree>) -> ConditionTree {
    if conditions.len() == 1 { conditions.remove(0) } else { ConditionTree::All(conditions) }
}

impl QueryParser<'_> {
    /// Whether a combined condition follows: one in parentheses, or one after `not`.
    pub(super) fn is_combined(&mut self) -> bool {
        self.skip_blanks();
        self.rest().starts_with('(') || self.is_word("not")
    }

    /// Whether this word follows, and is not the name of a field.
    fn is_word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let found = leading_name(self.rest());
        let after = self.rest()[found.len()..].trim_start();
        let next = leading_name(after);
        // a word that compares may itself be the name of a field
        let is_before_name = !next.is_empty() && after[next.len()..].trim_start().starts_with(['=', '!', '<', '>', '~']);
        found.eq_ignore_ascii_case(word) && (is_before_name || !is_compared(after))
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// Parses `or`, which begins the next alternative, or `and`; returns whether there is one.
    pub(super) fn word_between(&mut self, alternatives: &mut Alternatives) -> Result<bool, Diagnostic> {
        if self.eat_word("or") {
            self.expect_condition("or")?;
            alternatives.begin();
            return Ok(true);
        }
        let found = self.eat_word("and");
        if found {
            self.expect_condition("and")?;
        }
        Ok(found)
    }

    /// Refuses the end of the text, or of the parentheses, after a word that combines conditions.
    fn expect_condition(&mut self, word: &str) -> Result<(), Diagnostic> {
        if self.at_end() || self.rest().starts_with(['|', ')', ',']) || self.is_word("or") || self.is_word("and") {
            return Err(self.error(format!("expected a condition after `{word}`")).help(COMBINED_HELP));
        }
        Ok(())
    }

    /// Parses a condition, one after `not`, or alternatives in parentheses.
    pub(super) fn tree(&mut self, depth: usize) -> Result<ConditionTree, Diagnostic> {
        if depth >= MAX_DEPTH {
            return Err(self.error(format!("parentheses and `not` can be {MAX_DEPTH} deep")).help("ask with fewer of them"));
        }
        if self.eat_word("not") {
            self.expect_condition("not")?;
            return Ok(ConditionTree::Not(Box::new(self.tree(depth + 1)?)));
        }
        let start = self.at;
        if self.eat("(") {
            let inner = self.alternatives(depth + 1)?;
            if !self.eat(")") {
                let problem = if self.at_end() {
                    Diagnostic::new(start..start + 1, "this parenthesis is never closed")
                } else {
                    self.error("expected a condition, `or` or `)`")
                };
                return Err(problem.help(COMBINED_HELP));
            }
            self.condition_end = self.at;
            return Ok(inner);
        }
        let path = self.path("a condition", COMBINED_HELP)?;
        match self.operator() {
            Some(operator) => Ok(ConditionTree::One(self.comparison(path, operator)?)),
            None => Err(self.missing_comparison(&path)),
        }
    }

    /// Parses alternatives; within each, conditions all of which must hold.
    pub(super) fn alternatives(&mut self, depth: usize) -> Result<ConditionTree, Diagnostic> {
        let first = self.tree(depth)?;
        self.rest_of_alternatives(first, depth)
    }

    /// Parses what follows the first condition of alternatives. Inside parentheses conditions may follow each other.
    pub(super) fn rest_of_alternatives(&mut self, first: ConditionTree, depth: usize) -> Result<ConditionTree, Diagnostic> {
        let mut alternatives = Alternatives::default();
        alternatives.add(first);
        loop {
            if !self.word_between(&mut alternatives)? {
                let comma = depth > 0 && self.eat(",");
                let is_over = depth == 0 || self.at_end() || self.rest().starts_with([')', '|']);
                if is_over && comma {
                    return Err(self.error("expected a condition after `,`").help("leave out the last `,`"));
                }
                if is_over {
                    return Ok(alternatives.into_tree());
                }
            }
            alternatives.add(self.tree(depth)?);
        }
    }
}
