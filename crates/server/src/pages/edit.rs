//! Edits of a record on pages: a field gets a value that is typed in, or that of a contributor, or the edit of a field is taken back.
//!
//! An edit that holds until a contributor gives another value names the values that its form showed; if they are others when the form is sent, nothing
//! is written and the page shows the new ones.

use super::input::{json_of_text, value_input};
use super::layout::{csrf, problem_box};
use super::shown::{items, members, moment, named, text, typed};
use super::visit::{PageContext, RenderedPage, SubmittedForm};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use stook_catalogue::definition::API_NAME;
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::record::MAX_REASON;
use stook_engine::corrections::{CORRECTS, REASON};
use stook_engine::edit_answer::OVERRULED;

/// A field of a record that can be edited.
pub struct EditableField<'a> {
    pub collection: &'a str,
    pub key: &'a str,
    pub name: &'a str,
    /// Its type and allowed values.
    pub about: &'a Json,
    /// Its explanation; null if nobody gives it a value.
    pub explained: &'a Json,
}

impl EditableField<'_> {
    /// The values of contributors, by their names; null where one has cleared the field.
    fn given(&self) -> Map<String, Json> {
        let explained = self.explained;
        let won = items(&explained["from"]).iter().filter_map(Json::as_str);
        let won = won.map(|name| (name.to_owned(), explained["said"].get(name).unwrap_or(&explained["value"]).clone()));
        let lost = items(&explained["lost"]).iter().map(|lost| (named(lost, "contributor").to_owned(), lost["value"].clone()));
        won.chain(lost).collect()
    }

    /// A mark of the values of contributors, by which a form that showed others is recognised.
    fn mark(&self) -> String {
        let digest = Sha256::digest(Json::Object(self.given()).to_string());
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn ty(&self) -> &str {
        named(self.about, "type")
    }

    /// Whether the golden value is one value, so that a contributor's can be taken for it.
    fn has_one_value(&self) -> bool {
        self.explained["rule"] != "by_contributor"
    }

    /// A form that changes the field, with these inputs.
    fn form(&self, ctx: &PageContext, class: &str, action: &str, inputs: &Markup) -> Markup {
        let mark = self.mark();
        html! {
            form class=(class) method="post" action=(ctx.to("edit/change", &[])) {
                (csrf(ctx))
                @for (name, value) in [("collection", self.collection), ("key", self.key), ("field", self.name), ("do", action), ("seen", mark.as_str())] {
                    input type="hidden" name=(name) value=(value);
                }
                (inputs)
            }
        }
    }

    /// A button that takes the value of a contributor, or keeps it where it is the golden one.
    pub fn take(&self, ctx: &PageContext, contributor: &str) -> Markup {
        let is_golden = self.given().get(contributor) == Some(&self.explained["value"]);
        if contributor == API_NAME || !self.has_one_value() || (is_golden && self.explained["conflict"] != true) {
            return html! {};
        }
        let verb = if is_golden { "keep" } else { "take" };
        let label = format!("{verb} the value of {contributor} for {}", self.name);
        let inputs = html! { input type="hidden" name="contributor" value=(contributor); button.small aria-label=(label) title=(label) { (verb) } };
        self.form(ctx, "inline", "take", &inputs)
    }

    /// A button that takes the edit of the field back.
    pub fn take_back(&self, ctx: &PageContext) -> Markup {
        let label = format!("take back the edit of {}", self.name);
        self.form(ctx, "inline", "back", &html! { button.small aria-label=(label) title=(label) { "take back" } })
    }

    /// The path of the page on which it is edited.
    pub fn page(&self, ctx: &PageContext) -> String {
        ctx.to("edit", &[("collection", self.collection), ("key", self.key), ("field", self.name)])
    }
}

