//! Evaluates paths and other expressions whose value is a set of nodes.

use super::{EvalContext, EvalResult, Evaluation, NodeRef};
use crate::expression::{Axis, CoreFunction, Expr, LocationPath, PathStart, Predicate, ResultType as Gives, Step, XPathOperator};
use crate::tree::{NodeKind, QualifiedName, Tree};
use std::collections::HashSet;

impl<'t, T: Tree + ?Sized> Evaluation<'_, 't, T> {
    /// Returns the nodes of an expression, in document order, each once.
    pub(super) fn nodes(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Vec<NodeRef>> {
        match expression {
            Expr::Path(path) => {
                let mut found = self.start_of(path, here)?;
                for step in &path.steps {
                    found = self.step(step, &found)?;
                }
                Ok(found)
            }
            Expr::Binary(XPathOperator::Union, sides) => {
                let mut found = self.nodes(&sides.0, here)?;
                found.extend(self.nodes(&sides.1, here)?);
                self.spend(1 + found.len() as u64 / 8)?;
                in_order(&mut found);
                Ok(found)
            }
            Expr::Call(CoreFunction::Id, arguments) => self.by_id(&arguments[0], here),
            _ => Ok(Vec::new()),
        }
    }

    fn start_of(&self, path: &LocationPath, here: &EvalContext) -> EvalResult<Vec<NodeRef>> {
        match &path.start {
            PathStart::Root => Ok(vec![NodeRef::node(0)]),
            PathStart::ContextNode => Ok(vec![here.node]),
            PathStart::Filtered(expression, conditions) => {
                let mut nodes = self.nodes(expression, here)?;
                self.filter(&mut nodes, conditions)?;
                Ok(nodes)
            }
        }
    }

    /// Returns the elements whose `xml:id` is in the argument.
    fn by_id(&self, argument: &Expr, here: &EvalContext) -> EvalResult<Vec<NodeRef>> {
        let wanted = match argument.kind() {
            Gives::Nodes => self.texts(argument, here)?,
            _ => vec![self.string(argument, here)?],
        };
        self.read_through(wanted.iter().map(|text| text.len()).sum())?;
        let mut wanted: HashSet<&str> = wanted.iter().flat_map(|text| text.split([' ', '\t', '\n', '\r'])).filter(|id| !id.is_empty()).collect();
        let mut found = Vec::new();
        self.spend(self.tree.size() as u64)?;
        for place in 0..self.tree.size() {
            let node = self.tree.node(place);
            if node.kind == NodeKind::Attribute
                && let QualifiedName { uri: "http://www.w3.org/XML/1998/namespace", local: "id", .. } = self.tree.name(place)
            {
                let own = self.tree.own_text(place);
                self.read_through(own.len())?;
                // of several elements with the same id, the first one counts
                if wanted.remove(own) {
                    found.push(NodeRef::node(node.parent));
                }
            }
        }
        in_order(&mut found);
        Ok(found)
    }

    /// Returns the first node of an expression in document order.
    pub(super) fn first(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Option<NodeRef>> {
        if let Expr::Path(path) = expression
            && let Some((last, before)) = path.steps.split_last()
            && before.is_empty()
            && last.conditions.iter().all(|condition| !condition.positional)
            && !last.axis.is_reverse()
            && let [only] = self.start_of(path, here)?.as_slice()
        {
            let mut first = None;
            self.visit(last, *only, &mut |node| {
                let fits = self.fits_all(node, &last.conditions)?;
                first = fits.then_some(node);
                Ok(!fits)
            })?;
            return Ok(first);
        }
        Ok(self.nodes(expression, here)?.first().copied())
    }

    /// Whether a path finds anything.
    pub(super) fn exists(&self, path: &LocationPath, here: &EvalContext) -> EvalResult<bool> {
        self.any_of(path, here, &mut |_| Ok(true))
    }

    /// Whether `wanted` is true for any node of an expression.
    pub(super) fn any(&self, expression: &Expr, here: &EvalContext, wanted: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<bool> {
        match expression {
            Expr::Path(path) => self.any_of(path, here, wanted),
            Expr::Binary(XPathOperator::Union, sides) => Ok(self.any(&sides.0, here, wanted)? || self.any(&sides.1, here, wanted)?),
            _ => {
                for node in self.nodes(expression, here)? {
                    if wanted(node)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn any_of(&self, path: &LocationPath, here: &EvalContext, wanted: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<bool> {
        let Some((last, before)) = path.steps.split_last() else {
            for node in self.start_of(path, here)? {
                if wanted(node)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        };
        let one = [here.node];
        let root = [NodeRef::node(0)];
        let mut found;
        let mut nodes: &[NodeRef] = match path.start {
            PathStart::ContextNode => &one,
            PathStart::Root => &root,
            PathStart::Filtered(..) => {
                found = self.start_of(path, here)?;
                &found
            }
        };
        for step in before {
            found = self.step(step, nodes)?;
            nodes = &found;
        }
        let positional = last.conditions.iter().any(|condition| condition.positional);
        // descendants of nested nodes would be visited again and again
        let nested = !matches!(last.axis, Axis::Child | Axis::Attribute | Axis::SelfNode | Axis::Namespace | Axis::Parent) && nodes.len() > 1;
        if positional || nested {
            for node in self.step(last, nodes)? {
                if wanted(node)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let mut any = false;
        for node in nodes {
            self.visit(last, *node, &mut |node| {
                any = self.fits_all(node, &last.conditions)? && wanted(node)?;
                Ok(!any)
            })?;
            if any {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fits_all(&self, node: NodeRef, conditions: &[Predicate]) -> EvalResult<bool> {
        for condition in conditions {
            if !self.boolean(&condition.expression, &EvalContext { node, position: 1, size: 1 })? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates one step from nodes in document order; the result is in document order, too.
    fn step(&self, step: &Step, from: &[NodeRef]) -> EvalResult<Vec<NodeRef>> {
        let mut found: Vec<NodeRef> = Vec::new();
        let positional = step.conditions.iter().any(|condition| condition.positional);
        let mut behind = 0;
        let mut own = Vec::new();
        for node in from {
            if !positional {
                // the descendants of an earlier node's descendant are included already
                let is_inside = !node.is_namespace() && self.tree.node(node.place()).kind != NodeKind::Attribute;
                if is_inside && matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf) {
                    if node.place() < behind {
                        continue;
                    }
                    behind = self.tree.node(node.place()).end;
                }
                self.visit(step, *node, &mut |node| {
                    if self.fits_all(node, &step.conditions)? {
                        found.push(node);
                    }
                    Ok(true)
                })?;
                continue;
            }
            own.clear();
            self.visit(step, *node, &mut |node| {
                own.push(node);
                Ok(true)
            })?;
            self.filter(&mut own, &step.conditions)?;
            found.append(&mut own);
        }
        in_order(&mut found);
        Ok(found)
    }

    /// Keeps the nodes that satisfy all conditions; each condition counts positions among the nodes that satisfied those before.
    fn filter(&self, nodes: &mut Vec<NodeRef>, conditions: &[Predicate]) -> EvalResult<()> {
        for condition in conditions {
            let size = nodes.len();
            let mut kept = 0;
            for place in 0..size {
                let here = EvalContext { node: nodes[place], position: place + 1, size };
                self.spend(1)?;
                let fits = match condition.expression.kind() {
                    Gives::Number => self.number(&condition.expression, &here)? == here.position as f64,
                    _ => self.boolean(&condition.expression, &here)?,
                };
                if fits {
                    nodes[kept] = nodes[place];
                    kept += 1;
                }
            }
            nodes.truncate(kept);
        }
        Ok(())
    }
}

fn in_order(nodes: &mut Vec<NodeRef>) {
    if !nodes.is_sorted_by(|a, b| a < b) {
        nodes.sort_unstable();
        nodes.dedup();
    }
}
