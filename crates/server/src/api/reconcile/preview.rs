//! Shows a record in a few lines, as a page that other pages embed.

use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use stook_catalogue::definition::Collection;
use stook_catalogue::key::Key;
use stook_formats::xml::escaped;
use stook_query::reconcile::{name_field, name_in};
use stook_store::{ReadDetail, StoredRecord};

/// Fields that are shown.
const MAX_FIELDS: usize = 12;
/// Characters of a value that are shown.
const MAX_CHARS: usize = 160;
/// The page runs nothing, loads nothing and may be embedded anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-popups";

/// `?id=KEY`
pub(super) async fn get(mut ctx: RequestContext) -> HandlerResult {
    let id = ctx.params.single("id")?.unwrap_or_default();
    ctx.params.end()?;
    let key = Key::new(id).map_err(|error| Problem::unprocessable(vec![format!("id: {error}")]))?;
    ctx.count_store_reached();
    let (app, tenant, collection) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection());
    let text = reading(move || -> Result<String, Problem> {
        let found = app.store.read(&tenant, collection, std::slice::from_ref(&key), ReadDetail::Values)?.pop().flatten();
        let definition = &app.catalogue.collections[collection];
        let missing = || Problem::not_found(format!("there is no {} {:?}", definition.name, key.as_str()));
        Ok(page(definition, &found.filter(|record| record.exists).ok_or_else(missing)?))
    })
    .await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    Ok((headers, text).into_response())
}

fn page(collection: &Collection, record: &StoredRecord) -> String {
    let name_field = name_field(collection);
    let name = name_field
        .and_then(|field| record.golden.get(field.index()))
        .map_or_else(|| record.key.as_str().to_owned(), |value| name_in(value, &record.key));
    let shown = |text: &str| {
        let start: String = text.chars().take(MAX_CHARS).collect();
        escaped(&if start.len() < text.len() { start + "…" } else { start })
    };
    let fields = collection.shown_fields().filter(|(id, _)| Some(*id) != name_field);
    let fields = fields.filter_map(|(id, field)| record.golden.get(id.index()).filter(|value| !value.is_null()).map(|value| (field, value)));
    let lines: String = fields
        .take(MAX_FIELDS)
        .map(|(field, value)| format!("<dt>{}</dt><dd>{}</dd>", escaped(&field.name), shown(&value.show(field.golden_type()))))
        .collect();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{name}</title><style>body{{font:14px sans-serif;margin:8px}}h1{{font-size:16px;margin:0 0 6px}}\
         dt{{font-weight:bold;float:left;clear:left;margin-right:6px}}dd{{margin:0}}</style><h1>{name}</h1><p>{} {}</p><dl>{lines}</dl></html>",
        escaped(&collection.name),
        escaped(record.key.as_str()),
        name = shown(&name),
    )
}