/// Who edited a field, when and why, and whether the edit still counts; nothing if that is not known.
pub fn correction(explained: &Json) -> Markup {
    let correction = &explained["correction"];
    html! {
        @if !correction.is_null() {
            p.quiet {
                // a token need not have a name
                @if !named(correction, "by").is_empty() { "by " bdi { (named(correction, "by")) } ", " }
                (moment(&correction["at"]))
                @if let Some(reason) = correction["reason"].as_str() { ": " (text(reason)) }
            }
            @match (correction["holds"].as_bool(), correction["contradicted_by"].as_str()) {
                (Some(true), _) => p.quiet { "until a source gives another value" },
                (Some(false), Some(contributor)) => p.odd { "no longer counts, because " bdi { (contributor) } " gives another value" },
                _ => {},
            }
        }
    }
}

/// What is known of the record of a request and of its fields.
struct Found {
    definition: Json,
    explained: Arc<Json>,
}

impl Found {
    async fn of(ctx: &PageContext, collection: &str, key: &str) -> HandlerResult<Self> {
        let overview = ctx.get_json("", &[]).await?;
        let collections = items(&overview["collections"]);
        let definition = collections.iter().find(|known| named(known, "name") == collection).cloned();
        let known = || collections.iter().map(|known| named(known, "name"));
        let definition =
            definition.ok_or_else(|| Problem::not_found(format!("there is no collection {collection:?}; {}", known_instead(collection, known()))))?;
        ctx.require_change(collection)?;
        let explained = ctx.get_json(&format!("/{collection}/-/explain"), &[("key", key)]).await?;
        Ok(Self { definition, explained })
    }

    fn field<'a>(&'a self, collection: &'a str, key: &'a str, name: &'a str) -> HandlerResult<EditableField<'a>> {
        let known = members(&self.definition["editable"]).map(|(name, _)| name.as_str());
        let about = self.definition["editable"].get(name);
        let missing = || Problem::not_found(format!("there is no field {name:?} that can be edited; {}", known_instead(name, known)));
        Ok(EditableField { collection, key, name, about: about.ok_or_else(missing)?, explained: &self.explained["fields"][name] })
    }
}

/// `?collection=C&key=K&field=F`
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let (Some(collection), Some(key), Some(name)) = (ctx.param("collection"), ctx.param("key"), ctx.param("field")) else {
        return Err(Problem::bad_request("give ?collection=COLLECTION&key=KEY&field=FIELD"));
    };
    let found = Found::of(&ctx, collection, key).await?;
    Ok(form_page(&ctx, &found.field(collection, key, name)?, None, None))
}

