//! The result types of functions: by their signatures, or by rules of their own.

use super::checker::{TypeChecker, TypeError, TypeResult};
use super::{Type, TypeKind};
use crate::eval::functions::FunctionSpec;
use crate::eval::tables::{ConstantTable, TableValue};
use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use stook_geometry::NamedAreas;

impl TypeChecker<'_> {
    pub fn function(&self, at: &IdedExpr, function: &FunctionSpec, args: &[&IdedExpr], types: &[Type]) -> TypeResult {
        let absent = !function.null_counts && types.iter().any(Type::may_be_null);
        let or_null = |ty: Type, may: bool| if may { ty.or_null() } else { ty };
        match (function.name, types) {
            ("coalesce", []) | ("min", []) | ("max", []) => Err(TypeError::new(at, format!("`{}` needs a value", function.name))),
            ("coalesce", all) => {
                let some = all.iter().fold(Type::default(), |some: Type, ty| some.or(&ty.present()));
                Ok(or_null(some, all.iter().all(Type::may_be_null)))
            }
            ("dyn", [_]) => Ok(Type::any()),
            ("lookup", [_, key]) => {
                if let Some(kind) =
                    key.kinds.iter().find(|kind| !matches!(kind, TypeKind::Text | TypeKind::Integer | TypeKind::Null | TypeKind::Json))
                {
                    return Err(TypeError::new(args[1], format!("keys of a table are texts, this is {kind}")));
                }
                let table = self.table(args[0])?;
                let kind = |entry: &TableValue| match entry {
                    TableValue::Text(_) => Type::from(TypeKind::Text),
                    TableValue::List(_) => Type::list(TypeKind::Text.into()),
                };
                if let Expr::Literal(LiteralValue::String(key)) = &args[1].expr {
                    return Ok(table.entry(key.inner()).map_or_else(Type::null, kind));
                }
                let all = table.rows.values().chain(table.patterns.iter().map(|(_, entry)| entry)).chain(&table.default);
                Ok(or_null(all.fold(Type::default(), |all: Type, entry| all.or(&kind(entry))), table.default.is_none()))
            }
            ("areas_met" | "named_area", [_, _]) => {
                let areas = self.areas(args[0])?;
                if let ("named_area", Some(areas), Expr::Literal(LiteralValue::String(name))) = (function.name, areas, &args[1].expr)
                    && areas.named(name.inner()).is_none()
                {
                    let wrong = TypeError::new(args[1], format!("there is no area `{}` in this file", name.inner()));
                    return Err(wrong.suggest(name.inner(), areas.iter().map(|(name, _)| name)));
                }
                self.signature(at, function, args, types)
            }
            ("keys", [_]) => self.table(args[0]).map(|_| Type::list(TypeKind::Text.into())),
            ("sum", [list]) => {
                let elements = self.elements_of(at, function, list)?;
                let number = elements.kinds.iter().all(|kind| kind.is_number() || *kind == TypeKind::Json);
                let length = elements.kinds.iter().all(|kind| matches!(kind, TypeKind::Duration | TypeKind::Json));
                if !number && !length || elements.kinds.contains(&TypeKind::Unsigned) && elements.kinds.len() > 1 {
                    return Err(TypeError::new(at, format!("`sum` takes a list of numbers, or of durations, not of {elements}")));
                }
                Ok(elements.or_null())
            }
            ("min" | "max", all) => {
                let values = match all {
                    [list] if list.kinds.iter().any(|kind| matches!(kind, TypeKind::List(_))) => self.elements_of(at, function, list)?,
                    several => several.iter().fold(Type::default(), |all: Type, ty| all.or(&ty.present())),
                };
                for kind in &values.kinds {
                    if let Some(other) = values.kinds.iter().find(|other| !kind.is_ordered_with(other)) {
                        let both = if kind == other { format!("{kind} has no order") } else { format!("{kind} is not compared with {other}") };
                        return Err(TypeError::new(at, format!("`{}`: {both}", function.name)));
                    }
                }
                let may = all.len() == 1 && all[0].kinds.iter().any(|kind| matches!(kind, TypeKind::List(_) | TypeKind::Json));
                Ok(or_null(values, may || all.iter().all(Type::may_be_null)))
            }
            ("merge" | "compact" | "by_member", _) => {
                let wanted = |kind: &TypeKind, position: usize| match (function.name, position) {
                    ("by_member", 0) => matches!(kind, TypeKind::List(_)),
                    ("by_member", _) => *kind == TypeKind::Text,
                    _ => matches!(kind, TypeKind::Struct(_)),
                };
                for (position, ty) in types.iter().enumerate() {
                    let mut others = ty.kinds.iter().filter(|kind| !matches!(kind, TypeKind::Json | TypeKind::Null));
                    if let Some(kind) = others.find(|kind| !wanted(kind, position)) {
                        return Err(TypeError::new(args[position], format!("`{}` does not take {kind} here", function.name)));
                    }
                }
                let as_json: Vec<Type> = types.iter().map(|_| TypeKind::Json.into()).collect();
                self.signature(at, function, args, &as_json)?;
                Ok(or_null(Type::mapping("struct", Type::any()), absent))
            }
            ("without", [structure, names]) => {
                if let Some(kind) = structure.kinds.iter().find(|kind| !matches!(kind, TypeKind::Struct(_) | TypeKind::Json | TypeKind::Null)) {
                    return Err(TypeError::new(args[0], format!("`without` takes a struct, this is {kind}")));
                }
                self.signature(at, function, args, &[TypeKind::Json.into(), names.clone()])?;
                Ok(or_null(Type::mapping("struct", Type::any()), absent))
            }
            ("squash", [list]) if list.kinds.iter().any(|kind| matches!(kind, TypeKind::List(_))) => {
                let elements = self.elements_of(at, function, list)?;
                if let Some(kind) = elements.kinds.iter().find(|kind| !matches!(kind, TypeKind::Text | TypeKind::Json)) {
                    return Err(TypeError::new(at, format!("`squash` takes texts, this has {kind}")).help("write string(x) of what is no text"));
                }
                Ok(or_null(TypeKind::Text.into(), absent))
            }
            ("flatten", [lists]) => {
                let mut all = Type::default();
                for kind in &self.elements_of(at, function, lists)?.kinds {
                    match kind {
                        TypeKind::List(element) => all = all.or(element),
                        TypeKind::Json => all = all.or(&Type::any()),
                        other => return Err(TypeError::new(at, format!("`flatten` takes a list of lists, this has {other}"))),
                    }
                }
                Ok(or_null(Type::list(all), absent))
            }
            _ => self.signature(at, function, args, types),
        }
    }

    /// Returns the constant table that a constant names.
    fn table(&self, name: &IdedExpr) -> Result<&ConstantTable, TypeError> {
        named_by_constant(name, ("table", "lookups"), |name| self.tables.get(name), self.tables.names())
    }

    /// Returns the named areas that a constant names; nothing inside if their file does not exist.
    fn areas(&self, name: &IdedExpr) -> Result<Option<&NamedAreas>, TypeError> {
        named_by_constant(name, ("file", "areas"), |name| self.tables.areas(name), self.tables.names_of_areas())
    }

    /// What the elements of an argument are, if not null.
    fn elements_of(&self, at: &IdedExpr, function: &FunctionSpec, list: &Type) -> TypeResult {
        let mut elements = Type::default();
        for kind in &list.kinds {
            match kind {
                TypeKind::List(element) => elements = elements.or(&element.present()),
                TypeKind::Json => elements = elements.or(&TypeKind::Json.into()),
                TypeKind::Null => {}
                other => return Err(TypeError::new(at, format!("`{}` takes a list, this is {other}", function.name))),
            }
        }
        Ok(elements)
    }

    /// Returns the result type by signatures: each combination of kinds must match one.
    fn signature(&self, at: &IdedExpr, function: &FunctionSpec, args: &[&IdedExpr], types: &[Type]) -> TypeResult {
        let all: Vec<FunctionSignature> = function.signatures.iter().map(|text| FunctionSignature::parse(text)).collect();
        let fitting: Vec<&FunctionSignature> = all.iter().filter(|signature| signature.args.len() == types.len()).collect();
        if fitting.is_empty() {
            let counts: Vec<String> = all.iter().map(|signature| signature.args.len().to_string()).collect();
            let mut counts: Vec<&str> = counts.iter().map(String::as_str).collect();
            counts.dedup();
            let help = format!("it is written {}", function.signatures.join(", or "));
            return Err(
                TypeError::new(at, format!("`{}` takes {} arguments, here are {}", function.name, counts.join(" or "), types.len())).help(help)
            );
        }
        let mut combinations: Vec<Vec<TypeKind>> = vec![Vec::new()];
        for ty in types {
            let kinds: Vec<TypeKind> = if function.null_counts { ty.kinds.clone() } else { ty.present().kinds };
            combinations =
                combinations.iter().flat_map(|before| kinds.iter().map(|kind| [before.as_slice(), std::slice::from_ref(kind)].concat())).collect();
        }
        let mut found = Type::default();
        for kinds in combinations {
            let matching: Vec<&&FunctionSignature> =
                fitting.iter().filter(|signature| signature.args.iter().zip(&kinds).all(|(wanted, kind)| takes(wanted, kind))).collect();
            if matching.is_empty() {
                let position =
                    (0..kinds.len()).find(|position| fitting.iter().all(|signature| !takes(&signature.args[*position], &kinds[*position])));
                let position = position.unwrap_or(0);
                let mut wanted: Vec<&str> = fitting.iter().map(|signature| signature.args[position].as_str()).collect();
                wanted.dedup();
                let wrong =
                    TypeError::new(args[position], format!("`{}` takes {} here, this is {}", function.name, wanted.join(" or "), kinds[position]));
                return Err(match (&kinds[position], function.name) {
                    (TypeKind::Duration, "double") => wrong.help("a duration in seconds: x / duration('1s')"),
                    (TypeKind::Text | TypeKind::Struct(_), _) if wanted == ["geometry"] => wrong.help("a geometry of a text: geometry(x)"),
                    (TypeKind::Duration, "int") => wrong.help("a duration in seconds: x.getSeconds()"),
                    (TypeKind::List(element), _)
                        if wanted.contains(&"[text]")
                            && element.present().kinds.iter().all(|kind| kind.is_number() || *kind == TypeKind::Boolean) =>
                    {
                        wrong.help("for each element: .map(x, string(x))")
                    }
                    (other, _) if wanted.contains(&"text") && (other.is_number() || *other == TypeKind::Boolean) => {
                        wrong.help("string(x) makes a text of it")
                    }
                    _ => wrong,
                });
            }
            for signature in matching {
                found = found.or(&signature.gives);
            }
        }
        let absent = !function.null_counts && types.iter().any(Type::may_be_null);
        Ok(if absent { found.or_null() } else { found })
    }
}

