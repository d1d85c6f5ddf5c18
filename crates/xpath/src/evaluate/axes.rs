//! Finds the nodes of one step from one node.

use super::{EvalResult, Evaluation, NodeRef};
use crate::expression::{Axis, NodeTest, Step};
use crate::tree::{NodeKind, Tree};

impl<T: Tree + ?Sized> Evaluation<'_, '_, T> {
    /// Calls `visit` with the nodes that a step's axis and test find from a node, in the axis's order, until it returns false.
    pub(super) fn visit(&self, step: &Step, from: NodeRef, visit: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<()> {
        let (tree, index) = (self.tree, from.index());
        let node = tree.node(index);
        if from.is_namespace() {
            return self.visit_from_namespace(step, from, visit);
        }
        self.spend(1)?;
        let test = ResolvedTest::new(self, step);
        let mut visit_if_fits = |index: usize| -> EvalResult<bool> { if test.fits(self, index)? { visit(NodeRef::node(index)) } else { Ok(true) } };
        match step.axis {
            Axis::SelfNode => {
                visit_if_fits(index)?;
            }
            Axis::Child => {
                let mut child = index + 1 + node.attributes;
                let mut seen = 0;
                while child < node.end {
                    seen += 1;
                    if !visit_if_fits(child)? {
                        break;
                    }
                    child = tree.node(child).end;
                }
                self.spend(seen)?;
            }
            Axis::Attribute => {
                self.spend(node.attributes as u64)?;
                for attribute in index + 1..index + 1 + node.attributes {
                    if !visit_if_fits(attribute)? {
                        break;
                    }
                }
            }
            Axis::Descendant | Axis::DescendantOrSelf => {
                if step.axis == Axis::DescendantOrSelf && !visit_if_fits(index)? {
                    return Ok(());
                }
                let range = index + 1..node.end;
                self.spend(range.len() as u64 / 8)?;
                if let ResolvedTest::Element(wanted) = test {
                    let mut next = range.start;
                    while let Some(index) = tree.next_element(wanted, next..range.end) {
                        if !visit(NodeRef::node(index))? {
                            break;
                        }
                        next = index + 1;
                    }
                    return Ok(());
                }
                for index in range {
                    if tree.node(index).kind != NodeKind::Attribute && !visit_if_fits(index)? {
                        break;
                    }
                }
            }
            Axis::Parent => {
                if node.kind != NodeKind::Root {
                    visit_if_fits(node.parent)?;
                }
            }
            Axis::Ancestor | Axis::AncestorOrSelf => {
                let mut index = index;
                if step.axis == Axis::AncestorOrSelf && !visit_if_fits(index)? {
                    return Ok(());
                }
                while tree.node(index).kind != NodeKind::Root {
                    self.spend(1)?;
                    index = tree.node(index).parent;
                    if !visit_if_fits(index)? {
                        break;
                    }
                }
            }
            Axis::Following => {
                let first = if node.kind == NodeKind::Attribute { self.content_start(index) } else { node.end };
                self.spend((tree.size() - first) as u64 / 8)?;
                for index in first..tree.size() {
                    if tree.node(index).kind != NodeKind::Attribute && !visit_if_fits(index)? {
                        break;
                    }
                }
            }
            Axis::FollowingSibling => {
                if !matches!(node.kind, NodeKind::Attribute | NodeKind::Root) {
                    let end = tree.node(node.parent).end;
                    let mut index = node.end;
                    while index < end {
                        self.spend(1)?;
                        if !visit_if_fits(index)? {
                            break;
                        }
                        index = tree.node(index).end;
                    }
                }
            }
            Axis::Preceding => {
                self.spend(index as u64 / 8)?;
                let start = if node.kind == NodeKind::Attribute { node.parent } else { index };
                for index in (1..start).rev() {
                    let preceding = tree.node(index);
                    let is_ancestor = preceding.end > start;
                    if preceding.kind != NodeKind::Attribute && !is_ancestor && !visit_if_fits(index)? {
                        break;
                    }
                }
            }
            Axis::PrecedingSibling => {
                if !matches!(node.kind, NodeKind::Attribute | NodeKind::Root) {
                    let mut preceding_siblings = Vec::new();
                    let mut child = node.parent + 1 + tree.node(node.parent).attributes;
                    while child < index {
                        preceding_siblings.push(child);
                        child = tree.node(child).end;
                    }
                    self.spend(preceding_siblings.len() as u64)?;
                    for index in preceding_siblings.into_iter().rev() {
                        if !visit_if_fits(index)? {
                            break;
                        }
                    }
                }
            }
            Axis::Namespace => {
                if node.kind == NodeKind::Element {
                    for (number, (prefix, _)) in self.namespaces(index)?.into_iter().enumerate() {
                        if self.fits_namespace(&step.test, prefix) && !visit(NodeRef::namespace(index, number))? {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The first node of the content of an attribute's element.
    fn content_start(&self, attribute: usize) -> usize {
        let element = self.tree.node(attribute).parent;
        element + 1 + self.tree.node(element).attributes
    }

    fn visit_from_namespace(&self, step: &Step, from: NodeRef, visit: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<()> {
        let element = from.index();
        let ancestors_step = Step { axis: Axis::AncestorOrSelf, ..step.clone() };
        self.spend(1)?;
        let includes_namespace = matches!(step.axis, Axis::SelfNode | Axis::DescendantOrSelf | Axis::AncestorOrSelf) && step.test == NodeTest::Node;
        if includes_namespace && !visit(from)? {
            return Ok(());
        }
        match step.axis {
            Axis::Ancestor | Axis::AncestorOrSelf => self.visit(&ancestors_step, NodeRef::node(element), visit)?,
            Axis::Parent => self.visit(&Step { axis: Axis::SelfNode, ..step.clone() }, NodeRef::node(element), visit)?,
            Axis::Following => {
                let test = ResolvedTest::new(self, step);
                let first = element + 1 + self.tree.node(element).attributes;
                self.spend(1 + (self.tree.size() - first) as u64 / 8)?;
                for index in first..self.tree.size() {
                    if self.tree.node(index).kind != NodeKind::Attribute && test.fits(self, index)? && !visit(NodeRef::node(index))? {
                        break;
                    }
                }
            }
            Axis::Preceding => self.visit(step, NodeRef::node(element), visit)?,
            _ => {}
        }
        Ok(())
    }

    fn fits_namespace(&self, test: &NodeTest, prefix: &str) -> bool {
        match test {
            NodeTest::Node | NodeTest::Any => true,
            NodeTest::Name(name) => {
                let name = &self.xpath.names[*name];
                name.uri.is_empty() && &*name.local == prefix
            }
            _ => false,
        }
    }
}

/// A node test with its name looked up.
enum ResolvedTest<'s> {
    /// Elements of a name.
    Element(u32),
    /// Attributes of a name.
    Attribute(u32),
    /// A name that is not in the document.
    Nothing,
    /// Any other test, and the axis's principal kind of node.
    Other(&'s NodeTest, NodeKind),
}

impl<'s> ResolvedTest<'s> {
    fn new<T: ?Sized>(evaluation: &Evaluation<'_, '_, T>, step: &'s Step) -> Self {
        match (&step.test, step.axis) {
            (NodeTest::Name(name), axis) => match (evaluation.names[*name], axis) {
                (None, _) => ResolvedTest::Nothing,
                (Some(name), Axis::Attribute) => ResolvedTest::Attribute(name),
                (Some(name), _) => ResolvedTest::Element(name),
            },
            (other, Axis::Attribute) => ResolvedTest::Other(other, NodeKind::Attribute),
            (other, _) => ResolvedTest::Other(other, NodeKind::Element),
        }
    }

    fn fits<T: Tree + ?Sized>(&self, evaluation: &Evaluation<'_, '_, T>, index: usize) -> EvalResult<bool> {
        let (tree, kind) = (evaluation.tree, evaluation.tree.node(index).kind);
        Ok(match self {
            ResolvedTest::Element(name) => kind == NodeKind::Element && tree.name_number(index) == *name,
            ResolvedTest::Attribute(name) => kind == NodeKind::Attribute && tree.name_number(index) == *name,
            ResolvedTest::Nothing => false,
            ResolvedTest::Other(test, principal) => match test {
                NodeTest::Node => true,
                NodeTest::Any => kind == *principal,
                NodeTest::AnyOf(uri) => kind == *principal && evaluation.equal(tree.name(index).uri, uri)?,
                NodeTest::Text => kind == NodeKind::Text,
                NodeTest::Comment => kind == NodeKind::Comment,
                NodeTest::Instruction(None) => kind == NodeKind::Instruction,
                NodeTest::Instruction(Some(target)) => kind == NodeKind::Instruction && evaluation.equal(tree.name(index).local, target)?,
                NodeTest::Name(_) => false,
            },
        })
    }
}