/// The page of a field, with what was entered before if it could not be stored, and why.
fn form_page(ctx: &PageContext, field: &EditableField<'_>, entered: Option<&SubmittedForm>, problem: Option<&Problem>) -> RenderedPage {
    let entered_text = |name: &str| entered.and_then(|form| form.get(name));
    let (given, ty) = (field.given(), field.ty());
    let current = match entered_text("value") {
        Some(text) => json_of_text(text, ty).unwrap_or_else(|_| text.into()),
        None => field.explained["value"].clone(),
    };
    let holds = entered.is_none_or(|form| form.get("until").is_some());
    let inputs = html! {
        label for="value" { "Value" }
        (value_input(field.about, &current))
        label.line { input type="checkbox" name="none" checked[entered_text("none").is_some()]; " It has no value, whatever others say" }
        label for="why" { "Why" }
        input #why name="why" maxlength=(MAX_REASON) value=[entered_text("why")];
        label.line {
            input type="checkbox" name="until" value="changed" checked[holds];
            " It counts before the rule of the field (" (named(field.explained, "rule")) "), until a source gives another value"
        }
        button { "Save" }
    };
    let body = html! {
        p.quiet { a href=(ctx.record(field.collection, field.key)) { bdi { (field.key) } } " in " (field.collection) }
        @if let Some(problem) = problem { (problem_box(problem)) }
        @if !given.is_empty() {
            section {
                h2 { "What contributors say" }
                div.wide tabindex="0" {
                    table {
                        thead { tr { th scope="col" { "contributor" } th scope="col" { "value" } th scope="col" { "change" } } }
                        tbody {
                            @for (contributor, value) in &given {
                                tr {
                                    th scope="row" { bdi { (contributor) } }
                                    td { (typed(value, ty)) @if contributor == API_NAME { (correction(field.explained)) } }
                                    td { @if contributor == API_NAME { (field.take_back(ctx)) } @else { (field.take(ctx, contributor)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        section { h2 { "Edit" } (field.form(ctx, "stacked", "set", &inputs)) }
    };
    let status = problem.map_or(StatusCode::OK, |problem| problem.status);
    RenderedPage { status, ..RenderedPage::new(format!("{} of {}", field.name, field.key), body) }
}

/// Changes a field as a form says.
pub async fn change(ctx: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (collection, key, name) = (form.required("collection")?, form.required("key")?, form.required("field")?);
    let found = Found::of(&ctx, collection, key).await?;
    let field = found.field(collection, key, name)?;
    let stored = match request(&field, &form) {
        Ok((cleared, body)) => {
            let clear = cleared.then_some(("clear", name));
            let params: Vec<(&str, &str)> = [("key", key)].into_iter().chain(clear).collect();
            ctx.send(Method::PATCH, &format!("/{collection}/-"), &params, Some(&body)).await
        }
        Err(problem) => Err(problem),
    };
    let shown = match stored {
        Ok(answer) => match answer[OVERRULED][name].as_str() {
            None => return Ok(Redirect::to(&ctx.record(collection, key)).into_response()),
            Some(reason) => {
                let found = Found::of(&ctx, collection, key).await?;
                let problem = Problem { status: StatusCode::OK, ..Problem::bad_request(format!("The edit is stored, but has no effect: {reason}.")) };
                form_page(&ctx, &found.field(collection, key, name)?, None, Some(&problem))
            }
        },
        // what a visitor may not do is no mistake in the form
        Err(problem) if matches!(problem.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => return Err(problem),
        Err(problem) => form_page(&ctx, &field, Some(&form), Some(&problem)),
    };
    Ok(ctx.answer(Ok(shown)))
}

/// The body of the request for a form, and whether the field is cleared.
fn request(field: &EditableField<'_>, form: &SubmittedForm) -> HandlerResult<(bool, Json)> {
    if form.required("seen")? != field.mark() {
        let detail = format!("{} has got other values since you saw it; they are shown here now, and nothing was written", field.name);
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let given = field.given();
    let (value, holds_until_changed) = match form.required("do")? {
        "back" => return Ok((false, json!({ field.name: null }))),
        "take" => {
            let contributor = form.required("contributor")?;
            let value = given.get(contributor).cloned();
            let missing = || {
                Problem::not_found(format!(
                    "{contributor} gives {} no value; {}",
                    field.name,
                    known_instead(contributor, given.keys().map(String::as_str))
                ))
            };
            (value.ok_or_else(missing)?, true)
        }
        "set" => {
            let value = match (form.get("none"), form.get("value")) {
                (Some(_), _) => Json::Null,
                (None, Some(text)) => {
                    json_of_text(text, field.ty()).map_err(|problem| Problem::unprocessable(vec![format!("{}: {problem}", field.name)]))?
                }
                (None, None) => return Err(Problem::unprocessable(vec![format!("{}: write a value, or say that it has none", field.name)])),
            };
            (value, form.get("until").is_some())
        }
        other => return Err(Problem::bad_request(format!("{other:?} is nothing that a form does"))),
    };
    let mut body = Map::new();
    if holds_until_changed {
        let others: Map<String, Json> = given.into_iter().filter(|(contributor, _)| contributor != API_NAME).collect();
        body.insert(CORRECTS.into(), json!({ field.name: others }));
    }
    body.extend(form.get("why").map(|why| (REASON.to_owned(), why.into())));
    let is_cleared = value.is_null();
    if !is_cleared {
        body.insert(field.name.to_owned(), value);
    }
    Ok((is_cleared, body.into()))
}
