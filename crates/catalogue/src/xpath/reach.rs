//! What of a document an expression can see.

use super::{Axis, Condition, Expr, Function, NodeTest, Path, Start, Step, XPath};

/// Where an expression is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// At the document.
    Root,
    /// Anywhere.
    Anything,
    /// At elements that were found by name, or inside of them.
    Inside,
}

impl XPath {
    /// Local names of the elements, all in no namespace, by which everything is found that the expression sees: such an element, what is
    /// inside of it, others of these names. Nothing where it may see more. So where more is put into a document, elsewhere than inside of an element of
    /// these names and in other namespaces, nothing changes for the expression.
    pub fn sees_only(&self) -> Option<Vec<&str>> {
        let mut seen = Vec::new();
        self.value(&self.expression, At::Root, &mut seen)?;
        Some(seen.into_iter().map(|name| &*self.names[name].local).collect())
    }

    fn value(&self, expression: &Expr, at: At, seen: &mut Vec<usize>) -> Option<()> {
        match expression {
            Expr::Literal(_) | Expr::Number(_) => Some(()),
            Expr::Negate(inner) => self.value(inner, at, seen),
            Expr::Binary(_, sides) => {
                self.value(&sides.0, at, seen)?;
                self.value(&sides.1, at, seen)
            }
            Expr::Call(Function::Id | Function::Lang, _) => None,
            Expr::Call(Function::True | Function::False | Function::Position | Function::Last, _) => Some(()),
            // of the node at hand
            Expr::Call(_, arguments) if arguments.is_empty() => (at == At::Inside).then_some(()),
            Expr::Call(_, arguments) => arguments.iter().try_for_each(|argument| self.value(argument, at, seen)),
            Expr::Path(path) => (self.path(path, at, seen)? == At::Inside).then_some(()),
        }
    }

    fn path(&self, path: &Path, at: At, seen: &mut Vec<usize>) -> Option<At> {
        let mut at = match &path.start {
            Start::Root => At::Root,
            Start::Here => at,
            Start::Nodes(nodes, conditions) => {
                self.value(nodes, at, seen)?;
                self.conditions(conditions, At::Inside, seen)?;
                At::Inside
            }
        };
        for step in &path.steps {
            at = self.step(step, at, seen)?;
            self.conditions(&step.conditions, at, seen)?;
        }
        Some(at)
    }

    fn conditions(&self, conditions: &[Condition], at: At, seen: &mut Vec<usize>) -> Option<()> {
        conditions.iter().try_for_each(|condition| (at == At::Inside).then(|| self.value(&condition.expression, at, seen))?)
    }

    fn step(&self, step: &Step, at: At, seen: &mut Vec<usize>) -> Option<At> {
        let is_down = matches!(step.axis, Axis::Child | Axis::Descendant | Axis::DescendantOrSelf | Axis::SelfNode);
        match (&step.test, step.axis) {
            (NodeTest::Node, Axis::SelfNode) => Some(at),
            (NodeTest::Node, Axis::DescendantOrSelf) if at != At::Inside => Some(At::Anything),
            (_, Axis::Namespace) => None,
            (NodeTest::Name(name), axis) if axis != Axis::Attribute && self.names[*name].uri.is_empty() && (is_down || at == At::Inside) => {
                seen.push(*name);
                Some(At::Inside)
            }
            _ => (at == At::Inside && (is_down || step.axis == Axis::Attribute)).then_some(At::Inside),
        }
    }
}