/// Returns what a constant text names, a `kind` under a `section` of the definition.
fn named_by_constant<'t, T>(
    name: &IdedExpr,
    (kind, section): (&str, &str),
    find: impl Fn(&str) -> Option<T>,
    names: impl Iterator<Item = &'t str>,
) -> Result<T, TypeError> {
    let Expr::Literal(LiteralValue::String(text)) = &name.expr else {
        return Err(TypeError::new(name, format!("the name of a {kind} is written as a constant text")));
    };
    find(text.inner()).ok_or_else(|| {
        let wrong = TypeError::new(name, format!("there is no {kind} `{}` under `{section}`", text.inner()));
        wrong.suggest(text.inner(), names)
    })
}

/// A signature of a function.
struct FunctionSignature {
    args: Vec<String>,
    gives: Type,
}

impl FunctionSignature {
    fn parse(text: &str) -> Self {
        let (call, gives) = text.split_once(" -> ").unwrap_or((text, "any"));
        let (name, parameters) = call.trim_end_matches(')').split_once('(').unwrap_or((call, ""));
        let target = name.split_once('.').map(|(target, _)| target.to_owned());
        let args = target.into_iter().chain(parameters.split(", ").filter(|arg| !arg.is_empty()).map(str::to_owned)).collect();
        let gives = gives.strip_suffix('?').map_or_else(|| type_of_word(gives), |kind| type_of_word(kind).or_null());
        Self { args, gives }
    }
}

