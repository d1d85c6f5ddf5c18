//! Requests to the API, and their responses without what differs between stores.

use super::case::Case;
use super::run::RUNTIME;
use super::stores::TestSetup;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Map, Value as Json, json};
use stook_store::Tenant;
use tower_service::Service;

type Answer = Result<(u16, Json), String>;

/// Encodes a key for a path.
pub fn segment(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn send(setup: &TestSetup, request: Request<Body>) -> Answer {
    let shown = format!("{} {}", request.method(), request.uri());
    let answer = RUNTIME.block_on(async {
        let response = setup.router.clone().call(request).await.map_err(|_| "no answer".to_owned())?;
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 64 << 20).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((status, bytes))
    });
    let (status, bytes) = answer.map_err(|error| format!("{}: {shown}: {error}", setup.kind))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if status >= 500 {
        return Err(format!("{}: {shown} is answered {status}: {text}", setup.kind));
    }
    Ok((status, serde_json::from_str(&text).unwrap_or(Json::String(text))))
}

fn request(setup: &TestSetup, method: &str, path: &str, body: Option<&Json>) -> Answer {
    request_as(setup, &setup.token, method, path, body)
}

/// Returns the response of a declared route; if it is a ticket, the result that is available later.
fn answered(setup: &TestSetup, token: &str, (method, path): (&str, &str), body: Option<&Json>, has_tickets: bool) -> Answer {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut sent = path.to_owned();
    loop {
        let (status, answer) = request_as(setup, token, &method.to_uppercase(), &sent, body)?;
        let is_ticket = |text: &&str| has_tickets && text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match answer.as_str().filter(is_ticket) {
            Some(ticket) if std::time::Instant::now() < until => sent = format!("{path}{}pid={ticket}", if path.contains('?') { '&' } else { '?' }),
            _ => return Ok((status, answer)),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn request_as(setup: &TestSetup, token: &str, method: &str, path: &str, body: Option<&Json>) -> Answer {
    let builder = Request::builder().method(method).uri(path).header("host", "localhost").header("authorization", format!("Bearer {token}"));
    let request = match body {
        Some(body) => builder.header("content-type", "application/json").body(Body::from(body.to_string())),
        None => builder.body(Body::empty()),
    };
    send(setup, request.map_err(|error| error.to_string())?)
}

/// Changes a record, by its path after the tenant.
pub fn change(setup: &TestSetup, tenant: &Tenant, method: &str, path: &str, body: &Json) -> Answer {
    request(setup, method, &format!("/v1/{tenant}/{path}"), (method != "DELETE").then_some(body))
}

fn get(setup: &TestSetup, tenant: &Tenant, path: &str) -> Result<Json, String> {
    let (status, body) = request(setup, "GET", &format!("/v1/{tenant}/{path}"), None)?;
    Ok(json!([status, without_store_specifics(body)]))
}

/// Removes from a response what each store has of its own: its clock and its counters.
fn without_store_specifics(answer: Json) -> Json {
    match answer {
        Json::Object(entries) => {
            let store_specific = ["revision", "job", "seconds", "touch", "id", "created_by_job", "cached"];
            // of documents with equal content, the first one processed is kept as the origin
            let is_store_specific =
                |name: &str, value: &Json| store_specific.contains(&name) || (matches!(name, "at" | "document") && value.is_number());
            Json::Object(
                entries
                    .into_iter()
                    .filter(|(name, value)| !is_store_specific(name, value))
                    .map(|(name, value)| (name, without_store_specifics(value)))
                    .collect(),
            )
        }
        Json::Array(items) => items.into_iter().map(without_store_specifics).collect(),
        Json::String(text)
            if text.len() >= 20 && text.as_bytes()[4] == b'-' && text.as_bytes()[10] == b'T' && &text[..4] >= "2026" && text.ends_with('Z') =>
        {
            json!("now")
        }
        Json::String(text) if text.strip_prefix("job ").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) => json!("job"),
        other => other,
    }
}

/// Keeps the entries of a change log that requests made: imports change a record once or several times, depending on how their documents are grouped.
fn log(mut answer: Json) -> Json {
    if let Some(entries) = answer[1]["entries"].as_array_mut() {
        entries.retain(|entry| entry["caller"].as_str().is_some_and(|caller| caller != "job"));
    }
    answer
}

/// Queries a case's records: all of them, or only those that may have changed.
pub fn query_records(setup: &TestSetup, tenant: &Tenant, case: &Case, (records, all): (&Json, bool)) -> Result<Vec<(String, Json)>, String> {
    let mut responses = Vec::new();
    let mut note = |path: String| -> Result<(), String> {
        let answer = get(setup, tenant, &path)?;
        let answer = if path.ends_with("/log") { log(answer) } else { answer };
        responses.push((path, answer));
        Ok(())
    };
    for (name, collection) in case.definition["collections"].as_object().into_iter().flatten() {
        let keys: Vec<&String> = records[name].as_object().into_iter().flat_map(Map::keys).take(2).collect();
        for key in &keys {
            let key = segment(key);
            note(format!("{name}/{key}"))?;
            note(format!("{name}/{key}/explain"))?;
        }
        if let Some(key) = keys.first() {
            note(format!("{name}?key={}", segment(key)))?;
            note(format!("{name}/{}/document", segment(key)))?;
            note(format!("{name}/{}/log", segment(key)))?;
        }
        if !all {
            continue;
        }
        note(format!("export/{name}?format=ndjson"))?;
        note(format!("export/{name}?format=csv"))?;
        for query in queries(name, collection, &records[name]) {
            note(format!("query?ask=never&total=true&q={}", segment(&query)))?;
        }
        note(format!("query/facets?q={}", segment(name)))?;
        for (coverage, _) in collection["coverage"].as_object().into_iter().flatten() {
            note(format!("query?ask=never&q={}", segment(&format!("{name}.{coverage}"))))?;
            if let Some(key) = keys.first() {
                note(format!("coverage/children?collection={name}.{coverage}&parent={}", segment(key)))?;
            }
        }
    }
    Ok(responses)
}

/// Makes queries of a collection: of all records, and of existing values.
fn queries(name: &str, collection: &Json, records: &Json) -> Vec<String> {
    let mut queries = vec![name.to_owned()];
    let fields: Vec<(&String, &Json)> = collection["fields"].as_object().into_iter().flatten().collect();
    let first = records.as_object().and_then(|records| records.values().next()).cloned().unwrap_or_default();
    for (field, keywords) in fields.iter().take(8) {
        let ty = keywords.get("type").unwrap_or(keywords);
        if keywords["index"].to_string().contains("\"words\"") {
            queries.push(format!("{name} {field} ~ 'a* k*' or {field} ~ b | grep key, {field}, rank"));
            queries.push(format!("{name} ~ 'a*' not {field} ~ true | limit 3"));
            queries.push(format!("{name} | count(distinct {field})"));
        }
        match ty.as_str() {
            Some("text") => {
                let value = first.get(*field).and_then(Json::as_str).unwrap_or("a").replace(['\'', '\\'], "");
                queries.push(format!("{name} {field}='{value}'"));
                queries.push(format!("{name} {field}!='{value}' | grep {field} | sort {field}-"));
                queries.push(format!("{name} {field}=*a* | unique | grep {field}"));
                queries.push(format!("{name} | count(key), max({field}) by {field} | sort count(key)-"));
            }
            Some("integer" | "size" | "float") => {
                queries.push(format!("{name} {field}>=1 | sort {field}"));
                queries.push(format!("{name} | sum({field}), max({field}), median({field})"));
                queries.push(format!("{name} | count(key), percentile({field}, 90) by {field}"));
            }
            Some("timestamp") => {
                queries.push(format!("{name} {field}=2024-01-02 | sort {field}-"));
                queries.push(format!("{name} | count(key), min({field}) by month({field}), week({field}) | sort week({field})-"));
            }
            Some("boolean") => queries.push(format!("{name} {field}=true")),
            Some("ranges") => queries.push(format!("{name} {field}=3 | count({field})")),
            None if ty[0] == "text" => {
                queries.push(format!("{name} {field}=a | grep {field} | unique"));
                queries.push(format!("{name} | count(key), count({field}) by {field} | sort count({field})"));
            }
            None if ty[0].is_object() => {
                queries.push(format!("{name} | each {field} | grep {field}.a, {field}.b"));
                queries.push(format!("{name} | each {field} | count(key) by {field}.a"));
                queries.push(format!("{name} | count(key), count({field}.b) by {field}.a"));
            }
            _ => {}
        }
        if keywords.get("compare").is_some_and(|compare| *compare != false) {
            queries.push(format!("{name} conflict={field}"));
        }
    }
    for (link, _) in collection["links"].as_object().into_iter().flatten() {
        queries.push(format!("{name} {link}=k1 | grep key, {link}"));
        queries.push(format!("{name} | count({link})"));
    }
    queries
}

/// Calls declared routes, lookups and aliases.
pub fn call_routes(setup: &TestSetup, tenant: &Tenant, case: &Case, records: &Json) -> Result<Vec<(String, Json)>, String> {
    let mut responses = Vec::new();
    for (name, _) in case.definition["collections"].as_object().into_iter().flatten() {
        let keys: Vec<&String> = records[name].as_object().into_iter().flat_map(Map::keys).take(3).collect();
        let body = json!({ "collection": name, "keys": keys.iter().map(|key| json!(key)).chain([json!("nobody")]).collect::<Vec<_>>() });
        let (status, answer) = request(setup, "POST", &format!("/v1/{tenant}/lookup"), Some(&body))?;
        responses.push((format!("a look-up of {name}"), json!([status, without_store_specifics(answer)])));
        for word in case.definition["words"].as_object().into_iter().flat_map(Map::keys) {
            for query in [format!("{word}=k1"), format!("{name} {word}=k1"), format!("records {word}=k1")] {
                let answer = get(setup, tenant, &format!("query?ask=never&total=true&q={}", segment(&query)))?;
                responses.push((query, answer));
            }
        }
    }
    let routes: Vec<&Json> = case.definition["routes"].as_array().into_iter().flatten().collect();
    if routes.is_empty() {
        return Ok(responses);
    }
    // declared routes are called with a token of the tenant
    let (_, created) = request(setup, "POST", &format!("/v1/{tenant}/tokens"), Some(&json!({ "role": "write", "name": "test" })))?;
    let token = created["token"].as_str().ok_or_else(|| format!("{}: no token is made: {created}", setup.kind))?.to_owned();
    let first = |collection: &Json| records[collection.as_str().unwrap_or_default()].as_object().and_then(|records| records.keys().next()).cloned();
    for route in routes {
        let named = ["get", "post", "put", "patch", "delete"].into_iter().find_map(|method| Some((method, route[method].as_str()?)));
        let Some((method, path)) = named else { continue };
        let key = ["one", "list", "of"].iter().find_map(|word| first(&route[*word])).unwrap_or_else(|| "k1".into());
        let mut sent = path.replace("{ref}", &segment(&key));
        let mut body = Map::new();
        for (name, param) in route["params"].as_object().into_iter().flatten().filter(|(name, _)| !path.contains(&format!("{{{name}}}"))) {
            let ty = param.get("type").unwrap_or(param);
            let value = match (name.as_str(), ty.as_str()) {
                ("input", _) => json!(format!("{} f0=k1", case.first_collection())),
                ("pid", _) => continue,
                ("idx", _) => json!(0),
                (_, Some("integer")) => json!(1),
                _ => json!(key),
            };
            if param["in"] == "query" || (param["in"] != "body" && matches!(method, "get" | "delete")) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                sent += &format!("{}{name}={}", if sent.contains('?') { '&' } else { '?' }, segment(&text));
            } else {
                body.insert(name.clone(), value);
            }
        }
        let (path, body) = (sent, (!body.is_empty()).then(|| Json::from(body)));
        let (status, answer) = answered(setup, &token, (method, &path), body.as_ref(), route.get("ask").is_some())?;
        responses.push((format!("{method} {path}"), json!([status, without_store_specifics(answer)])));
    }
    Ok(responses)
}

/// Makes the tags of a collection: a manual one, a query, and, if documents are kept, an XPath.
pub fn make_tags(setup: &TestSetup, tenant: &Tenant, case: &Case) -> Result<Vec<(String, Json)>, String> {
    let mut responses = Vec::new();
    for (name, collection) in case.tagged_collections() {
        let path = format!("/v1/{tenant}/tags/{name}");
        let mut tags = vec![json!({ "name": "blue", "comment": "by hand" }), json!({ "name": "red", "query": "f0=1" })];
        if collection["tags"].get("document").is_some() {
            tags.push(json!({ "name": "deep", "xpath": "//f0 = 'k1' or //f1" }));
            tags.push(json!({ "name": "joined", "xpath": "count(//f0) > 1" }));
        }
        for tag in tags {
            let (status, answer) = request(setup, "POST", &path, Some(&tag))?;
            responses.push((format!("the tag {tag} of {name}"), json!([status, without_store_specifics(answer)])));
        }
    }
    Ok(responses)
}

/// Adds the manual tag to the first record of each collection.
pub fn give_tags(setup: &TestSetup, tenant: &Tenant, case: &Case, seen: &Json) -> Result<Vec<(String, Json)>, String> {
    let mut responses = Vec::new();
    for (name, _) in case.tagged_collections() {
        let Some(key) = seen[name].as_object().and_then(|records| records.keys().next()) else { continue };
        let body = json!({ "add": [key, "nobody"] });
        let (status, answer) = request(setup, "POST", &format!("/v1/{tenant}/tags/{name}/blue/records"), Some(&body))?;
        responses.push((format!("blue for {key} of {name}"), json!([status, without_store_specifics(answer)])));
    }
    Ok(responses)
}

/// Returns which records carry which tags.
pub fn tagged(setup: &TestSetup, tenant: &Tenant, case: &Case, tags: &[&str]) -> Result<Vec<(String, Json)>, String> {
    let mut responses = Vec::new();
    for (name, _) in case.tagged_collections() {
        for tag in tags {
            let query = format!("{name} tag={tag} | grep key");
            responses.push((query.clone(), get(setup, tenant, &format!("query?ask=never&q={}", segment(&query)))?));
        }
    }
    Ok(responses)
}

/// Applies transitions to the first record, twice: the second time they may be refused.
pub fn transitions(setup: &TestSetup, tenant: &Tenant, case: &Case, seen: &Json) -> Result<Vec<(String, Json)>, String> {
    let mut responses = Vec::new();
    for (name, collection) in case.definition["collections"].as_object().into_iter().flatten() {
        let Some(key) = seen[name].as_object().and_then(|records| records.keys().next()) else { continue };
        let names: Vec<&String> = collection["transitions"].as_object().into_iter().flat_map(Map::keys).collect();
        for transition in names.iter().chain(&names) {
            let body = if *transition == "go" { json!({ "n": 7 }) } else { json!({}) };
            let (status, answer) = change(setup, tenant, "POST", &format!("{name}/{}/{transition}", segment(key)), &body)?;
            responses.push((format!("{transition} of {name} {key}"), json!([status, without_store_specifics(answer)])));
        }
        if !names.is_empty() {
            let body = json!({ "query": name, "transition": names[0], "args": { "n": 1 } });
            let (status, answer) = request(setup, "POST", &format!("/v1/{tenant}/pick"), Some(&body))?;
            responses.push((format!("pick of {name}"), json!([status, without_store_specifics(answer)])));
        }
    }
    Ok(responses)
}
