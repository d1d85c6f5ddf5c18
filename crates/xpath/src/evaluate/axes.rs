//! Finds the nodes of one step from one node.

use super::{EvalResult, Evaluation, NodeRef};
use crate::expression::{Axis, NodeTest, Step};
use crate::tree::{NodeKind, Tree};

impl<T: Tree + ?Sized> Evaluation<'_, '_, T> {
    /// Calls `visit` with the nodes that a step's axis and test find from a node, in the axis's order, until it returns false.
    pub(super) fn visit(&self, step: &Step, from: NodeRef, visit: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<()> {
        let (tree, place) = (self.tree, from.place());
        let own = tree.node(place);
        if from.is_namespace() {
            return self.visit_from_namespace(step, from, visit);
        }
        self.spend(1)?;
        let test = ResolvedTest::new(self, step);
        let mut each = |place: usize| -> EvalResult<bool> { if test.fits(self, place)? { visit(NodeRef::node(place)) } else { Ok(true) } };
        match step.axis {
            Axis::SelfNode => {
                each(place)?;
            }
            Axis::Child => {
                let mut child = place + 1 + own.attributes;
                let mut seen = 0;
                while child < own.end {
                    seen += 1;
                    if !each(child)? {
                        break;
                    }
                    child = tree.node(child).end;
                }
                self.spend(seen)?;
            }
            Axis::Attribute => {
                self.spend(own.attributes as u64)?;
                for attribute in place + 1..place + 1 + own.attributes {
                    if !each(attribute)? {
                        break;
                    }
                }
            }
            Axis::Descendant | Axis::DescendantOrSelf => {
                if step.axis == Axis::DescendantOrSelf && !each(place)? {
                    return Ok(());
                }
                let range = place + 1..own.end;
                self.spend(range.len() as u64 / 8)?;
                if let ResolvedTest::Element(wanted) = test {
                    let mut next = range.start;
                    while let Some(at) = tree.next_element(wanted, next..range.end) {
                        if !visit(NodeRef::node(at))? {
                            break;
                        }
                        next = at + 1;
                    }
                    return Ok(());
                }
                for at in range {
                    if tree.node(at).kind != NodeKind::Attribute && !each(at)? {
                        break;
                    }
                }
            }
            Axis::Parent => {
                if own.kind != NodeKind::Root {
                    each(own.parent)?;
                }
            }
            Axis::Ancestor | Axis::AncestorOrSelf => {
                let mut at = place;
                if step.axis == Axis::AncestorOrSelf && !each(at)? {
                    return Ok(());
                }
                while tree.node(at).kind != NodeKind::Root {
                    self.spend(1)?;
                    at = tree.node(at).parent;
                    if !each(at)? {
                        break;
                    }
                }
            }
            Axis::Following => {
                let first = if own.kind == NodeKind::Attribute { self.behind_attributes(place) } else { own.end };
                self.spend((tree.size() - first) as u64 / 8)?;
                for at in first..tree.size() {
                    if tree.node(at).kind != NodeKind::Attribute && !each(at)? {
                        break;
                    }
                }
            }
            Axis::FollowingSibling => {
                if !matches!(own.kind, NodeKind::Attribute | NodeKind::Root) {
                    let end = tree.node(own.parent).end;
                    let mut at = own.end;
                    while at < end {
                        self.spend(1)?;
                        if !each(at)? {
                            break;
                        }
                        at = tree.node(at).end;
                    }
                }
            }
            Axis::Preceding => {
                self.spend(place as u64 / 8)?;
                let start = if own.kind == NodeKind::Attribute { own.parent } else { place };
                for at in (1..start).rev() {
                    let before = tree.node(at);
                    let is_ancestor = before.end > start;
                    if before.kind != NodeKind::Attribute && !is_ancestor && !each(at)? {
                        break;
                    }
                }
            }
            Axis::PrecedingSibling => {
                if !matches!(own.kind, NodeKind::Attribute | NodeKind::Root) {
                    let mut before = Vec::new();
                    let mut child = own.parent + 1 + tree.node(own.parent).attributes;
                    while child < place {
                        before.push(child);
                        child = tree.node(child).end;
                    }
                    self.spend(before.len() as u64)?;
                    for at in before.into_iter().rev() {
                        if !each(at)? {
                            break;
                        }
                    }
                }
            }
            Axis::Namespace => {
                if own.kind == NodeKind::Element {
                    for (number, (prefix, _)) in self.namespaces(place)?.into_iter().enumerate() {
                        if self.fits_namespace(&step.test, prefix) && !visit(NodeRef::namespace(place, number))? {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The first node of the content of an attribute's element.
    fn behind_attributes(&self, attribute: usize) -> usize {
        let element = self.tree.node(attribute).parent;
        element + 1 + self.tree.node(element).attributes
    }

    fn visit_from_namespace(&self, step: &Step, from: NodeRef, visit: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<()> {
        let element = from.place();
        let above = Step { axis: Axis::AncestorOrSelf, ..step.clone() };
        self.spend(1)?;
        let itself = matches!(step.axis, Axis::SelfNode | Axis::DescendantOrSelf | Axis::AncestorOrSelf) && step.test == NodeTest::Node;
        if itself && !visit(from)? {
            return Ok(());
        }
        match step.axis {
            Axis::Ancestor | Axis::AncestorOrSelf => self.visit(&above, NodeRef::node(element), visit)?,
            Axis::Parent => self.visit(&Step { axis: Axis::SelfNode, ..step.clone() }, NodeRef::node(element), visit)?,
            Axis::Following => {
                let test = ResolvedTest::new(self, step);
                let first = element + 1 + self.tree.node(element).attributes;
                self.spend(1 + (self.tree.size() - first) as u64 / 8)?;
                for at in first..self.tree.size() {
                    if self.tree.node(at).kind != NodeKind::Attribute && test.fits(self, at)? && !visit(NodeRef::node(at))? {
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

    fn fits<T: Tree + ?Sized>(&self, evaluation: &Evaluation<'_, '_, T>, place: usize) -> EvalResult<bool> {
        let (tree, kind) = (evaluation.tree, evaluation.tree.node(place).kind);
        Ok(match self {
            ResolvedTest::Element(name) => kind == NodeKind::Element && tree.name_number(place) == *name,
            ResolvedTest::Attribute(name) => kind == NodeKind::Attribute && tree.name_number(place) == *name,
            ResolvedTest::Nothing => false,
            ResolvedTest::Other(test, principal) => match test {
                NodeTest::Node => true,
                NodeTest::Any => kind == *principal,
                NodeTest::AnyOf(uri) => kind == *principal && evaluation.equal(tree.name(place).uri, uri)?,
                NodeTest::Text => kind == NodeKind::Text,
                NodeTest::Comment => kind == NodeKind::Comment,
                NodeTest::Instruction(None) => kind == NodeKind::Instruction,
                NodeTest::Instruction(Some(target)) => kind == NodeKind::Instruction && evaluation.equal(tree.name(place).local, target)?,
                NodeTest::Name(_) => false,
            },
        })
    }
}