/// Returns the type for a word of a signature.
fn type_of_word(kind: &str) -> Type {
    match kind {
        "text" => TypeKind::Text.into(),
        "integer" => TypeKind::Integer.into(),
        "unsigned" => TypeKind::Unsigned.into(),
        "float" => TypeKind::Float.into(),
        "boolean" => TypeKind::Boolean.into(),
        "timestamp" => TypeKind::Timestamp.into(),
        "duration" => TypeKind::Duration.into(),
        "geometry" => TypeKind::Geometry.into(),
        "bytes" => TypeKind::Bytes.into(),
        "[text]" => Type::list(TypeKind::Text.into()),
        "struct" => Type::mapping("struct", Type::any()),
        _ => Type::any(),
    }
}

/// Whether an argument of a signature accepts values of a kind.
fn takes(wanted: &str, kind: &TypeKind) -> bool {
    match (wanted, kind) {
        ("any", _) | (_, TypeKind::Json) => true,
        ("text" | "areas", TypeKind::Text)
        | ("integer", TypeKind::Integer)
        | ("unsigned", TypeKind::Unsigned)
        | ("float", TypeKind::Float)
        | ("boolean", TypeKind::Boolean) => true,
        ("timestamp", TypeKind::Timestamp)
        | ("duration", TypeKind::Duration)
        | ("geometry", TypeKind::Geometry)
        | ("bytes", TypeKind::Bytes)
        | ("struct", TypeKind::Struct(_))
        | ("[any]", TypeKind::List(_)) => true,
        ("[text]", TypeKind::List(element)) => element.present().kinds.iter().all(|kind| matches!(kind, TypeKind::Text | TypeKind::Json)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::functions::FUNCTIONS;

    /// Words of signatures that are not types: what they accept is decided for each function, or by its macro.
    const DECIDED: &[&str] = &[
        "json",
        "table",
        "areas",
        "member",
        "x",
        "list",
        "number",
        "ordered",
        "[number]",
        "[duration]",
        "[ordered]",
        "[[any]]",
        "struct",
        "[struct]",
        "...",
    ];

    #[test]
    fn every_word_of_a_signature_is_a_type_or_decided_on_its_own() {
        let is_type = |word: &str| word == "any" || word == "[any]" || type_of_word(word) != Type::any() || DECIDED.contains(&word);
        for text in FUNCTIONS.iter().flat_map(|function| function.signatures) {
            let (call, gives) = text.split_once(" -> ").unwrap();
            let signature = FunctionSignature::parse(text);
            assert!(is_type(gives.trim_end_matches('?')), "{text}: {gives}");
            for word in &signature.args {
                assert!(is_type(word), "{text}: {word}");
            }
            assert!(call.ends_with(')'), "{text}");
        }
    }
}
