//! Infers the types of an expression, from its leaves up.

use super::checker::{ExpressionError, TypeChecker, TypeError, TypeResult};
use super::facts::Assumption;
use super::operators::{binary, comparison_help};
use super::{StructType, Type, TypeKind};
use crate::eval::expression::Expression;
use crate::eval::functions::{self, CallForm, EvalError};
use crate::eval::tables::ConstantTables;
use crate::eval::walk::{Macro, MacroKind, constant, macro_of};
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

/// Returns the type of an expression over names of these types.
///
/// # Errors
/// What can never work.
pub fn type_of(expression: &Expression, tables: &ConstantTables, names: &dyn Fn(&str) -> Option<Type>) -> Result<Type, ExpressionError> {
    let mut checker = TypeChecker { tables, names, non_null: Vec::new(), elements: Vec::new() };
    checker.ty(expression.root()).map_err(|wrong| wrong.locate(expression))
}

impl TypeChecker<'_> {
    pub fn ty(&mut self, expression: &IdedExpr) -> TypeResult {
        let found = match &expression.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Null => Type::null(),
                LiteralValue::Boolean(_) => TypeKind::Boolean.into(),
                LiteralValue::Int(_) => TypeKind::Integer.into(),
                LiteralValue::UInt(_) => TypeKind::Unsigned.into(),
                LiteralValue::Double(_) => TypeKind::Float.into(),
                LiteralValue::String(_) => TypeKind::Text.into(),
                LiteralValue::Bytes(_) => TypeKind::Bytes.into(),
            },
            Expr::Ident(name) => match self.elements.iter().rev().find(|(known, _)| known == name) {
                Some((_, ty)) => ty.clone(),
                None => (self.names)(name).unwrap_or_else(Type::any),
            },
            Expr::Select(select) => {
                let of = self.ty(&select.operand)?;
                let found = self.member(expression, &of, &select.field)?;
                if select.test { TypeKind::Boolean.into() } else { found }
            }
            Expr::Call(call) => self.call(expression, call)?,
            Expr::List(list) => {
                let mut element = Type::default();
                for item in &list.elements {
                    element = element.or(&self.ty(item)?);
                }
                Type::list(element)
            }
            Expr::Map(map) => {
                let mut members = StructType { of: "struct".to_owned(), named_members: Vec::new(), other_members: None };
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.ty(&entry.key)?;
                    let fits = |kind: &TypeKind| {
                        matches!(kind, TypeKind::Text | TypeKind::Integer | TypeKind::Unsigned | TypeKind::Boolean | TypeKind::Json)
                    };
                    if let Some(kind) = key.kinds.iter().find(|kind| !fits(kind)) {
                        let wrong = TypeError::new(&entry.key, format!("a member is named by a text, this may be {kind}"));
                        return Err(if *kind == TypeKind::Null { wrong.help("give it a name with coalesce(..., 'none')") } else { wrong });
                    }
                    let value = self.ty(&entry.value)?;
                    match &entry.key.expr {
                        Expr::Literal(LiteralValue::String(name)) => {
                            let name = name.inner().to_owned();
                            members.named_members.retain(|(known, _)| *known != name);
                            members.named_members.push((name, value));
                        }
                        _ => {
                            members.other_members =
                                Some(Box::new(members.other_members.map_or(value.clone(), |other_members| other_members.or(&value))))
                        }
                    }
                }
                // a computed name may equal one that is written
                if let Some(other_members) = members.other_members.clone() {
                    members.named_members.iter_mut().for_each(|(_, ty)| *ty = std::mem::take(ty).or(&other_members));
                }
                TypeKind::Struct(members).into()
            }
            Expr::Comprehension(made) => match macro_of(made) {
                Some(macro_call) => self.macro_call(&macro_call)?,
                None => return Err(TypeError::new(expression, "this macro is not known")),
            },
            Expr::Struct(_) | Expr::Unspecified => return Err(TypeError::new(expression, "messages are not known here; write {'name': value}")),
        };
        let is_non_null = found.may_be_null() && self.path(expression).is_some_and(|path| self.non_null.contains(&path));
        Ok(if is_non_null { found.present() } else { found })
    }

    fn member(&self, at: &IdedExpr, of: &Type, name: &str) -> TypeResult {
        let mut found = Type::default();
        for kind in &of.kinds {
            found = found.or(&match kind {
                TypeKind::Null => Type::null(),
                TypeKind::Json => Type::any(),
                TypeKind::Struct(members) => match members.get(name) {
                    Some(member) => member,
                    None => {
                        let names = members.named_members.iter().map(|(name, _)| name.as_str());
                        let wrong = TypeError::new(at, format!("{} has no member `{name}`", members.of));
                        return Err(match crate::diagnostic::did_you_mean(name, names.clone()) {
                            Some(suggestion) => wrong.help(format!("did you mean `{suggestion}`?")),
                            None if members.named_members.is_empty() => wrong,
                            None => wrong.help(format!("its members are {}", names.take(20).collect::<Vec<_>>().join(", "))),
                        });
                    }
                },
                other => {
                    let wrong = TypeError::new(at, format!("{other} has no members, so there is no `{name}`"));
                    return Err(if matches!(other, TypeKind::List(_)) { wrong.help(format!("for each element: .map(x, x.{name})")) } else { wrong });
                }
            });
        }
        Ok(found)
    }

    fn condition(&mut self, at: &IdedExpr) -> TypeResult {
        let ty = self.ty(at)?;
        match ty.kinds.iter().find(|kind| !matches!(kind, TypeKind::Boolean | TypeKind::Null | TypeKind::Json)) {
            None => Ok(if ty.may_be_null() { Type::from(TypeKind::Boolean).or_null() } else { TypeKind::Boolean.into() }),
            Some(kind) => {
                Err(TypeError::new(at, format!("a condition is true or false, this is {kind}"))
                    .help("compare it with something, for example with null"))
            }
        }
    }

    /// Returns the type of a call of an operator or function.
    fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> TypeResult {
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("_?_:_", [condition, then, otherwise]) => {
                self.condition(condition)?;
                let then = self.with_assumption(condition, Assumption::True, |checker| checker.ty(then))?;
                let otherwise = self.with_assumption(condition, Assumption::NotTrue, |checker| checker.ty(otherwise))?;
                return Ok(then.or(&otherwise));
            }
            ("_&&_", [first, second]) => {
                let left = self.condition(first)?;
                return Ok(left.or(&self.with_assumption(first, Assumption::NotFalse, |checker| checker.condition(second))?));
            }
            ("_||_", [first, second]) => {
                let left = self.condition(first)?;
                return Ok(left.or(&self.with_assumption(first, Assumption::NotTrue, |checker| checker.condition(second))?));
            }
            ("!_", [inner]) => return self.condition(inner),
            ("_==_" | "_!=_", [first, second]) => {
                let (left, right) = (self.ty(first)?, self.ty(second)?);
                if !left.can_equal(&right) {
                    return Err(TypeError::new(at, format!("{} and {} are never equal", left.present(), right.present()))
                        .help(comparison_help(&left, &right)));
                }
                if let Some(time) = left.time_beside_text(&right).or_else(|| right.time_beside_text(&left)) {
                    let message = format!("{} may be compared with {} here: a text is never equal to a {time}", left.present(), right.present());
                    return Err(TypeError::new(at, message).help(comparison_help(&left, &right)));
                }
                return Ok(TypeKind::Boolean.into());
            }
            ("@in", [item, list]) => return self.membership(at, item, list),
            ("_[_]", [of, index]) => return self.element(at, of, index),
            ("-_", [inner]) => {
                let ty = self.ty(inner)?;
                return match ty
                    .kinds
                    .iter()
                    .find(|kind| !matches!(kind, TypeKind::Integer | TypeKind::Float | TypeKind::Duration | TypeKind::Null | TypeKind::Json))
                {
                    None => Ok(ty),
                    Some(kind) => Err(TypeError::new(at, format!("`-` takes a number or a duration, this is {kind}"))),
                };
            }
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "_<_" | "_<=_" | "_>_" | "_>=_", [first, second]) => {
                let (left, right) = (self.ty(first)?, self.ty(second)?);
                self.check_constant_arguments(at, call)?;
                return binary(at, &call.func_name, &left, &right);
            }
            _ => {}
        }
        let name = call.func_name.as_str();
        let Some(function) = functions::function(name) else { return Err(TypeError::new(at, format!("there is no function `{name}`"))) };
        match (function.form, &call.target) {
            (CallForm::Global, Some(_)) => return Err(TypeError::new(at, format!("`{name}` is a function: {name}(...)"))),
            (CallForm::Member, None) => return Err(TypeError::new(at, format!("`{name}` is a method: x.{name}(...)"))),
            (CallForm::Macro, _) => return Err(TypeError::new(at, format!("`{name}` is written {}", function.signatures[0]))),
            _ => {}
        }
        let args: Vec<&IdedExpr> = call.target.iter().map(|target| &**target).chain(&call.args).collect();
        let mut types = Vec::with_capacity(args.len());
        for argument in &args {
            types.push(self.ty(argument)?);
        }
        let found = self.function(at, function, &args, &types)?;
        self.check_constant_arguments(at, call)?;
        Ok(found)
    }

    /// Refuses calls of constants that fail, because they would fail for every record; and constant patterns and formats that are not valid.
    fn check_constant_arguments(&self, at: &IdedExpr, call: &CallExpr) -> Result<(), TypeError> {
        let literal = |argument: &IdedExpr| match &argument.expr {
            Expr::Literal(literal) if *literal != LiteralValue::Null => Some(constant(literal)),
            _ => None,
        };
        let parts = || call.target.iter().map(|target| &**target).chain(&call.args);
        let arguments: Option<Vec<_>> = parts().map(literal).collect();
        let failed = |fault: EvalError| TypeError::new(at, fault.message());
        let last = call.args.last().and_then(literal);
        match (call.func_name.as_str(), arguments, last) {
            ("matches", _, Some(cel::Value::String(pattern))) => functions::regex(&pattern).map(drop).map_err(failed),
            ("strftime", _, Some(format)) => {
                let time = cel::Value::Timestamp(chrono::DateTime::UNIX_EPOCH.fixed_offset());
                functions::call("strftime", &[time, format], self.tables).map(drop).map_err(failed)
            }
            ("_/_" | "_%_", _, Some(cel::Value::Int(0))) => Err(TypeError::new(at, "this is a division by zero")),
            (name, Some(arguments), _) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                functions::call(name, &arguments, self.tables).map(drop).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    fn membership(&mut self, at: &IdedExpr, item: &IdedExpr, list: &IdedExpr) -> TypeResult {
        let (left, right) = (self.ty(item)?, self.ty(list)?);
        let mut found: Type = TypeKind::Boolean.into();
        for kind in &right.kinds {
            match kind {
                TypeKind::Null => found = found.or_null(),
                TypeKind::Json => {}
                TypeKind::Struct(_) if left.can_equal(&TypeKind::Text.into()) => {}
                TypeKind::Struct(_) => return Err(TypeError::new(at, format!("members are named by texts, {} is none", left.present()))),
                TypeKind::List(element) if element.kinds.is_empty() || left.can_equal(element) => {}
                TypeKind::List(element) => {
                    let message = format!("{} is never among elements that are {}", left.present(), element.present());
                    return Err(TypeError::new(at, message).help(comparison_help(&left, element)));
                }
                other => {
                    let wrong = TypeError::new(at, format!("`in` asks a list, this is {other}"));
                    return Err(if *other == TypeKind::Text { wrong.help("of a text: text.contains('part')") } else { wrong });
                }
            }
        }
        Ok(found)
    }

    fn element(&mut self, at: &IdedExpr, of: &IdedExpr, index: &IdedExpr) -> TypeResult {
        let (ty, index_type) = (self.ty(of)?, self.ty(index)?);
        let mut found = if index_type.may_be_null() { Type::null() } else { Type::default() };
        for kind in &ty.kinds {
            let wanted = match kind {
                TypeKind::List(_) => Some(TypeKind::Integer),
                TypeKind::Struct(_) => Some(TypeKind::Text),
                _ => None,
            };
            if let Some(wanted) = wanted
                && let Some(other) = index_type.present().kinds.iter().find(|kind| **kind != wanted && **kind != TypeKind::Json)
            {
                let named = if wanted == TypeKind::Integer { "elements of a list have a number" } else { "members are named by texts" };
                return Err(TypeError::new(index, format!("{named}, this is {other}")));
            }
            found = found.or(&match (kind, &index.expr) {
                (TypeKind::Null, _) => Type::null(),
                (TypeKind::Json, _) => Type::any(),
                (TypeKind::List(element), _) => (**element).clone().or_null(),
                (TypeKind::Struct(_), Expr::Literal(LiteralValue::String(name))) => self.member(at, &kind.clone().into(), name.inner())?,
                (TypeKind::Struct(members), _) => members.any_member(),
                (other, _) => return Err(TypeError::new(at, format!("{other} has no elements"))),
            });
        }
        Ok(found)
    }

    fn macro_call(&mut self, macro_call: &Macro<'_>) -> TypeResult {
        let range = self.ty(macro_call.range)?;
        let mut element = Type::default();
        for kind in range.present().kinds() {
            element = element.or(&match kind {
                TypeKind::Json => Type::any(),
                TypeKind::List(element) => (**element).clone(),
                TypeKind::Struct(_) => TypeKind::Text.into(),
                other => return Err(TypeError::new(macro_call.range, format!("this goes through a list, and here is {other}"))),
            });
        }
        self.elements.push((macro_call.name.to_owned(), element));
        let inner = match macro_call.kind {
            MacroKind::Map(None, made) => self.ty(made).map(Type::list),
            MacroKind::Map(Some(condition), made) => {
                self.condition(condition).and_then(|_| self.with_assumption(condition, Assumption::True, |checker| checker.ty(made))).map(Type::list)
            }
            MacroKind::ExistsOne(condition) => self.condition(condition).map(|_| TypeKind::Boolean.into()),
            MacroKind::All(condition) | MacroKind::Exists(condition) => self.condition(condition),
        };
        self.elements.pop();
        let found = inner?;
        Ok(if range.may_be_null() { found.or_null() } else { found })
    }
}
