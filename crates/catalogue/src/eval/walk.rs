//! Evaluates a parsed expression. It is Stook's own evaluator over what the cel crate has parsed, because of a rule that CEL does not have: absent
//! values stay absent. An operator or function with a null operand returns null instead of an error; so do members of null, and positions outside a
//! list. If nothing is null, results are those of the cel crate, which a test compares.
//!
//! In `&&` and `||`, null is unknown: false, or true, on the other side decides. `==`, `!=`, `in` of a list, `has`, and functions for which null
//! counts see null as a value. A null condition does not hold.

use crate::eval::convert::{CelValue as Cel, text_to_cel};
use crate::eval::functions::{self, EvalError, EvalResult};
use crate::eval::tables::ConstantTables;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::HashMap;
use std::sync::Arc;

/// Max loop steps of one evaluation, over all lists together, because nested lists multiply.
const MAX_STEPS: u64 = 1_000_000;

/// A macro of CEL, which the parser has expanded to a loop.
pub(crate) struct Macro<'e> {
    /// The list or struct it loops over.
    pub range: &'e IdedExpr,
    /// The name of an element.
    pub name: &'e str,
    /// What it does with each element.
    pub kind: MacroKind<'e>,
}

/// What a macro does with each element.
pub(crate) enum MacroKind<'e> {
    /// `map` and `filter`: the condition, and the resulting element.
    Map(Option<&'e IdedExpr>, &'e IdedExpr),
    All(&'e IdedExpr),
    Exists(&'e IdedExpr),
    ExistsOne(&'e IdedExpr),
}

/// Recognises the macro of an expanded loop.
pub(crate) fn macro_of(made: &ComprehensionExpr) -> Option<Macro<'_>> {
    let Expr::Call(step) = &made.loop_step.expr else { return None };
    let kind = match (&made.accu_init.expr, step.func_name.as_str(), step.args.as_slice()) {
        (Expr::Literal(LiteralValue::Boolean(_)), "_&&_", [_, condition]) => MacroKind::All(condition),
        (Expr::Literal(LiteralValue::Boolean(_)), "_||_", [_, condition]) => MacroKind::Exists(condition),
        (Expr::Literal(LiteralValue::Int(_)), "_?_:_", [condition, ..]) => MacroKind::ExistsOne(condition),
        (Expr::List(_), "_?_:_", [condition, made, _]) => MacroKind::Map(Some(condition), appended(made)?),
        (Expr::List(_), "_+_", _) => MacroKind::Map(None, appended(&made.loop_step)?),
        _ => return None,
    };
    Some(Macro { range: &made.iter_range, name: &made.iter_var, kind })
}

/// Returns the element of `@result + [element]`.
fn appended(step: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::Call(CallExpr { args, .. }) = &step.expr else { return None };
    match args.as_slice() {
        [_, IdedExpr { expr: Expr::List(list), .. }] => list.elements.first(),
        _ => None,
    }
}

/// The context of an evaluation.
pub(crate) struct EvalContext<'e> {
    /// Constant tables.
    pub tables: &'e ConstantTables,
    /// Values by name.
    pub variables: Vec<(&'e str, Cel)>,
    /// The current elements of loops, innermost last.
    pub elements: Vec<(&'e str, Cel)>,
    /// The number of loop steps so far.
    pub steps: u64,
}

impl<'e> EvalContext<'e> {
    /// Evaluates an expression.
    pub fn value(&mut self, expression: &'e IdedExpr) -> EvalResult {
        match &expression.expr {
            Expr::Literal(literal) => Ok(constant(literal)),
            Expr::Ident(name) => {
                let found = self.elements.iter().rev().chain(&self.variables).find(|(known, _)| known == name);
                Ok(found.map_or(Cel::Null, |(_, value)| value.clone()))
            }
            Expr::Select(select) => {
                let of = self.value(&select.operand)?;
                let found = member(&of, &select.field)?;
                Ok(if select.test { Cel::Bool(!matches!(found, Cel::Null)) } else { found })
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let items = list.elements.iter().map(|element| self.value(element)).collect::<Result<Vec<_>, _>>()?;
                Ok(Cel::List(Arc::new(items)))
            }
            Expr::Map(map) => {
                let mut made: HashMap<CelKey, Cel> = HashMap::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = key_of(&self.value(&entry.key)?)?;
                    let value = self.value(&entry.value)?;
                    made.insert(key, value);
                }
                Ok(Cel::Map(CelMap { map: Arc::new(made) }))
            }
            Expr::Comprehension(made) => match macro_of(made) {
                Some(macro_call) => self.macro_call(&macro_call),
                None => Err(EvalError::TypeMismatch("this macro is not known".into())),
            },
            Expr::Struct(_) | Expr::Unspecified => Err(EvalError::TypeMismatch("this is not evaluated".into())),
        }
    }

    /// Evaluates a condition; `None` if it is null.
    fn truth(&mut self, condition: &'e IdedExpr) -> Result<Option<bool>, EvalError> {
        match self.value(condition)? {
            Cel::Bool(value) => Ok(Some(value)),
            Cel::Null => Ok(None),
            other => Err(EvalError::TypeMismatch(format!("a condition is true or false, this is {}", functions::kind_of(&other)))),
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> EvalResult {
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("_?_:_", [condition, then, otherwise]) => {
                let holds = self.truth(condition)? == Some(true);
                return self.value(if holds { then } else { otherwise });
            }
            ("_&&_", [first, second]) => return self.both(first, second, false),
            ("_||_", [first, second]) => return self.both(first, second, true),
            ("!_", [inner]) => return Ok(self.truth(inner)?.map_or(Cel::Null, |value| Cel::Bool(!value))),
            ("_==_", [first, second]) => return Ok(Cel::Bool(equal(&self.value(first)?, &self.value(second)?)?)),
            ("_!=_", [first, second]) => return Ok(Cel::Bool(!equal(&self.value(first)?, &self.value(second)?)?)),
            ("@in", [item, list]) => {
                let (item, list) = (self.value(item)?, self.value(list)?);
                return contains(&item, &list);
            }
            ("coalesce", several) if call.target.is_none() => {
                for argument in several {
                    let found = self.value(argument)?;
                    if !matches!(found, Cel::Null) {
                        return Ok(found);
                    }
                }
                return Ok(Cel::Null);
            }
            _ => {}
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for part in call.target.iter().map(|target| &**target).chain(&call.args) {
            args.push(self.value(part)?);
        }
        let name = call.func_name.as_str();
        let null_counts = functions::function(name).is_some_and(|function| function.null_counts) || name == "lookup" && args.len() == 2;
        if !null_counts && args.iter().any(|argument| matches!(argument, Cel::Null)) {
            return Ok(Cel::Null);
        }
        functions::require_storable(self.operate(name, &args)?)
    }

    /// Applies an operator or function to values that are not null, unless null counts.
    fn operate(&self, name: &str, args: &[Cel]) -> EvalResult {
        match (name, args) {
            ("_+_", [first, second]) => functions::add(first, second),
            ("_-_", [first, second]) => functions::subtract(first, second),
            ("_*_", [first, second]) => functions::multiply(first, second),
            ("_/_", [first, second]) => functions::divide(first, second),
            ("_%_", [first, second]) => functions::remainder(first, second),
            ("-_", [Cel::Int(number)]) => number.checked_neg().map(Cel::Int).ok_or_else(functions::too_large),
            ("-_", [Cel::Float(number)]) => Ok(Cel::Float(-number)),
            ("-_", [Cel::Duration(length)]) => Ok(Cel::Duration(-*length)),
            ("_[_]", [of, index]) => element(of, index),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [first, second]) => {
                let order = functions::compare(first, second).ok_or_else(|| {
                    EvalError::TypeMismatch(format!("{} is not compared with {}", functions::kind_of(first), functions::kind_of(second)))
                })?;
                Ok(Cel::Bool(match name {
                    "_<_" => order.is_lt(),
                    "_<=_" => order.is_le(),
                    "_>_" => order.is_gt(),
                    _ => order.is_ge(),
                }))
            }
            ("-_", [other]) => Err(EvalError::TypeMismatch(format!("`-` does not take {}", functions::kind_of(other)))),
            (name, args) => functions::call(name, args, self.tables),
        }
    }

    /// Evaluates `&&` and `||`: a side that equals `decides` decides, even if the other side fails.
    fn both(&mut self, first: &'e IdedExpr, second: &'e IdedExpr, decides: bool) -> EvalResult {
        let first = self.truth(first);
        if first == Ok(Some(decides)) {
            return Ok(Cel::Bool(decides));
        }
        match (first, self.truth(second)) {
            (_, Ok(Some(second))) if second == decides => Ok(Cel::Bool(decides)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(Some(_)), Ok(Some(_))) => Ok(Cel::Bool(!decides)),
            (Ok(None), _) | (_, Ok(None)) => Ok(Cel::Null),
        }
    }

    /// Evaluates a macro over the elements of a list, or the keys of a struct.
    fn macro_call(&mut self, macro_call: &Macro<'e>) -> EvalResult {
        let items: Vec<Cel> = match self.value(macro_call.range)? {
            Cel::Null => return Ok(Cel::Null),
            Cel::List(items) => Arc::unwrap_or_clone(items),
            Cel::Map(map) => {
                let mut keys: Vec<&CelKey> = map.map.keys().collect();
                keys.sort();
                keys.into_iter().map(Cel::from).collect()
            }
            other => return Err(EvalError::TypeMismatch(format!("{} has no elements", functions::kind_of(&other)))),
        };
        let (mut made, mut unknown, mut fault, mut true_count) = (Vec::new(), false, None, 0);
        for item in items {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(functions::failed(format!("its loops take more than {MAX_STEPS} steps")));
            }
            self.elements.push((macro_call.name, item));
            let ended = match macro_call.kind {
                MacroKind::Map(condition, element) => {
                    let holds = condition.map_or(Ok(Some(true)), |condition| self.truth(condition));
                    match holds.and_then(|holds| if holds == Some(true) { self.value(element).map(Some) } else { Ok(None) }) {
                        Ok(element) => {
                            made.extend(element);
                            None
                        }
                        Err(fault) => Some(Err(fault)),
                    }
                }
                MacroKind::All(condition) | MacroKind::Exists(condition) => {
                    let decides = matches!(macro_call.kind, MacroKind::Exists(_));
                    match self.truth(condition) {
                        Ok(Some(value)) if value == decides => Some(Ok(Cel::Bool(decides))),
                        Ok(Some(_)) => None,
                        Ok(None) => {
                            unknown = true;
                            None
                        }
                        Err(found) => {
                            fault = Some(found);
                            None
                        }
                    }
                }
                MacroKind::ExistsOne(condition) => match self.truth(condition) {
                    Ok(holds) => {
                        true_count += usize::from(holds == Some(true));
                        None
                    }
                    Err(fault) => Some(Err(fault)),
                },
            };
            self.elements.pop();
            if let Some(ended) = ended {
                return ended;
            }
        }
        match (fault, &macro_call.kind) {
            (Some(fault), _) => Err(fault),
            (None, MacroKind::Map(..)) => Ok(Cel::List(Arc::new(made))),
            (None, MacroKind::ExistsOne(_)) => Ok(Cel::Bool(true_count == 1)),
            (None, _) if unknown => Ok(Cel::Null),
            (None, kind) => Ok(Cel::Bool(matches!(kind, MacroKind::All(_)))),
        }
    }
}

pub(crate) fn constant(literal: &LiteralValue) -> Cel {
    match literal {
        LiteralValue::Null => Cel::Null,
        LiteralValue::Boolean(value) => Cel::Bool(*value.inner()),
        LiteralValue::Int(number) => Cel::Int(*number.inner()),
        LiteralValue::UInt(number) => Cel::UInt(*number.inner()),
        LiteralValue::Double(number) => Cel::Float(*number.inner()),
        LiteralValue::String(text) => text_to_cel(text.inner()),
        LiteralValue::Bytes(bytes) => Cel::Bytes(Arc::new(bytes.inner().to_vec())),
    }
}

/// Returns a member; null if there is none, or the value is null.
fn member(of: &Cel, name: &str) -> EvalResult {
    match of {
        Cel::Null => Ok(Cel::Null),
        Cel::Map(map) => Ok(map.map.get(&CelKey::String(Arc::new(name.to_owned()))).cloned().unwrap_or(Cel::Null)),
        other => Err(EvalError::TypeMismatch(format!("{} has no member `{name}`", functions::kind_of(other)))),
    }
}

/// Returns the element of a list at a position, counted from 0, or the value of a key; null if there is none.
fn element(of: &Cel, index: &Cel) -> EvalResult {
    match (of, index) {
        (Cel::List(items), Cel::Int(index)) => Ok(usize::try_from(*index).ok().and_then(|index| items.get(index)).cloned().unwrap_or(Cel::Null)),
        (Cel::Map(map), key) => Ok(map.map.get(&key_of(key)?).cloned().unwrap_or(Cel::Null)),
        (of, index) => Err(EvalError::TypeMismatch(format!("{} has no place that is {}", functions::kind_of(of), functions::kind_of(index)))),
    }
}

fn key_of(value: &Cel) -> Result<CelKey, EvalError> {
    Ok(match value {
        Cel::String(text) => CelKey::String(text.clone()),
        Cel::Int(number) => CelKey::Int(*number),
        Cel::UInt(number) => CelKey::Uint(*number),
        Cel::Bool(value) => CelKey::Bool(*value),
        other => return Err(EvalError::TypeMismatch(format!("{} is no key of a struct", functions::kind_of(other)))),
    })
}

/// Whether a value is an element of a list, or a key of a struct.
/// Whether two values are equal. A text that JSON has is never a time or a duration, though it may be meant as one, which would go unnoticed.
fn equal(first: &Cel, second: &Cel) -> Result<bool, EvalError> {
    match (first, second) {
        (Cel::String(_), time @ (Cel::Timestamp(_) | Cel::Duration(_))) | (time @ (Cel::Timestamp(_) | Cel::Duration(_)), Cel::String(_)) => {
            let function = if matches!(time, Cel::Duration(_)) { "duration(x)" } else { "timestamp(x)" };
            Err(EvalError::TypeMismatch(format!("a text is never equal to {}; {function} makes one of it", functions::kind_of(time))))
        }
        (first, second) => Ok(first == second),
    }
}

fn contains(item: &Cel, list: &Cel) -> EvalResult {
    match list {
        Cel::Null => Ok(Cel::Null),
        Cel::List(items) => Ok(Cel::Bool(items.contains(item))),
        Cel::Map(map) => Ok(Cel::Bool(key_of(item).is_ok_and(|key| map.map.contains_key(&key)))),
        other => Err(EvalError::TypeMismatch(format!("{} has no elements", functions::kind_of(other)))),
    }
}
