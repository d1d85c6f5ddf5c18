//! XPath 1.0 evaluated on trees, as the standard says.
//!
//! Where libxml2 differs from the standard, the standard is followed: numbers are written without exponents and with as many
//! digits as tell them apart; texts with an exponent are no numbers; what follows an attribute includes its element's content.
//!
//! Cost is bounded: every node that is looked at is a step, and so is every stretch of text; an evaluation that needs more steps than
//! it may take ends with [`StepLimitExceeded`].

use crate::tree::{NodeKind, XmlNode, XmlTree};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Write as _;
use stook_catalogue::xpath::{
    Axis, CoreFunction, Expr, LocationPath, NodeTest, PathStart, Predicate, ResultType as Gives, Step, XPath, XPathOperator,
};

/// The evaluation would take more steps than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("evaluating it takes more steps than it may")]
pub struct StepLimitExceeded;

type EvalResult<T> = Result<T, StepLimitExceeded>;

/// A node, or the n-th namespace in scope of an element, ordered as in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeRef(u64);

impl NodeRef {
    fn node(node: usize) -> Self {
        Self((node as u64) << 16)
    }

    /// `number` counts from 0.
    fn namespace(element: usize, number: usize) -> Self {
        Self((element as u64) << 16 | (number as u64 + 1).min(0xffff))
    }

    fn place(self) -> usize {
        (self.0 >> 16) as usize
    }

    fn is_namespace(self) -> bool {
        self.0 & 0xffff != 0
    }
}

/// What an expression gives.
#[derive(Debug, Clone, PartialEq)]
pub enum XPathValue<'t> {
    /// The string-values of nodes, in document order.
    Nodes(Vec<Cow<'t, str>>),
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(Cow<'t, str>),
}

/// Whether an expression holds of a tree, by the standard's `boolean()`; `steps` are what it may take. The node at hand is the tree's
/// element.
///
/// # Errors
/// When it takes more.
pub fn holds(xpath: &XPath, tree: &XmlTree<'_>, steps: u64) -> Result<bool, StepLimitExceeded> {
    let evaluation = Evaluation::new(xpath, tree, steps);
    evaluation.boolean(&xpath.expression, &evaluation.start())
}

/// What an expression gives, as [`holds`].
///
/// # Errors
/// When it takes more steps.
pub fn evaluate<'t>(xpath: &XPath, tree: &'t XmlTree<'_>, steps: u64) -> Result<XPathValue<'t>, StepLimitExceeded> {
    evaluate_from(xpath, tree, start(tree), steps)
}

/// The document's element.
pub fn start(tree: &XmlTree<'_>) -> NodeRef {
    NodeRef::node(tree.element())
}

/// The nodes an expression gives; none where it gives something else.
///
/// # Errors
/// When it takes more steps.
pub fn places(xpath: &XPath, tree: &XmlTree<'_>, steps: u64) -> Result<Vec<NodeRef>, StepLimitExceeded> {
    let evaluation = Evaluation::new(xpath, tree, steps);
    match xpath.expression.kind() {
        Gives::Nodes => evaluation.nodes(&xpath.expression, &evaluation.start()),
        _ => Ok(Vec::new()),
    }
}

/// As [`evaluate`], from a node on.
///
/// # Errors
/// When it takes more steps.
pub fn evaluate_from<'t>(xpath: &XPath, tree: &'t XmlTree<'_>, from: NodeRef, steps: u64) -> Result<XPathValue<'t>, StepLimitExceeded> {
    let evaluation = Evaluation::new(xpath, tree, steps);
    let here = EvalContext { node: from, position: 1, size: 1 };
    Ok(match xpath.expression.kind() {
        Gives::Nodes => {
            let nodes = evaluation.nodes(&xpath.expression, &here)?;
            XPathValue::Nodes(nodes.into_iter().map(|node| evaluation.string_of(node)).collect::<EvalResult<_>>()?)
        }
        Gives::Boolean => XPathValue::Boolean(evaluation.boolean(&xpath.expression, &here)?),
        Gives::Number => XPathValue::Number(evaluation.number(&xpath.expression, &here)?),
        Gives::Text => XPathValue::Text(evaluation.string(&xpath.expression, &here)?),
    })
}

/// The node at hand, its position, and the number of nodes.
#[derive(Clone, Copy)]
struct EvalContext {
    node: NodeRef,
    position: usize,
    size: usize,
}

struct Evaluation<'x, 't, 'b> {
    tree: &'t XmlTree<'b>,
    /// By name of the expression: the tree's name.
    names: Vec<Option<u32>>,
    steps: Cell<u64>,
    xpath: &'x XPath,
}

