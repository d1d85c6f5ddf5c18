//! Parameters of declared routes, from the path, the query and the body.

use crate::guard::form::SentBody;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::body::Body;
use axum::http::StatusCode;
use serde_json::{Map, Value as Json};
use stook_catalogue::diagnostic::did_you_mean;
use stook_catalogue::route::{GeneratedValue, Param, ParamLocation};
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_engine::transition;

/// How often a parameter may be repeated, so that a request's head stays below its limit.
pub const MAX_REPEATED: usize = 500;

/// The parameters of a route with their values.
pub struct RouteParams<'p> {
    pub all: &'p [Param],
    pub values: Vec<Option<Value>>,
}

impl RouteParams<'_> {
    /// Returns the text of a parameter; empty if it was not sent.
    pub fn text(&self, index: usize) -> &str {
        self.values[index].as_ref().and_then(Value::as_text).unwrap_or_default()
    }

    /// Returns the number of a parameter; 0 if it was not sent.
    pub fn number(&self, index: usize) -> u64 {
        self.values[index].as_ref().and_then(Value::as_int).map_or(0, |number| number.max(0) as u64)
    }

    /// Returns all parameters by name.
    pub fn to_json(&self) -> Json {
        let shown =
            |(param, value): (&Param, &Option<Value>)| (param.name.clone(), value.as_ref().map_or(Json::Null, |value| value.to_json(&param.ty)));
        Json::Object(self.all.iter().zip(&self.values).map(shown).collect())
    }
}

/// Reads and checks the parameters of a route. Those that are generated have no value yet.
pub async fn parameters(ctx: &mut RequestContext, params: &[Param], body: Body) -> HandlerResult<Vec<Option<Value>>> {
    let mut texts: Vec<Vec<String>> = Vec::with_capacity(params.len());
    for param in params {
        texts.push(match param.location {
            ParamLocation::Path => vec![ctx.segment(&param.name).to_owned()],
            ParamLocation::Query => ctx.params.all_named(&param.name),
            // also those of a form
            ParamLocation::Body | ParamLocation::WholeBody | ParamLocation::Nowhere => Vec::new(),
        });
    }
    let ignores_unknown = ctx.app.catalogue.serving.ignores_unknown;
    if !ignores_unknown {
        ctx.params.end()?;
    }
    let has = |location: ParamLocation| params.iter().any(|param| param.location == location);
    let (has_members, has_whole) = (has(ParamLocation::Body), has(ParamLocation::WholeBody));
    let sent = if has_members || has_whole { ctx.json_or_form(body).await? } else { SentBody::Nothing };
    let (mut members, whole) = match sent {
        SentBody::Nothing => (Map::new(), Json::Null),
        SentBody::Form(_) if has_whole => return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON, not a form")),
        SentBody::Form(fields) => {
            // fields of a form are texts, as parameters of a query string are
            for (param, texts) in params.iter().zip(&mut texts).filter(|(param, _)| param.location == ParamLocation::Body) {
                texts.extend(fields.iter().filter(|(name, _)| *name == param.name).map(|(_, text)| text.clone()));
            }
            (
                fields.into_iter().filter(|(name, _)| !params.iter().any(|param| param.name == *name)).map(|(name, _)| (name, Json::Null)).collect(),
                Json::Null,
            )
        }
        SentBody::Json(whole) if has_whole => (Map::new(), whole),
        SentBody::Json(Json::Object(members)) => (members, Json::Null),
        SentBody::Json(other) => {
            let shown: String = other.to_string().chars().take(40).collect();
            return Err(Problem::bad_request(format!("send a JSON object, this is {shown}")));
        }
    };
    let mut problems = Vec::new();
    // what is wrong in a body is a list, whatever its length: more may be wrong in the next one
    let mut are_listed = false;
    let mut values = Vec::with_capacity(params.len());
    for (param, texts) in params.iter().zip(texts) {
        let json = match param.location {
            ParamLocation::Body => members.remove(&param.name).unwrap_or_default(),
            ParamLocation::WholeBody => whole.clone(),
            _ => Json::Null,
        };
        let value = match param.location {
            ParamLocation::Body if !texts.is_empty() => value_of_texts(param, &texts),
            ParamLocation::Body | ParamLocation::WholeBody if json.is_null() => Ok(None),
            ParamLocation::Body | ParamLocation::WholeBody => transition::strict_from_json(&json, &param.ty).map(Some),
            _ => value_of_texts(param, &texts),
        };
        let value = value.map_err(|problem| param.wrong.clone().unwrap_or(problem));
        let count_before = problems.len();
        match value.and_then(|value| check_value(param, value)) {
            Ok(value) => {
                if let (Some(schema), Some(Value::Json(json))) = (&param.schema, &value) {
                    problems.extend(schema.errors(json));
                }
                values.push(value);
            }
            Err(problem) if problems.contains(&problem) => {}
            Err(problem) => problems.push(problem),
        }
        are_listed |= matches!(param.location, ParamLocation::Body | ParamLocation::WholeBody) && problems.len() > count_before;
    }
    if let (Some(name), false) = (members.keys().next(), ignores_unknown) {
        let in_body = params.iter().filter(|param| param.location == ParamLocation::Body).map(|param| param.name.as_str());
        let known: Vec<&str> = in_body.collect();
        problems.push(match did_you_mean(name, known.iter().copied()) {
            Some(near) => format!("There is no parameter {name}; did you mean {near}?"),
            None => format!("There is no parameter {name}; there are {}.", known.join(", ")),
        });
    }
    if problems.is_empty() { Ok(values) } else { Err(with_status_400(Problem { are_listed, ..Problem::unprocessable(problems) })) }
}

