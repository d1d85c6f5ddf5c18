//! The OpenAPI 3.1 document, made from the catalogue: every collection, transition and declared route with its types. A request with a token gets the
//! document for that token's tenant. `pages/docs.rs` shows it as a web page.

use super::jobs::job_schema;
use super::schema::record_schema;
use super::{collection, jobs, lab, queries, reconcile, route, service, tokens};
use crate::App;
use crate::api::response::json_answer;
use crate::guard::access::Identity;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_store::Tenant;

/// Makes the document for a tenant, or for all.
pub fn document(catalogue: &Catalogue, tenant: Option<&Tenant>) -> Json {
    let mut paths = Map::new();
    let tenant_schema = match tenant {
        Some(tenant) => json!({ "type": "string", "enum": [tenant.as_str()] }),
        None => json!({ "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" }),
    };
    let mut add = |path: String, method: &str, mut operation: Json| {
        if path.contains("{tenant}")
            && let Some(parameters) = operation["parameters"].as_array_mut()
        {
            parameters
                .insert(0, json!({ "name": "tenant", "in": "path", "required": true, "schema": tenant_schema, "description": "Whose records." }));
        }
        let operations = paths.entry(path).or_insert_with(|| json!({}));
        operations[method] = operation;
    };
    service::describe(&mut add);
    queries::describe(&mut add);
    if catalogue.repository.is_some() {
        queries::describe_published(catalogue, &mut add);
    }
    queries::describe_changes(catalogue, &mut add);
    reconcile::describe(catalogue, &mut add);
    jobs::describe(&mut add);
    lab::describe(&mut add);
    tokens::describe(&mut add);
    for definition in &catalogue.collections {
        collection::describe(definition, &mut add);
    }
    for (index, definition) in catalogue.routes.iter().enumerate() {
        add(definition.declared_path(), definition.method.name(), route::describe(catalogue, index, definition));
    }
    let mut schemas = Map::new();
    schemas.insert(
        "problem".into(),
        json!({
            "type": "object",
            "description": "Problem details (RFC 9457).",
            "properties": {
                "type": { "type": "string" }, "title": { "type": "string" }, "status": { "type": "integer" }, "detail": { "type": "string" },
                "errors": { "type": "array", "items": { "type": "string" } }
            },
            "required": ["type", "title", "status", "detail"]
        }),
    );
    schemas.insert("job".into(), job_schema());
    for collection in &catalogue.collections {
        schemas.insert(collection.name.clone(), record_schema(collection));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": catalogue.name,
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Records of several sources, consolidated by key. Queries are written as `collection field=value | sort field- | grep field`."
        },
        "servers": [{ "url": "/" }],
        "security": [{ "bearer": [] }, { "basic": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "A token made by `stook token create`." },
                "basic": { "type": "http", "scheme": "basic", "description": "The token is the password." }
            }
        }
    })
}

/// Returns the document for requests without a token.
pub fn shared(app: &App) -> &Bytes {
    app.openapi.get_or_init(|| document(&app.catalogue, None).to_string().into())
}

/// Serves the document. A request with a token gets that of the token's tenant.
pub async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    let caller = app.caller(request.extensions(), request.headers()).ok().filter(|caller| caller.identity != Identity::Nobody);
    let tenant = caller.and_then(|caller| caller.tenant);
    match tenant {
        Some(tenant) => json_answer(StatusCode::OK, document(&app.catalogue, Some(&tenant)).to_string()),
        None => json_answer(StatusCode::OK, shared(&app).clone()),
    }
}
