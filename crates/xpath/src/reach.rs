//! Determines which parts of a document an expression can read.

use crate::expression::{Axis, CoreFunction, Expr, LocationPath, NodeTest, PathStart, Predicate, Step, XPath};

/// Where the context node of an expression can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContextScope {
    /// At the document.
    Root,
    /// Anywhere.
    Anywhere,
    /// At elements that were found by name, or inside them.
    NamedSubtree,
}

impl XPath {
    /// Returns local names of elements in no namespace that lead to everything the expression reads: it reads only such elements, what is inside
    /// them, and other elements with these names. `None` if it may read more. So adding content to a document, outside of elements with these names
    /// and in other namespaces, does not change the expression's value.
    pub fn visible_elements(&self) -> Option<Vec<&str>> {
        let mut seen = Vec::new();
        self.value(&self.expression, ContextScope::Root, &mut seen)?;
        Some(seen.into_iter().map(|name| &*self.names[name].local).collect())
    }

    fn value(&self, expression: &Expr, at: ContextScope, seen: &mut Vec<usize>) -> Option<()> {
        match expression {
            Expr::Literal(_) | Expr::Number(_) => Some(()),
            Expr::Negate(inner) => self.value(inner, at, seen),
            Expr::Binary(_, sides) => {
                self.value(&sides.0, at, seen)?;
                self.value(&sides.1, at, seen)
            }
            Expr::Call(CoreFunction::Id | CoreFunction::Lang, _) => None,
            Expr::Call(CoreFunction::True | CoreFunction::False | CoreFunction::Position | CoreFunction::Last, _) => Some(()),
            // it reads the context node
            Expr::Call(_, arguments) if arguments.is_empty() => (at == ContextScope::NamedSubtree).then_some(()),
            Expr::Call(_, arguments) => arguments.iter().try_for_each(|argument| self.value(argument, at, seen)),
            Expr::Path(path) => (self.path(path, at, seen)? == ContextScope::NamedSubtree).then_some(()),
        }
    }

    fn path(&self, path: &LocationPath, at: ContextScope, seen: &mut Vec<usize>) -> Option<ContextScope> {
        let mut at = match &path.start {
            PathStart::Root => ContextScope::Root,
            PathStart::ContextNode => at,
            PathStart::Filtered(nodes, conditions) => {
                self.value(nodes, at, seen)?;
                self.conditions(conditions, ContextScope::NamedSubtree, seen)?;
                ContextScope::NamedSubtree
            }
        };
        for step in &path.steps {
            at = self.step(step, at, seen)?;
            self.conditions(&step.conditions, at, seen)?;
        }
        Some(at)
    }

    fn conditions(&self, conditions: &[Predicate], at: ContextScope, seen: &mut Vec<usize>) -> Option<()> {
        conditions.iter().try_for_each(|condition| (at == ContextScope::NamedSubtree).then(|| self.value(&condition.expression, at, seen))?)
    }

    fn step(&self, step: &Step, at: ContextScope, seen: &mut Vec<usize>) -> Option<ContextScope> {
        let is_down = matches!(step.axis, Axis::Child | Axis::Descendant | Axis::DescendantOrSelf | Axis::SelfNode);
        match (&step.test, step.axis) {
            (NodeTest::Node, Axis::SelfNode) => Some(at),
            (NodeTest::Node, Axis::DescendantOrSelf) if at != ContextScope::NamedSubtree => Some(ContextScope::Anywhere),
            (_, Axis::Namespace) => None,
            (NodeTest::Name(name), axis)
                if axis != Axis::Attribute && self.names[*name].uri.is_empty() && (is_down || at == ContextScope::NamedSubtree) =>
            {
                seen.push(*name);
                Some(ContextScope::NamedSubtree)
            }
            _ => (at == ContextScope::NamedSubtree && (is_down || step.axis == Axis::Attribute)).then_some(ContextScope::NamedSubtree),
        }
    }
}
