//! OAI-PMH 2.0: other systems fetch published records, and later what has changed since (<https://www.openarchives.org/OAI/openarchivesprotocol.html>).
//!
//! `arguments.rs` checks a request, `list.rs` answers lists of records page by page, `token.rs` has the tokens by which they continue, and `xml.rs`
//! writes responses. Errors of the protocol are responses with status 200.
//!
//! A datestamp is the time of a record's last change. Lists contain what had been committed everywhere when they began
//! ([`Changes::committed_until`](stook_store::changes::Changes::committed_until)), and that time is the `responseDate`: who asks again from there
//! misses nothing, whatever is written meanwhile.

mod arguments;
mod list;
mod token;
mod xml;

use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::{QueryParams, RequestContext};
use crate::guard::undecided::{Decides, UndecidedContext};
use arguments::{OaiError, OaiRequest};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use list::Repository;
use stook_store::access::Operation;

/// The media type of a form, in which arguments may be sent.
const FORM: &str = "application/x-www-form-urlencoded";

/// Answers a request whose arguments are in its URL.
pub async fn get(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByName);
    let arguments = std::mem::take(&mut ctx.params).into_pairs();
    answer(ctx, arguments).await
}

/// Answers a request whose arguments are in its body.
pub async fn post(ctx: UndecidedContext, body: Body) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByName);
    let sent = ctx.header(header::CONTENT_TYPE)?.unwrap_or(FORM).split(';').next().unwrap_or_default().trim().to_owned();
    if !sent.eq_ignore_ascii_case(FORM) {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("send {FORM}, this is {sent:?}")));
    }
    let bytes = ctx.bytes(body).await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Problem::bad_request("the body is not UTF-8"))?;
    let arguments = QueryParams::parse(text)?.into_pairs();
    answer(ctx, arguments).await
}

async fn answer(ctx: RequestContext, arguments: Vec<(String, String)>) -> HandlerResult {
    let app = ctx.app.clone();
    if app.catalogue.repository.is_none() {
        return Err(Problem::not_found("this catalogue publishes nothing"));
    }
    // the sets of a repository are all of its collections
    app.catalogue.published().try_for_each(|(id, ..)| ctx.require(Operation::Read, id))?;
    let base = format!("{}/v1/{}/oai", ctx.url(), ctx.tenant.as_str());
    ctx.count_store_reached();
    let tenant = ctx.tenant.clone();
    let text = reading(move || -> Result<String, Problem> {
        let repository = Repository::new(&app, &tenant, base)?;
        let (request, answered) = match OaiRequest::new(&arguments) {
            Ok(request) => {
                let answered = repository.answer(&request)?;
                // arguments are not repeated where they are what is wrong
                let is_wrong = matches!(&answered, Err(errors) if errors.iter().any(OaiError::is_about_arguments));
                (if is_wrong { Vec::new() } else { arguments.clone() }, answered)
            }
            Err(error) => (Vec::new(), Err(vec![error])),
        };
        let content = answered.unwrap_or_else(|errors| errors.iter().map(OaiError::to_xml).collect());
        Ok(xml::response(repository.base(), repository.date(), &request, &content))
    })
    .await?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml; charset=utf-8"));
    Ok(response)
}
