//! SRU 1.1 and 1.2: other systems search published records (<https://www.loc.gov/standards/sru/>).
//!
//! `/v1/{tenant}/sru/{collection}` is the database of a collection, `/v1/{tenant}/sru` that of the first one published. `arguments.rs` checks a request,
//! `explain.rs` describes a database; the query is read and evaluated by `stook_query::cql`. Errors are diagnostics in responses with status 200.

mod arguments;
mod explain;

use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use arguments::{RecordPacking, SearchRequest, SruRequest};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use explain::Database;
use stook_catalogue::ids::CollectionId;
use stook_engine::publish::{PublishedForm, RecordPublisher};
use stook_formats::xml::escaped;
use stook_query::cql::{self, CqlDiagnostic, CqlIndexes};
use stook_store::{ReadDetail, Store, Tenant};

/// The forms of records with their names and identifiers.
const SCHEMAS: [(&str, &str, PublishedForm); 2] = [
    ("marcxml", "info:srw/schema/1/marcxml-v1.1", PublishedForm::MarcXml),
    ("dc", "http://www.openarchives.org/OAI/2.0/oai_dc/", PublishedForm::DublinCore),
];

/// Answers a request to the database of a collection.
pub async fn get(mut ctx: RequestContext) -> HandlerResult {
    let id = ctx.collection();
    let arguments = std::mem::take(&mut ctx.params).into_pairs();
    let app = ctx.app.clone();
    let Some(repository) = app.catalogue.repository.clone() else { return Err(Problem::not_found("this catalogue publishes nothing")) };
    let host = ctx.header(header::HOST)?.unwrap_or("localhost").to_owned();
    ctx.count_store_reached();
    let tenant = ctx.tenant.clone();
    let text = reading(move || -> Result<String, Problem> {
        let collection = &app.catalogue.collections[id];
        let indexes = CqlIndexes::new(collection);
        let forms: Vec<_> = SCHEMAS.into_iter().filter(|(.., form)| is_given(collection, *form)).collect();
        let request = SruRequest::new(&arguments, &forms);
        let version = SruRequest::version(&arguments);
        let database = Database { repository: &repository, host: &host, tenant: tenant.as_str(), collection, indexes: &indexes, forms: &forms };
        Ok(match request {
            Ok(SruRequest::Explain) => explain_response(version, &database, None),
            Err(diagnostic) if SruRequest::is_explain(&arguments) => explain_response(version, &database, Some(&diagnostic)),
            Ok(SruRequest::Search(search)) => {
                let publisher = RecordPublisher::new(&app.catalogue, id)?;
                let searched = SearchedDatabase { store: &*app.store, tenant: &tenant, id, indexes: &indexes, publisher: &publisher };
                search_response(version, searched.records(&search)?)
            }
            Err(diagnostic) => search_response(version, Err(diagnostic)),
        })
    })
    .await?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml; charset=utf-8"));
    Ok(response)
}

fn is_given(collection: &stook_catalogue::definition::Collection, form: PublishedForm) -> bool {
    form != PublishedForm::MarcXml || collection.publish.as_ref().is_some_and(|publication| publication.has_marc)
}

/// What a search reads.
struct SearchedDatabase<'s> {
    store: &'s dyn Store,
    tenant: &'s Tenant,
    id: CollectionId,
    indexes: &'s CqlIndexes<'s>,
    publisher: &'s RecordPublisher<'s>,
}

impl SearchedDatabase<'_> {
    /// The number of records found, and the elements of a page of them.
    fn records(&self, request: &SearchRequest) -> Result<Result<String, CqlDiagnostic>, Problem> {
        let page = (request.start - 1, request.maximum);
        let found = match cql::search(self.store, (self.tenant, self.id), self.indexes, &request.query, page)? {
            Err(diagnostic) => return Ok(Err(diagnostic)),
            Ok(found) => found,
        };
        if request.start > 1 && request.start > found.total {
            return Ok(Err(CqlDiagnostic::new(61, request.start.to_string())));
        }
        let mut content = format!("<numberOfRecords>{}</numberOfRecords>", found.total);
        let stored = if found.keys.is_empty() { Vec::new() } else { self.store.read(self.tenant, self.id, &found.keys, ReadDetail::Full)? };
        let mut records = String::new();
        for (position, (key, stored)) in (request.start..).zip(found.keys.iter().zip(stored)) {
            // a record that was deleted meanwhile, or has no document in this form, keeps its place
            let written = stored.filter(|stored| stored.exists).map(|stored| self.publisher.write(stored, request.form)).transpose()?.flatten();
            let (schema, data) = match written {
                Some(document) => (request.schema, document),
                None => ("info:srw/schema/1/diagnostics-v1.1", diagnostic_xml(64, "Record does not exist in this schema", key.as_str())),
            };
            let (packing, data) = match request.packing {
                RecordPacking::Xml => ("xml", data),
                RecordPacking::String => ("string", escaped(&data)),
            };
            records.push_str(&format!(
                "<record><recordSchema>{schema}</recordSchema><recordPacking>{packing}</recordPacking><recordData>{data}</recordData>\
                 <recordPosition>{position}</recordPosition></record>"
            ));
        }
        if !records.is_empty() {
            content.push_str(&format!("<records>{records}</records>"));
        }
        let next = request.start + found.keys.len() as u64;
        if next <= found.total {
            content.push_str(&format!("<nextRecordPosition>{next}</nextRecordPosition>"));
        }
        Ok(Ok(content))
    }
}

fn diagnostic_xml(number: u16, message: &str, details: &str) -> String {
    format!(
        "<diagnostic xmlns=\"http://www.loc.gov/zing/srw/diagnostic/\"><uri>info:srw/diagnostic/1/{number}</uri><details>{}</details>\
         <message>{message}</message></diagnostic>",
        escaped(details)
    )
}

fn diagnostics(diagnostic: &CqlDiagnostic) -> String {
    format!("<diagnostics>{}</diagnostics>", diagnostic_xml(diagnostic.number, diagnostic.message, &diagnostic.details))
}

fn search_response(version: &str, content: Result<String, CqlDiagnostic>) -> String {
    let content = content.unwrap_or_else(|diagnostic| format!("<numberOfRecords>0</numberOfRecords>{}", diagnostics(&diagnostic)));
    response("searchRetrieveResponse", version, &content)
}

fn explain_response(version: &str, database: &Database<'_>, diagnostic: Option<&CqlDiagnostic>) -> String {
    let record = format!(
        "<record><recordSchema>http://explain.z3950.org/dtd/2.0/</recordSchema><recordPacking>xml</recordPacking><recordData>{}</recordData></record>",
        database.explained()
    );
    response("explainResponse", version, &(record + &diagnostic.map(diagnostics).unwrap_or_default()))
}

fn response(name: &str, version: &str, content: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{name} xmlns=\"http://www.loc.gov/zing/srw/\"><version>{version}</version>{content}</{name}>\n"
    )
}
