//! Expressions in CEL, the Common Expression Language, compiled once with the names they may use. The functions are those of
//! [`crate::eval::functions`], the types those of [`crate::eval::types`]. There is no clock: `now` is only known if the caller passes it.

use super::functions::{self, FUNCTIONS};
use super::plain::{self, PlainExpression};
use super::scope::MemberReference;
use crate::diagnostic::did_you_mean;
use cel::Program;
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr};
use std::ops::Range;
use std::sync::Arc;

/// A compiled expression and its text.
#[derive(Debug, Clone)]
pub struct Expression {
    source: String,
    program: Arc<Program>,
    variables: Vec<String>,
    members: Vec<MemberReference>,
    /// Variables that it reads as a whole, not only by member.
    whole: Vec<String>,
    /// The plain form, if the expression is plain.
    plain: Option<Arc<PlainExpression>>,
}

impl Expression {
    /// Compiles an expression that may use `names`.
    ///
    /// # Errors
    /// The byte position of the error, and what is wrong.
    pub fn compile(source: &str, names: &[&str]) -> Result<Self, (usize, String)> {
        let program = parse_program(source)?;
        let offset_of = |id: u64| program.source_info().offset_for(id).map_or(0, |(start, _)| (start as usize).min(source.len()));
        let mut found = References::default();
        found.collect(program.expression(), &mut Vec::new());
        for (name, id) in &found.variables {
            if !names.contains(&name.as_str()) {
                let hint = did_you_mean(name, names.iter().copied()).map_or_else(String::new, |suggestion| format!("; did you mean `{suggestion}`?"));
                let message = match name.as_str() {
                    "now" | "caller" => format!("`{name}` is only known in transitions: a value that reads the clock would change by itself"),
                    _ => format!("unknown name `{name}`{hint}"),
                };
                return Err((offset_of(*id), message));
            }
        }
        for name in &found.functions {
            if name.starts_with(|c: char| c.is_ascii_alphabetic()) && functions::function(name).is_none() {
                let known = FUNCTIONS.iter().map(|function| function.name);
                let hint = did_you_mean(name, known).map_or_else(String::new, |suggestion| format!("; did you mean `{suggestion}`?"));
                return Err((source.find(name.as_str()).unwrap_or(0), format!("there is no function `{name}`{hint}")));
            }
        }
        let References { variables, mut members, mut whole, .. } = found;
        members.dedup();
        whole.sort_unstable();
        whole.dedup();
        let mut variables: Vec<String> = variables.into_iter().map(|(name, _)| name).collect();
        variables.sort_unstable();
        variables.dedup();
        let plain = plain::compile(&program.expression().expr).map(Arc::new);
        Ok(Self { source: source.to_owned(), program: Arc::new(program), variables, members, whole, plain })
    }

    /// Returns the parsed expression.
    pub(crate) fn root(&self) -> &IdedExpr {
        self.program.expression()
    }

    /// Returns the position of a node in the text, in bytes.
    pub(crate) fn span_of(&self, id: u64) -> Option<Range<usize>> {
        let (start, stop) = self.program.source_info().offset_for(id)?;
        let end = self.source.len();
        let start = (start as usize).min(end);
        Some(start..(stop as usize + 1).min(end).max(start))
    }

    /// The plain form, if the expression is plain.
    pub(super) fn plain(&self) -> Option<&PlainExpression> {
        self.plain.as_deref()
    }

    /// Returns the text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the names it reads.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Returns the members of variables it reads: `plan` and `number` of `plan.number`.
    pub fn members(&self) -> &[MemberReference] {
        &self.members
    }

    /// Returns the members it reads, if it reads only members of the variable; an empty list if it also reads the variable as a whole, as in `m ==
    /// null ? 'none' : m.name`.
    pub fn members_unless_whole(&self, variable: &str) -> &[MemberReference] {
        if self.whole.iter().any(|name| name == variable) { &[] } else { &self.members }
    }
}

/// Max levels of an expression.
const MAX_DEPTH: usize = 200;
/// Max bytes of an expression.
pub(super) const MAX_BYTES: usize = 16 << 10;
/// Shorter texts cannot overflow a thread's stack in the recursive parser.
const MAX_BYTES_FOR_THIS_STACK: usize = 512;
/// Stack size for a text of [`MAX_BYTES`] that opens a level with each byte; only the used part takes memory.
const MAX_STACK_BYTES: usize = 1 << 30;