impl<'x, 't, 'b> Evaluation<'x, 't, 'b> {
    fn new(xpath: &'x XPath, tree: &'t XmlTree<'b>, steps: u64) -> Self {
        let names = xpath.names.iter().map(|name| tree.find_name(name.hash, &name.uri, &name.local)).collect();
        Self { tree, names, steps: Cell::new(steps), xpath }
    }

    fn start(&self) -> EvalContext {
        EvalContext { node: start(self.tree), position: 1, size: 1 }
    }

    fn spend(&self, steps: u64) -> EvalResult<()> {
        match self.steps.get().checked_sub(steps) {
            Some(left) => {
                self.steps.set(left);
                Ok(())
            }
            None => Err(StepLimitExceeded),
        }
    }

    // --- values

    fn boolean(&self, expression: &Expr, here: &EvalContext) -> EvalResult<bool> {
        Ok(match expression {
            Expr::Binary(XPathOperator::Or, sides) => self.boolean(&sides.0, here)? || self.boolean(&sides.1, here)?,
            Expr::Binary(XPathOperator::And, sides) => self.boolean(&sides.0, here)? && self.boolean(&sides.1, here)?,
            Expr::Binary(XPathOperator::Union, sides) => self.boolean(&sides.0, here)? || self.boolean(&sides.1, here)?,
            Expr::Binary(operator, sides) if operator.compares() => self.compare(*operator, &sides.0, &sides.1, here)?,
            Expr::Path(path) => self.exists(path, here)?,
            Expr::Call(function, arguments) => match function {
                CoreFunction::True => true,
                CoreFunction::False => false,
                CoreFunction::Not => !self.boolean(&arguments[0], here)?,
                CoreFunction::Boolean => self.boolean(&arguments[0], here)?,
                CoreFunction::Contains => {
                    let (text, part) = (self.string(&arguments[0], here)?, self.string(&arguments[1], here)?);
                    self.spend(text.len() as u64 / 64)?;
                    memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some()
                }
                CoreFunction::StartsWith => self.string(&arguments[0], here)?.starts_with(&*self.string(&arguments[1], here)?),
                CoreFunction::Lang => self.lang(&self.string(&arguments[0], here)?, here.node),
                CoreFunction::Id => !self.nodes(expression, here)?.is_empty(),
                _ if expression.kind() == Gives::Number => truth(self.number(expression, here)?),
                _ => !self.string(expression, here)?.is_empty(),
            },
            Expr::Literal(text) => !text.is_empty(),
            Expr::Binary(..) | Expr::Negate(_) | Expr::Number(_) => truth(self.number(expression, here)?),
        })
    }

    fn number(&self, expression: &Expr, here: &EvalContext) -> EvalResult<f64> {
        Ok(match expression {
            Expr::Number(number) => *number,
            Expr::Negate(inner) => -self.number(inner, here)?,
            Expr::Binary(
                operator @ (XPathOperator::Add | XPathOperator::Subtract | XPathOperator::Multiply | XPathOperator::Divide | XPathOperator::Modulo),
                sides,
            ) => {
                let (left, right) = (self.number(&sides.0, here)?, self.number(&sides.1, here)?);
                match operator {
                    XPathOperator::Add => left + right,
                    XPathOperator::Subtract => left - right,
                    XPathOperator::Multiply => left * right,
                    XPathOperator::Divide => left / right,
                    _ => left % right,
                }
            }
            Expr::Call(function, arguments) => match function {
                CoreFunction::Position => here.position as f64,
                CoreFunction::Last => here.size as f64,
                CoreFunction::Count => self.nodes(&arguments[0], here)?.len() as f64,
                CoreFunction::Sum => {
                    let mut sum = 0.0;
                    for node in self.nodes(&arguments[0], here)? {
                        sum += to_number(&self.string_of(node)?);
                    }
                    sum
                }
                CoreFunction::Floor => self.number(&arguments[0], here)?.floor(),
                CoreFunction::Ceiling => self.number(&arguments[0], here)?.ceil(),
                CoreFunction::Round => round(self.number(&arguments[0], here)?),
                CoreFunction::StringLength => self.argument(arguments, here)?.chars().count() as f64,
                CoreFunction::Number => match arguments.first() {
                    Some(argument) => self.number(argument, here)?,
                    None => to_number(&self.string_of(here.node)?),
                },
                _ => self.other_number(expression, here)?,
            },
            _ => self.other_number(expression, here)?,
        })
    }

