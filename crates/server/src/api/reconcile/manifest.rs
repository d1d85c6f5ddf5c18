//! Describes a service.

use super::type_of;
use crate::api::response::percent;
use crate::guard::access::Identity;
use crate::guard::request::RequestContext;
use serde_json::{Value as Json, json};

/// The size of a preview, in pixels.
const PREVIEW_SIZE: (u32, u32) = (430, 300);

/// The manifest of the service of the request's collection.
pub(super) fn manifest(ctx: &RequestContext) -> Json {
    let (url, tenant, name) = (ctx.url(), ctx.tenant.as_str(), ctx.name());
    let service = format!("{url}/v1/{tenant}/reconcile/{name}");
    let suggested = |what: &str| json!({ "service_url": service, "service_path": format!("/suggest/{what}") });
    let mut manifest = json!({
        "versions": ["0.1", "0.2"],
        "name": format!("{}: {name}", ctx.app.catalogue.name),
        "identifierSpace": format!("{url}/v1/{tenant}/{name}/"),
        "schemaSpace": format!("{url}/openapi.json"),
        "serviceVersion": env!("CARGO_PKG_VERSION"),
        "defaultTypes": [type_of(ctx.definition(ctx.collection()))],
        "view": { "url": view(&url, tenant, name) },
        "preview": { "url": format!("{service}/preview?id={{{{id}}}}"), "width": PREVIEW_SIZE.0, "height": PREVIEW_SIZE.1 },
        "suggest": { "entity": suggested("entity"), "property": suggested("property"), "type": suggested("type") },
        "extend": { "propose_properties": { "service_url": service, "service_path": "/properties" }, "property_settings": [] },
    });
    if ctx.caller.identity != Identity::Nobody {
        manifest["authentication"] = json!({ "type": "http", "scheme": "basic" });
    }
    manifest
}

/// Where people see a record: on its web page, or as JSON if there are no web pages.
fn view(url: &str, tenant: &str, name: &str) -> String {
    match cfg!(feature = "pages") {
        true => format!("{url}/t/{tenant}/record?collection={}&key={{{{id}}}}", percent(name)),
        false => format!("{url}/v1/{tenant}/{name}/{{{{id}}}}"),
    }
}
