//! Finds expressions that only copy values of a few paths. A condition on such a field can be applied to these paths instead.

use super::expression::Expression;
use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, LiteralValue};

impl Expression {
    /// Returns the paths from which every value of the expression, or every element of its list, is copied: `[name]` and `c ? null : name` copy from
    /// `name`, `blocks.replica.map(own, own.site)` from `blocks.replica.site`. `None` if the expression computes anything.
    pub fn copies(&self) -> Option<Vec<Vec<&str>>> {
        let mut paths = Vec::new();
        copied(self.root(), None, &mut paths)?;
        Some(paths).filter(|paths| !paths.is_empty())
    }
}

/// The name of an element in a `map`, and the list it belongs to.
type Bound<'e> = Option<(&'e str, &'e IdedExpr)>;

fn copied<'e>(expression: &'e IdedExpr, bound: Bound<'e>, paths: &mut Vec<Vec<&'e str>>) -> Option<()> {
    match &expression.expr {
        Expr::Ident(_) | Expr::Select(_) => paths.push(path(expression, bound)?),
        Expr::Literal(LiteralValue::Null) => {}
        Expr::List(list) => list.elements.iter().try_for_each(|element| copied(element, bound, paths))?,
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            ("_?_:_", [_, then, otherwise]) => [then, otherwise].into_iter().try_for_each(|part| copied(part, bound, paths))?,
            _ => return None,
        },
        Expr::Comprehension(made) if bound.is_none() => {
            let ComprehensionExpr { iter_range, iter_var, accu_init, loop_step, .. } = &**made;
            let element = match (&accu_init.expr, appended(loop_step)) {
                (Expr::List(list), Some(element)) if list.elements.is_empty() => element,
                _ => return None,
            };
            copied(element, Some((iter_var, iter_range)), paths)?;
        }
        _ => return None,
    }
    Some(())
}

/// Returns what a step of a `map` adds to its list, with or without a condition.
fn appended(step: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::Call(call) = &step.expr else { return None };
    match (call.func_name.as_str(), call.args.as_slice()) {
        ("_?_:_", [_, added, _]) => appended(added),
        ("_+_", [_, added]) => match &added.expr {
            Expr::List(list) => list.elements.first().filter(|_| list.elements.len() == 1),
            _ => None,
        },
        _ => None,
    }
}

fn path<'e>(expression: &'e IdedExpr, bound: Bound<'e>) -> Option<Vec<&'e str>> {
    match &expression.expr {
        Expr::Ident(name) => match bound {
            Some((element, of)) if name == element => path(of, None),
            _ => Some(vec![name]),
        },
        Expr::Select(select) => {
            let mut path = path(&select.operand, bound)?;
            path.push(&select.field);
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expressions_that_copy_have_copied_paths() {
        for (source, expected) in [
            ("a", Some("a")),
            ("[a]", Some("a")),
            ("[a, b]", Some("a|b")),
            ("a.contains('#') ? null : a", Some("a")),
            ("a.b", Some("a.b")),
            ("a.b.map(own, own.c)", Some("a.b.c")),
            ("a.map(own, own)", Some("a")),
            ("a.map(own, own.c > 1, own.c)", Some("a.c")),
            ("a.map(own, [own.c])", Some("a.c")),
            ("a.b.map(own, own.c + 1)", None),
            ("a.b.filter(own, own.c > 1)", Some("a.b")),
            ("a.exists(own, own == b)", None),
            ("size(a)", None),
            ("a + b", None),
            ("'x'", None),
            ("true ? a : 'x'", None),
        ] {
            let expression = Expression::compile(source, &["a", "b"]).expect("an expression");
            let found = expression.copies().map(|paths| paths.iter().map(|path| path.join(".")).collect::<Vec<_>>().join("|"));
            assert_eq!(found.as_deref(), expected, "{source}");
        }
    }
}