    fn other_number(&self, expression: &Expr, here: &EvalContext) -> EvalResult<f64> {
        Ok(match expression.kind() {
            Gives::Boolean => f64::from(u8::from(self.boolean(expression, here)?)),
            _ => to_number(&self.string(expression, here)?),
        })
    }

    fn string(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Cow<'t, str>> {
        let (function, arguments) = match expression {
            Expr::Call(function, arguments) => (function, arguments),
            Expr::Literal(text) => return Ok(Cow::Owned(text.to_string())),
            _ => return self.converted(expression, here),
        };
        Ok(match function {
            CoreFunction::String => self.argument(arguments, here)?,
            CoreFunction::Concat => {
                let mut whole = String::new();
                for argument in arguments {
                    whole.push_str(&self.string(argument, here)?);
                    self.spend(whole.len() as u64 / 64)?;
                }
                Cow::Owned(whole)
            }
            CoreFunction::NormalizeSpace => {
                let text = self.argument(arguments, here)?;
                let words: Vec<&str> = text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()).collect();
                Cow::Owned(words.join(" "))
            }
            CoreFunction::Substring => {
                let text = self.string(&arguments[0], here)?;
                let from = round(self.number(&arguments[1], here)?);
                let behind = match arguments.get(2) {
                    Some(length) => from + round(self.number(length, here)?),
                    None => f64::INFINITY,
                };
                let inside = |place: usize| place as f64 >= from && (place as f64) < behind;
                Cow::Owned(text.chars().enumerate().filter(|(place, _)| inside(place + 1)).map(|(_, c)| c).collect())
            }
            CoreFunction::SubstringBefore | CoreFunction::SubstringAfter => {
                let (text, mark) = (self.string(&arguments[0], here)?, self.string(&arguments[1], here)?);
                Cow::Owned(match (text.split_once(&*mark), function) {
                    (Some((before, _)), CoreFunction::SubstringBefore) => before.to_owned(),
                    (Some((_, after)), _) => after.to_owned(),
                    (None, _) => String::new(),
                })
            }
            CoreFunction::Translate => {
                let text = self.string(&arguments[0], here)?;
                let (from, to) = (self.string(&arguments[1], here)?, self.string(&arguments[2], here)?);
                self.spend(text.len() as u64 * (1 + from.len() as u64 / 16) / 64)?;
                let from: Vec<char> = from.chars().collect();
                let to: Vec<char> = to.chars().collect();
                let change = |c: char| match from.iter().position(|own| *own == c) {
                    None => Some(c),
                    Some(place) => to.get(place).copied(),
                };
                Cow::Owned(text.chars().filter_map(change).collect())
            }
            CoreFunction::LocalName | CoreFunction::Name | CoreFunction::NamespaceUri => {
                let node = match arguments.first() {
                    Some(argument) => self.first(argument, here)?,
                    None => Some(here.node),
                };
                match node {
                    None => Cow::Borrowed(""),
                    Some(node) => self.name_of(node, *function),
                }
            }
            _ => self.converted(expression, here)?,
        })
    }

    /// What is not text, as text.
    fn converted(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Cow<'t, str>> {
        Ok(match expression.kind() {
            Gives::Nodes => match self.first(expression, here)? {
                Some(node) => self.string_of(node)?,
                None => Cow::Borrowed(""),
            },
            Gives::Boolean => Cow::Borrowed(if self.boolean(expression, here)? { "true" } else { "false" }),
            Gives::Number | Gives::Text => Cow::Owned(show_number(self.number(expression, here)?)),
        })
    }

    /// The only argument as text, or that of the node at hand.
    fn argument(&self, arguments: &[Expr], here: &EvalContext) -> EvalResult<Cow<'t, str>> {
        match arguments.first() {
            Some(argument) => self.string(argument, here),
            None => self.string_of(here.node),
        }
    }

    fn name_of(&self, node: NodeRef, function: CoreFunction) -> Cow<'t, str> {
        if node.is_namespace() {
            let prefix = self.namespace(node).0;
            return Cow::Borrowed(if function == CoreFunction::NamespaceUri { "" } else { prefix });
        }
        let place = node.place();
        let (uri, prefix, local) = match self.tree.nodes[place].kind {
            NodeKind::Element | NodeKind::Attribute | NodeKind::Instruction => self.tree.name(place),
            _ => ("", "", ""),
        };
        match function {
            CoreFunction::LocalName => Cow::Borrowed(local),
            CoreFunction::NamespaceUri => Cow::Borrowed(uri),
            _ if prefix.is_empty() => Cow::Borrowed(local),
            _ => Cow::Owned(format!("{prefix}:{local}")),
        }
    }

    fn namespace(&self, node: NodeRef) -> (&'t str, &'t str) {
        let number = (node.0 & 0xffff) as usize - 1;
        self.tree.namespaces(node.place()).get(number).copied().unwrap_or_default()
    }

    /// The string-value of a node.
    fn string_of(&self, node: NodeRef) -> EvalResult<Cow<'t, str>> {
        if node.is_namespace() {
            return Ok(Cow::Borrowed(self.namespace(node).1));
        }
        let place = node.place();
        let own = &self.tree.nodes[place];
        if !matches!(own.kind, NodeKind::Root | NodeKind::Element) {
            return Ok(Cow::Borrowed(self.tree.own_text(place)));
        }
        let inside = place + 1 + usize::from(own.attributes)..own.end as usize;
        self.spend(inside.len() as u64)?;
        let mut texts = inside.filter(|place| self.tree.nodes[*place].kind == NodeKind::Text).map(|place| self.tree.own_text(place));
        let first = texts.next().unwrap_or_default();
        let Some(second) = texts.next() else { return Ok(Cow::Borrowed(first)) };
        let mut whole = first.to_owned();
        whole.push_str(second);
        texts.for_each(|text| whole.push_str(text));
        self.spend(whole.len() as u64 / 64)?;
        Ok(Cow::Owned(whole))
    }

    fn lang(&self, wanted: &str, node: NodeRef) -> bool {
        let mut place = node.place();
        loop {
            let own = &self.tree.nodes[place];
            for attribute in place + 1..place + 1 + usize::from(own.attributes) {
                let (uri, _, local) = self.tree.name(attribute);
                if local == "lang" && uri == "http://www.w3.org/XML/1998/namespace" {
                    let found = self.tree.own_text(attribute);
                    let begins = found.get(..wanted.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(wanted));
                    return begins && matches!(found.as_bytes().get(wanted.len()), None | Some(b'-'));
                }
            }
            if own.kind == NodeKind::Root {
                return false;
            }
            place = own.parent as usize;
        }
    }

    // --- comparisons

    fn compare(&self, operator: XPathOperator, left: &Expr, right: &Expr, here: &EvalContext) -> EvalResult<bool> {
        let (kinds, equality) = ((left.kind(), right.kind()), matches!(operator, XPathOperator::Equal | XPathOperator::NotEqual));
        match kinds {
            (Gives::Nodes, Gives::Nodes) => {
                let left = self.texts(left, here)?;
                let right = self.texts(right, here)?;
                self.compare_sets(operator, &left, &right)
            }
            (Gives::Boolean, _) | (_, Gives::Boolean) if equality => {
                Ok((self.boolean(left, here)? == self.boolean(right, here)?) == (operator == XPathOperator::Equal))
            }
            (Gives::Nodes, Gives::Boolean) | (Gives::Boolean, Gives::Nodes) => {
                let number = |value: bool| f64::from(u8::from(value));
                Ok(numbers(operator, number(self.boolean(left, here)?), number(self.boolean(right, here)?)))
            }
            (Gives::Nodes, other) => self.compare_nodes(operator, left, right, other, false, here),
            (other, Gives::Nodes) => self.compare_nodes(operator, right, left, other, true, here),
            (Gives::Number, _) | (_, Gives::Number) => Ok(numbers(operator, self.number(left, here)?, self.number(right, here)?)),
            _ if equality => Ok((self.string(left, here)? == self.string(right, here)?) == (operator == XPathOperator::Equal)),
            _ => Ok(numbers(operator, self.number(left, here)?, self.number(right, here)?)),
        }
    }

    /// Some node compares so with a text or a number.
    fn compare_nodes(&self, operator: XPathOperator, nodes: &Expr, other: &Expr, kind: Gives, turned: bool, here: &EvalContext) -> EvalResult<bool> {
        let equality = matches!(operator, XPathOperator::Equal | XPathOperator::NotEqual);
        if kind == Gives::Text && equality {
            let wanted = match other {
                Expr::Literal(text) => Cow::Borrowed(&**text),
                _ => self.string(other, here)?,
            };
            return self.any(nodes, here, &mut |node| Ok((*self.string_of(node)? == *wanted) == (operator == XPathOperator::Equal)));
        }
        let wanted = self.number(other, here)?;
        self.any(nodes, here, &mut |node| {
            let own = to_number(&self.string_of(node)?);
            Ok(if turned { numbers(operator, wanted, own) } else { numbers(operator, own, wanted) })
        })
    }

    fn texts(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Vec<Cow<'t, str>>> {
        self.nodes(expression, here)?.into_iter().map(|node| self.string_of(node)).collect()
    }

    /// Some pair of nodes compares so.
    fn compare_sets(&self, operator: XPathOperator, left: &[Cow<'t, str>], right: &[Cow<'t, str>]) -> EvalResult<bool> {
        self.spend((left.len() + right.len()) as u64)?;
        match operator {
            XPathOperator::Equal => {
                let (few, many) = if left.len() < right.len() { (left, right) } else { (right, left) };
                let few: std::collections::HashSet<&str> = few.iter().map(|text| &**text).collect();
                Ok(many.iter().any(|text| few.contains(&**text)))
            }
            XPathOperator::NotEqual => Ok(match left.first().or(right.first()) {
                None => false,
                Some(first) => !left.is_empty() && !right.is_empty() && left.iter().chain(right).any(|text| text != first),
            }),
            _ => {
                // the extremes decide; what is no number compares with nothing
                let extreme = |texts: &[Cow<'t, str>], pick: fn(f64, f64) -> f64| {
                    texts.iter().map(|text| to_number(text)).filter(|number| !number.is_nan()).reduce(pick)
                };
                let (own, other) = match operator {
                    XPathOperator::Less | XPathOperator::LessOrEqual => (extreme(left, f64::min), extreme(right, f64::max)),
                    _ => (extreme(left, f64::max), extreme(right, f64::min)),
                };
                Ok(own.zip(other).is_some_and(|(own, other)| numbers(operator, own, other)))
            }
        }
    }

    // --- nodes

    /// The nodes of an expression, in document order, each once.
    fn nodes(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Vec<NodeRef>> {
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

    /// Elements whose `xml:id` is one of these.
    fn by_id(&self, argument: &Expr, here: &EvalContext) -> EvalResult<Vec<NodeRef>> {
        let wanted = match argument.kind() {
            Gives::Nodes => self.texts(argument, here)?,
            _ => vec![self.string(argument, here)?],
        };
        let wanted: Vec<&str> = wanted.iter().flat_map(|text| text.split([' ', '\t', '\n', '\r'])).filter(|id| !id.is_empty()).collect();
        let mut found = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        self.spend(self.tree.nodes.len() as u64)?;
        for (place, node) in self.tree.nodes.iter().enumerate() {
            if node.kind == NodeKind::Attribute
                && let ("http://www.w3.org/XML/1998/namespace", _, "id") = self.tree.name(place)
                && wanted.contains(&self.tree.own_text(place))
                && !seen.contains(&self.tree.own_text(place))
            {
                seen.push(self.tree.own_text(place));
                found.push(NodeRef::node(node.parent as usize));
            }
        }
        in_order(&mut found);
        Ok(found)
    }

    /// The first node in document order.
    fn first(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Option<NodeRef>> {
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
    fn exists(&self, path: &LocationPath, here: &EvalContext) -> EvalResult<bool> {
        self.any_of(path, here, &mut |_| Ok(true))
    }

    /// Whether `wanted` is true of some node of an expression.
    fn any(&self, expression: &Expr, here: &EvalContext, wanted: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<bool> {
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
        // descendants of nodes inside each other would be looked at again and again
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

    /// One step from nodes that are in document order; what is found is, too.
    fn step(&self, step: &Step, from: &[NodeRef]) -> EvalResult<Vec<NodeRef>> {
        let mut found: Vec<NodeRef> = Vec::new();
        let positional = step.conditions.iter().any(|condition| condition.positional);
        let mut behind = 0;
        let mut own = Vec::new();
        for node in from {
            if !positional {
                // the descendants of a descendant of a node before are there already
                let is_inside = !node.is_namespace() && self.tree.nodes[node.place()].kind != NodeKind::Attribute;
                if is_inside && matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf) {
                    if node.place() < behind {
                        continue;
                    }
                    behind = self.tree.nodes[node.place()].end as usize;
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

    /// Keeps the nodes that satisfy conditions, each of which counts those that satisfied the ones before.
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

    /// Calls `visit` with what a step's axis and test find from a node, in the axis's order, until it says no.
    fn visit(&self, step: &Step, from: NodeRef, visit: &mut dyn FnMut(NodeRef) -> EvalResult<bool>) -> EvalResult<()> {
        let (tree, place) = (self.tree, from.place());
        let nodes = &tree.nodes;
        let own = &nodes[place];
        if from.is_namespace() {
            return self.visit_from_namespace(step, from, visit);
        }
        let test = ResolvedTest::new(self, step);
        let mut each = |place: usize| -> EvalResult<bool> { if test.fits(self, place) { visit(NodeRef::node(place)) } else { Ok(true) } };
        match step.axis {
            Axis::SelfNode => {
                self.spend(1)?;
                each(place)?;
            }
            Axis::Child => {
                let mut child = place + 1 + usize::from(own.attributes);
                let mut seen = 1;
                while child < own.end as usize {
                    seen += 1;
                    if !each(child)? {
                        break;
                    }
                    child = nodes[child].end as usize;
                }
                self.spend(seen)?;
            }
            Axis::Attribute => {
                self.spend(1 + u64::from(own.attributes))?;
                for attribute in place + 1..place + 1 + usize::from(own.attributes) {
                    if !each(attribute)? {
                        break;
                    }
                }
            }
            Axis::Descendant | Axis::DescendantOrSelf => {
                if step.axis == Axis::DescendantOrSelf && !each(place)? {
                    return Ok(());
                }
                let range = place + 1..own.end as usize;
                self.spend(1 + range.len() as u64 / 8)?;
                if let ResolvedTest::Element(wanted) = test {
                    for (at, node) in range.clone().zip(&nodes[range]) {
                        if node.kind == NodeKind::Element && tree.canonical(node) == wanted && !visit(NodeRef::node(at))? {
                            break;
                        }
                    }
                    return Ok(());
                }
                for at in range {
                    if nodes[at].kind != NodeKind::Attribute && !each(at)? {
                        break;
                    }
                }
            }
            Axis::Parent => {
                self.spend(1)?;
                if own.kind != NodeKind::Root {
                    each(own.parent as usize)?;
                }
            }
            Axis::Ancestor | Axis::AncestorOrSelf => {
                let mut at = place;
                if step.axis == Axis::AncestorOrSelf && !each(at)? {
                    return Ok(());
                }
                while nodes[at].kind != NodeKind::Root {
                    self.spend(1)?;
                    at = nodes[at].parent as usize;
                    if !each(at)? {
                        break;
                    }
                }
            }
            Axis::Following => {
                let first = if own.kind == NodeKind::Attribute { self.behind_attributes(place) } else { own.end as usize };
                self.spend(1 + (nodes.len() - first) as u64 / 8)?;
                let behind = nodes.iter().enumerate().skip(first).filter(|(_, node)| node.kind != NodeKind::Attribute);
                for (at, _) in behind {
                    if !each(at)? {
                        break;
                    }
                }
            }
            Axis::FollowingSibling => {
                if !matches!(own.kind, NodeKind::Attribute | NodeKind::Root) {
                    let end = nodes[own.parent as usize].end as usize;
                    let mut at = own.end as usize;
                    while at < end {
                        self.spend(1)?;
                        if !each(at)? {
                            break;
                        }
                        at = nodes[at].end as usize;
                    }
                }
            }
            Axis::Preceding => {
                self.spend(1 + place as u64 / 8)?;
                let start = if own.kind == NodeKind::Attribute { own.parent as usize } else { place };
                for at in (1..start).rev() {
                    let is_ancestor = nodes[at].end as usize > start;
                    if nodes[at].kind != NodeKind::Attribute && !is_ancestor && !each(at)? {
                        break;
                    }
                }
            }
            Axis::PrecedingSibling => {
                if !matches!(own.kind, NodeKind::Attribute | NodeKind::Root) {
                    let before: Vec<usize> = tree.children(own.parent as usize).take_while(|child| *child < place).collect();
                    self.spend(1 + before.len() as u64)?;
                    for at in before.into_iter().rev() {
                        if !each(at)? {
                            break;
                        }
                    }
                }
            }
            Axis::Namespace => {
                if own.kind == NodeKind::Element {
                    let found = tree.namespaces(place);
                    self.spend(1 + found.len() as u64)?;
                    for (number, (prefix, _)) in found.into_iter().enumerate() {
                        if self.fits_namespace(&step.test, prefix) && !visit(NodeRef::namespace(place, number))? {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Where the content of an attribute's element begins.
    fn behind_attributes(&self, attribute: usize) -> usize {
        let element = self.tree.nodes[attribute].parent as usize;
        element + 1 + usize::from(self.tree.nodes[element].attributes)
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
                let first = element + 1 + usize::from(self.tree.nodes[element].attributes);
                self.spend(1 + (self.tree.nodes.len() - first) as u64 / 8)?;
                for at in first..self.tree.nodes.len() {
                    if self.tree.nodes[at].kind != NodeKind::Attribute && test.fits(self, at) && !visit(NodeRef::node(at))? {
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
    /// A name that the document does not have.
    Nothing,
    /// Any other.
    Other(&'s NodeTest, NodeKind),
}

impl<'s> ResolvedTest<'s> {
    fn new(evaluation: &Evaluation<'_, '_, '_>, step: &'s Step) -> Self {
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

    fn fits(&self, evaluation: &Evaluation<'_, '_, '_>, place: usize) -> bool {
        let node: &XmlNode = &evaluation.tree.nodes[place];
        match self {
            ResolvedTest::Element(name) => node.kind == NodeKind::Element && evaluation.tree.canonical(node) == *name,
            ResolvedTest::Attribute(name) => node.kind == NodeKind::Attribute && evaluation.tree.canonical(node) == *name,
            ResolvedTest::Nothing => false,
            ResolvedTest::Other(test, principal) => match test {
                NodeTest::Node => true,
                NodeTest::Any => node.kind == *principal,
                NodeTest::AnyOf(uri) => node.kind == *principal && evaluation.tree.name(place).0 == &**uri,
                NodeTest::Text => node.kind == NodeKind::Text,
                NodeTest::Comment => node.kind == NodeKind::Comment,
                NodeTest::Instruction(None) => node.kind == NodeKind::Instruction,
                NodeTest::Instruction(Some(target)) => node.kind == NodeKind::Instruction && evaluation.tree.name(place).2 == &**target,
                NodeTest::Name(_) => false,
            },
        }
    }
}

fn in_order(nodes: &mut Vec<NodeRef>) {
    if !nodes.is_sorted_by(|a, b| a < b) {
        nodes.sort_unstable();
        nodes.dedup();
    }
}

fn truth(number: f64) -> bool {
    number != 0.0 && !number.is_nan()
}

fn numbers(operator: XPathOperator, left: f64, right: f64) -> bool {
    match operator {
        XPathOperator::Equal => left == right,
        XPathOperator::NotEqual => left != right,
        XPathOperator::Less => left < right,
        XPathOperator::LessOrEqual => left <= right,
        XPathOperator::Greater => left > right,
        _ => left >= right,
    }
}

/// The nearest whole number, the larger of two.
fn round(number: f64) -> f64 {
    // what is whole stays as it is, and so do infinities and what is no number; -0.2 becomes -0
    if number.fract() == 0.0 || !number.is_finite() { number } else { (number + 0.5).floor().abs().copysign(number) }
}

/// Text as a number: digits with at most one point and one minus before them, blanks around; everything else is none.
pub(crate) fn to_number(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return f64::NAN;
    }
    text.parse().unwrap_or(f64::NAN)
}

/// A number as text: no exponents, whole numbers without a point.
pub(crate) fn show_number(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    let mut text = String::new();
    let _ = write!(text, "{number}");
    text
}
