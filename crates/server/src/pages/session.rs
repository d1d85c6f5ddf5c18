//! Signing in: a browser gets the number of its session ([`super::signed_in`]) in a cookie that scripts cannot read and other sites cannot send. The token
//! itself is not in it.

use super::visit::{CARRIED, SubmittedForm, Visitor};
use super::{WebPages, layout};
use crate::guard::problem::Problem;
use crate::guard::proxy::ProxiedCaller;
use crate::guard::request::QueryParams;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use std::sync::Arc;
use std::time::Instant;

/// The name of the cookie. It contains the port, because browsers share cookies between all ports of a host.
fn cookie_name(sent: &HeaderMap) -> String {
    let host = sent.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(port) => format!("stook-{port}"),
        None => "stook".into(),
    }
}

/// The number of the session in a visitor's cookie.
fn session_number(sent: &HeaderMap) -> Option<&str> {
    let cookies = sent.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    let cookie_name = cookie_name(sent);
    cookies.filter_map(|cookie| cookie.trim().split_once('=')).find(|(name, _)| *name == cookie_name).map(|(_, number)| number)
}

/// Returns the headers of API calls for a visitor: the token of their session, and `Host` and `Origin`.
pub fn headers(pages: &WebPages, sent: &HeaderMap) -> HeaderMap {
    let mut api_headers = HeaderMap::new();
    for name in CARRIED {
        if let Some(value) = sent.get(&name) {
            api_headers.insert(name, value.clone());
        }
    }
    let in_session = session_number(sent).and_then(|number| pages.sessions.authorization(number, Instant::now()));
    // programs may send the token as in the API
    if let Some(authorization) = in_session.or_else(|| sent.get(header::AUTHORIZATION).cloned()) {
        api_headers.insert(header::AUTHORIZATION, authorization);
    }
    api_headers
}

/// Redirects known visitors to their home page, others to the form for signing in.
pub async fn front(State(pages): State<Arc<WebPages>>, request: Request) -> Response {
    match pages.app.caller(request.extensions(), &headers(&pages, request.headers())) {
        Ok(caller) => Redirect::to(&format!("/t/{}/home", caller.tenant_or_default())).into_response(),
        Err(refused) if request.extensions().get::<ProxiedCaller>().is_some() => layout::bare(&refused),
        Err(_) => Redirect::to("/sign-in").into_response(),
    }
}

/// `?to=PATH`: the form for signing in; it leads to `to` afterwards.
pub async fn sign_in_form(State(pages): State<Arc<WebPages>>, RawQuery(query): RawQuery) -> Response {
    let params = QueryParams::parse(query.as_deref().unwrap_or_default()).unwrap_or_default();
    shown(&pages, StatusCode::OK, None, params.first("to").unwrap_or_default())
}

fn shown(pages: &WebPages, status: StatusCode, wrong: Option<&str>, to: &str) -> Response {
    let body = html! {
        main.narrow {
            h1 { (pages.app.catalogue.name) }
            p { "Sign in with a token; " code { "stook token create --role read" } " makes one." }
            @if let Some(wrong) = wrong { p.problem role="alert" { (wrong) } }
            form method="post" action="/sign-in" {
                label for="token" { "Token" }
                input #token type="password" name="token" autocomplete="current-password" required autofocus;
                input type="hidden" name="to" value=(to);
                button { "Sign in" }
            }
        }
    };
    layout::html(status, layout::document("Sign in", &body))
}

/// What browsers are told about the cookie: over HTTPS, that it must not be sent without.
fn attributes(pages: &WebPages) -> &'static str {
    if pages.app.options.tls.is_some() { "Path=/; HttpOnly; SameSite=Strict; Secure" } else { "Path=/; HttpOnly; SameSite=Strict" }
}

/// Signs in with a token.
pub async fn sign_in(State(pages): State<Arc<WebPages>>, sent: HeaderMap, form: SubmittedForm) -> Response {
    // other sites must not sign a visitor in
    if sent.get("sec-fetch-site").is_some_and(|site| !matches!(site.as_bytes(), b"same-origin" | b"none")) {
        return layout::bare(&Problem::new(StatusCode::FORBIDDEN, "this form has expired or comes from another site: sign in again"));
    }
    let (token, to) = (form.get("token").unwrap_or_default().trim(), form.get("to").unwrap_or_default());
    let mut api_headers = headers(&pages, &sent);
    let plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let bearer = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| plain && !token.is_empty());
    let caller = bearer.ok_or_else(|| Problem::bad_request("")).and_then(|bearer| {
        api_headers.insert(header::AUTHORIZATION, bearer.clone());
        pages.app.tokens.caller(&api_headers).map(|caller| (caller, bearer))
    });
    match caller {
        Ok((caller, bearer)) => {
            let tenant_path = format!("/t/{}/", caller.tenant_or_default());
            let is_allowed =
                to.bytes().all(|byte| byte.is_ascii_graphic()) && to.starts_with(if caller.tenant.is_some() { &tenant_path } else { "/t/" });
            let mut response = Redirect::to(if is_allowed { to.to_owned() } else { format!("{tenant_path}home") }.as_str()).into_response();
            // another session in the same browser has no cookie any more
            session_number(&sent).into_iter().for_each(|number| pages.sessions.end(number));
            let Ok(number) = pages.sessions.begin(bearer, Instant::now()) else {
                return layout::bare(&Problem::unavailable("this machine has no random numbers at the moment; try again"));
            };
            // a number is letters, digits, - and _
            if let Ok(cookie) = HeaderValue::from_str(&format!("{}={number}; {}", cookie_name(&sent), attributes(&pages))) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Err(_) => shown(&pages, StatusCode::UNAUTHORIZED, Some("Unknown token; it may have been revoked."), to),
    }
}

/// Signs out.
pub async fn sign_out(State(pages): State<Arc<WebPages>>, sent: HeaderMap, form: SubmittedForm) -> Response {
    if let Err(problem) = form.check(&pages, Visitor::of(&headers(&pages, &sent))) {
        return layout::bare(&problem);
    }
    session_number(&sent).into_iter().for_each(|number| pages.sessions.end(number));
    let mut response = Redirect::to("/sign-in").into_response();
    // a name is letters, digits and -
    if let Ok(expired_cookie) = HeaderValue::from_str(&format!("{}=; {}; Max-Age=0", cookie_name(&sent), attributes(&pages))) {
        response.headers_mut().insert(header::SET_COOKIE, expired_cookie);
    }
    response
}