fn parts(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            })
            .collect(),
        Expr::Comprehension(fold) => vec![&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result],
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

/// Parses an expression. The parser is recursive and has no limit of levels, so longer texts are parsed on a thread whose stack is large enough for
/// any text.
fn parse_program(source: &str) -> Result<Program, (usize, String)> {
    if source.len() > MAX_BYTES {
        return Err((0, format!("an expression has at most {MAX_BYTES} bytes; put long lists into a table (`lookups`)")));
    }
    let parse = || {
        let program = Program::compile(source).map_err(|errors| match errors.errors.first() {
            Some(error) => (column_to_byte(source, error.pos), clean(&error.msg)),
            None => (0, errors.to_string()),
        })?;
        // an expression that is too deep is dropped here, on the large stack
        if depth(program.expression()) > MAX_DEPTH { Err((0, format!("an expression has at most {MAX_DEPTH} levels"))) } else { Ok(program) }
    };
    if source.len() < MAX_BYTES_FOR_THIS_STACK {
        return parse();
    }
    std::thread::scope(|scope| {
        let parsing = std::thread::Builder::new().stack_size(MAX_STACK_BYTES).spawn_scoped(scope, parse);
        let parsing = parsing.map_err(|error| (0, format!("not enough memory to parse an expression of {} bytes: {error}", source.len())))?;
        parsing.join().unwrap_or_else(|_| Err((0, "it cannot be parsed".into())))
    })
}

fn depth(expression: &IdedExpr) -> usize {
    let (mut deepest, mut waiting) = (0, vec![(expression, 1)]);
    while let Some((next, depth)) = waiting.pop() {
        deepest = deepest.max(depth);
        waiting.extend(parts(&next.expr).into_iter().map(|part| (part, depth + 1)));
    }
    deepest
}

/// The names, functions and members that an expression uses.
#[derive(Default)]
struct References {
    /// Names other than those of loop elements, each with its node.
    variables: Vec<(String, u64)>,
    functions: Vec<String>,
    members: Vec<MemberReference>,
    /// Names that are read as a whole.
    whole: Vec<String>,
}

impl References {
    fn collect<'e>(&mut self, expression: &'e IdedExpr, bound: &mut Vec<&'e str>) {
        match &expression.expr {
            Expr::Ident(name) if !bound.contains(&name.as_str()) => {
                self.variables.push((name.clone(), expression.id));
                self.whole.push(name.clone());
            }
            Expr::Select(select) => {
                if let Expr::Ident(of) = &select.operand.expr
                    && !bound.contains(&of.as_str())
                {
                    self.members.push(MemberReference { of: of.clone(), name: select.field.clone() });
                    self.variables.push((of.clone(), select.operand.id));
                } else {
                    self.collect(&select.operand, bound);
                }
            }
            Expr::Comprehension(made) => {
                let ComprehensionExpr { iter_range, iter_var, accu_var, accu_init, loop_cond, loop_step, result, .. } = &**made;
                self.collect(iter_range, bound);
                let before = bound.len();
                bound.extend([iter_var.as_str(), accu_var.as_str()]);
                [accu_init, loop_cond, loop_step, result].into_iter().for_each(|part| self.collect(part, bound));
                bound.truncate(before);
            }
            Expr::Call(call) => {
                self.functions.push(call.func_name.clone());
                parts(&expression.expr).into_iter().for_each(|part| self.collect(part, bound));
            }
            other => parts(other).into_iter().for_each(|part| self.collect(part, bound)),
        }
    }
}

fn column_to_byte(source: &str, (line, column): (isize, isize)) -> usize {
    let line_start: usize = source.split_inclusive('\n').take((line - 1).max(0) as usize).map(str::len).sum();
    source[line_start..].char_indices().nth((column - 1).max(0) as usize).map_or(source.len(), |(at, _)| line_start + at)
}

fn clean(message: &str) -> String {
    let first = message.lines().next().unwrap_or(message);
    let mut characters = first.chars();
    let lower: String = characters.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(characters).collect();
    format!("not CEL: {lower}")
}
