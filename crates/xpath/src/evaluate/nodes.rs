//! Evaluates paths and other expressions whose value is a set of nodes.

use super::{EvalContext, EvalResult, Evaluation, NodeRef};
use crate::expression::{Axis, CoreFunction, Expr, LocationPath, PathStart, Predicate, ResultType, Step, XPathOperator};
use crate::tree::{NodeKind, QualifiedName, Tree};
use std::collections::HashSet;

impl<'t, T: Tree + ?Sized> Evaluation<'_, 't, T> {
    /// Returns the nodes of an expression, in document order, each once.
    pub(super) fn nodes(&self, expression: &Expr, context: &EvalContext) -> EvalResult<Vec<NodeRef>> {
        match expression {
            Expr::Path(path) => {
                let mut found = self.start_of(path, context)?;
                for step in &path.steps {
                    found = self.step(step, &found)?;
                }
                Ok(found)
            }
            Expr::Binary(XPathOperator::Union, sides) => {
                let mut found = self.nodes(&sides.0, context)?;
                found.extend(self.nodes(&sides.1, context)?);
                self.spend(1 + found.len() as u64 / 8)?;
                sort_and_dedup(&mut found);
                Ok(found)
            }
            Expr::Call(CoreFunction::Id, arguments) => self.by_id(&arguments[0], context),
            _ => Ok(Vec::new()),
        }
    }

    fn start_of(&self, path: &LocationPath, context: &EvalContext) -> EvalResult<Vec<NodeRef>> {
        match &path.start {
            PathStart::Root => Ok(vec![NodeRef::node(0)]),
            PathStart::ContextNode => Ok(vec![context.node]),
            PathStart::Filtered(expression, conditions) => {
                let mut nodes = self.nodes(expression, context)?;
                self.filter(&mut nodes, conditions)?;
                Ok(nodes)
            }
        }
    }

    /// Returns the elements whose `xml:id` is in the argument.
    fn by_id(&self, argument: &Expr, context: &EvalContext) -> EvalResult<Vec<NodeRef>> {
        let wanted_ids = match argument.kind() {
            ResultType::Nodes => self.string_values(argument, context)?,
            _ => vec![self.string(argument, context)?],
        };
        self.spend_on_reading(wanted_ids.iter().map(|text| text.len()).sum())?;
        let mut wanted_ids: HashSet<&str> =
            wanted_ids.iter().flat_map(|text| text.split([' ', '\t', '\n', '\r'])).filter(|id| !id.is_empty()).collect();
        let mut found = Vec::new();
        self.spend(self.tree.size() as u64)?;
        for index in 0..self.tree.size() {
            let node = self.tree.node(index);
            if node.kind == NodeKind::Attribute
                && let QualifiedName { uri: "http://www.w3.org/XML/1998/namespace", local: "id", .. } = self.tree.name(index)
            {
                let id = self.tree.own_text(index);
                self.spend_on_reading(id.len())?;
                // of several elements with the same id, the first one counts
                if wanted_ids.remove(id) {
                    found.push(NodeRef::node(node.parent));
                }
            }
        }
        sort_and_dedup(&mut found);
        Ok(found)
    }

    /// Returns the first node of an expression in document order.
    pub(super) fn first(&self, expression: &Expr, context: &EvalContext) -> EvalResult<Option<NodeRef>> {
        if let Expr::Path(path) = expression
            && let Some((last, earlier_steps)) = path.steps.split_last()
            && earlier_steps.is_empty()
            && last.conditions.iter().all(|condition| !condition.is_positional)
            && !last.axis.is_reverse()
            && let [only] = self.start_of(path, context)?.as_slice()
        {
            let mut first = None;
            self.visit(last, *only, &mut |node| {
                let is_first = self.satisfies_all(node, &last.conditions)?;
                first = is_first.then_some(node);
                Ok(!is_first)
            })?;
            return Ok(first);
        }
        Ok(self.nodes(expression, context)?.first().copied())
    }

    /// Whether a path finds anything.
    pub(super) fn exists(&self, path: &LocationPath, context: &EvalContext) -> EvalResult<bool> {
        self.any_of_path(path, context, &mut |_| Ok(true))
    }

    /// Whether `accepts` is true for any node of an expression.
    pub(super) fn any_node(
        &self,
        expression: &Expr,
        context: &EvalContext,
        accepts: &mut dyn FnMut(NodeRef) -> EvalResult<bool>,
    ) -> EvalResult<bool> {
        match expression {
            Expr::Path(path) => self.any_of_path(path, context, accepts),
            Expr::Binary(XPathOperator::Union, sides) => Ok(self.any_node(&sides.0, context, accepts)? || self.any_node(&sides.1, context, accepts)?),
            _ => {
                for node in self.nodes(expression, context)? {
                    if accepts(node)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn any_of_path(&self, path: &LocationPath, context: &EvalContext, accepts: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<bool> {
        let Some((last, earlier_steps)) = path.steps.split_last() else {
            for node in self.start_of(path, context)? {
                if accepts(node)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        };
        let context_node = [context.node];
        let root_node = [NodeRef::node(0)];
        let mut found;
        let mut nodes: &[NodeRef] = match path.start {
            PathStart::ContextNode => &context_node,
            PathStart::Root => &root_node,
            PathStart::Filtered(..) => {
                found = self.start_of(path, context)?;
                &found
            }
        };
        for step in earlier_steps {
            found = self.step(step, nodes)?;
            nodes = &found;
        }
        let is_positional = last.conditions.iter().any(|condition| condition.is_positional);
        // descendants of nested nodes would be visited again and again
        let is_nested = !matches!(last.axis, Axis::Child | Axis::Attribute | Axis::SelfNode | Axis::Namespace | Axis::Parent) && nodes.len() > 1;
        if is_positional || is_nested {
            for node in self.step(last, nodes)? {
                if accepts(node)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let mut is_found = false;
        for node in nodes {
            self.visit(last, *node, &mut |node| {
                is_found = self.satisfies_all(node, &last.conditions)? && accepts(node)?;
                Ok(!is_found)
            })?;
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn satisfies_all(&self, node: NodeRef, conditions: &[Predicate]) -> EvalResult<bool> {
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
        let is_positional = step.conditions.iter().any(|condition| condition.is_positional);
        let mut covered_until = 0;
        let mut of_node = Vec::new();
        for node in from {
            if !is_positional {
                // the descendants of an earlier node's descendant are included already
                let has_content = !node.is_namespace() && self.tree.node(node.index()).kind != NodeKind::Attribute;
                if has_content && matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf) {
                    if node.index() < covered_until {
                        continue;
                    }
                    covered_until = self.tree.node(node.index()).end;
                }
                self.visit(step, *node, &mut |node| {
                    if self.satisfies_all(node, &step.conditions)? {
                        found.push(node);
                    }
                    Ok(true)
                })?;
                continue;
            }
            of_node.clear();
            self.visit(step, *node, &mut |node| {
                of_node.push(node);
                Ok(true)
            })?;
            self.filter(&mut of_node, &step.conditions)?;
            found.append(&mut of_node);
        }
        sort_and_dedup(&mut found);
        Ok(found)
    }

    /// Keeps the nodes that satisfy all conditions; each condition counts positions among the nodes that satisfied those before.
    fn filter(&self, nodes: &mut Vec<NodeRef>, conditions: &[Predicate]) -> EvalResult<()> {
        for condition in conditions {
            let size = nodes.len();
            let mut satisfying = 0;
            for index in 0..size {
                let position_context = EvalContext { node: nodes[index], position: index + 1, size };
                self.spend(1)?;
                let fits = match condition.expression.kind() {
                    ResultType::Number => self.number(&condition.expression, &position_context)? == position_context.position as f64,
                    _ => self.boolean(&condition.expression, &position_context)?,
                };
                if fits {
                    nodes[satisfying] = nodes[index];
                    satisfying += 1;
                }
            }
            nodes.truncate(satisfying);
        }
        Ok(())
    }
}

fn sort_and_dedup(nodes: &mut Vec<NodeRef>) {
    if !nodes.is_sorted_by(|a, b| a < b) {
        nodes.sort_unstable();
        nodes.dedup();
    }
}