/// Characters of codes that people type.
const CODE_CHARACTERS: &[u8; 26] = b"bcdfghjkmnpqrstvwxz2346789";
/// Characters of a code.
const CODE_LENGTH: usize = 12;

/// Makes the values of parameters that are generated and were not sent.
///
/// # Errors
/// 503 when the system has no random bytes.
pub fn generate(params: &[Param], values: &mut [Option<Value>]) -> HandlerResult<()> {
    for (param, value) in params.iter().zip(values) {
        let (Some(generated), None) = (param.generate, &value) else { continue };
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Problem::unavailable(format!("no random bytes: {error}")))?;
        let text = match generated {
            GeneratedValue::Uuid => uuid::Builder::from_random_bytes(random).into_uuid().to_string(),
            // 9 of 256 values more often than others do not matter: codes only must not be guessed by chance
            GeneratedValue::Code => {
                random[..CODE_LENGTH].iter().map(|byte| char::from(CODE_CHARACTERS[usize::from(*byte) % CODE_CHARACTERS.len()])).collect()
            }
        };
        *value = from_text(&text, &param.ty, None).ok();
    }
    Ok(())
}

/// Changes 422 to 400, which declared routes use for all wrong parameters.
fn with_status_400(mut problem: Problem) -> Problem {
    if problem.status == StatusCode::UNPROCESSABLE_ENTITY {
        problem.status = StatusCode::BAD_REQUEST;
    }
    problem
}

fn value_of_texts(param: &Param, texts: &[String]) -> Result<Option<Value>, String> {
    let element = param.ty.element();
    let parse_one = |text: &String| {
        let strict = match element {
            FieldType::Boolean => matches!(text.as_str(), "true" | "false"),
            FieldType::Text => !text.contains('\0'),
            _ => text.trim() == text,
        };
        let value = from_text(text, element, None).ok().filter(|_| strict);
        value.ok_or_else(|| format!("'{text}' is not a valid {} format for property '{}'", element.to_string().to_uppercase(), param.name))
    };
    match texts {
        [] => Ok(None),
        several if param.ty.is_list() => several.iter().map(parse_one).collect::<Result<_, _>>().map(|values| Some(Value::List(values))),
        [only] => parse_one(only).map(Some),
        _ => Err(format!("The parameter {} is given {} times.", param.name, texts.len())),
    }
}

fn check_value(param: &Param, value: Option<Value>) -> Result<Option<Value>, String> {
    let Some(value) = value.filter(|value| !value.is_null() && value != &Value::List(Vec::new())) else {
        return match (&param.default, &param.required) {
            (Some(default), _) => Ok(Some(default.clone())),
            (None, Some(sentence)) => Err(sentence.clone()),
            (None, None) => Ok(None),
        };
    };
    for element in value.elements() {
        if element.as_number().is_some_and(|number| param.min.is_some_and(|min| number < min) || param.max.is_some_and(|max| number > max)) {
            return Err(format!("The parameter {} is out of range.", param.name));
        }
        if !param.one_of.is_empty() && !param.one_of.contains(element) {
            let choices: Vec<String> = param.one_of.iter().map(|choice| choice.show(&param.ty)).collect();
            return Err(format!("The parameter {} must be one of {}.", param.name, choices.join(", ")));
        }
    }
    if let (Value::List(items), true) = (&value, param.ty.is_list())
        && items.len() > MAX_REPEATED
    {
        return Err(format!("The parameter {} can be given at most {MAX_REPEATED} times.", param.name));
    }
    Ok(Some(value))
}
