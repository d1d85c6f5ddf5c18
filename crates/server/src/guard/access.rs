//! Identifies callers by tokens, sent as `Authorization: Bearer TOKEN` or as the password of Basic authentication. A token belongs to a tenant, or to
//! all, and has a role. A path with another tenant is answered as if that tenant did not exist.

use crate::guard::problem::Problem;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use base64::Engine;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use stook_store::access::{NewToken, Role, Token};
use stook_store::{DEFAULT_TENANT, Store, Tenant};

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The token's name.
    pub name: Arc<str>,
    /// The token's number; `None` if the request needs no token.
    pub token: Option<u64>,
    /// The tenant; `None` if the token is for all tenants.
    pub tenant: Option<Tenant>,
    /// What the caller may do.
    pub role: Role,
}

impl Caller {
    /// The caller of a request that needs no token.
    pub fn anonymous(role: Role) -> Self {
        Self { name: "anonymous".into(), token: None, tenant: Tenant::new(DEFAULT_TENANT).ok(), role }
    }

    /// Returns the tenant named in a path, if it is the caller's.
    ///
    /// # Errors
    /// 404 if it is another tenant, whether that exists or not.
    pub fn tenant(&self, named: &str) -> Result<Tenant, Problem> {
        let not_found = || Problem::not_found(format!("tenant {named:?} not found"));
        match &self.tenant {
            Some(tenant) if tenant.as_str() == named => Ok(tenant.clone()),
            Some(_) => Err(not_found()),
            None => Tenant::new(named).map_err(|_| not_found()),
        }
    }

    /// Returns the tenant for paths that name none.
    pub fn tenant_or_default(&self) -> Tenant {
        // the default name is a valid tenant name
        self.tenant.clone().or_else(|| Tenant::new(DEFAULT_TENANT).ok()).unwrap_or_else(|| unreachable!())
    }

    /// Checks that the caller has at least this role.
    ///
    /// # Errors
    /// 403 when it has not.
    pub fn require_role(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        Err(Problem::new(StatusCode::FORBIDDEN, format!("this requires the role {}; the token has the role {}", role.name(), self.role.name())))
    }

    /// Checks that the caller may see metrics.
    ///
    /// # Errors
    /// 403 when it may not.
    pub fn require_metrics(&self) -> Result<(), Problem> {
        if self.role == Role::Metrics { Ok(()) } else { self.require_role(Role::Admin) }
    }
}

/// Makes a secret of 256 random bits, and what is stored of it: its SHA-256 digest.
///
/// # Errors
/// When the system cannot provide random bytes.
pub fn new_token(tenant: Option<Tenant>, role: Role, name: String) -> Result<(String, NewToken), getrandom::Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    let secret = format!("stook_{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random));
    let digest = digest(&secret);
    Ok((secret, NewToken { digest, tenant, role, name }))
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The tokens of a store, as this process knows them.
pub struct TokenCache {
    callers: RwLock<HashMap<[u8; 32], Caller>>,
    /// Whether only this machine can reach the server. Then no token is needed until the first one is made.
    loopback: bool,
    /// Whether there has ever been a token: revoking the last one does not make tokens optional again.
    has_had_tokens: AtomicBool,
}

impl TokenCache {
    /// Reads the tokens of a store.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read(store: &dyn Store, loopback: bool) -> stook_store::Result<Self> {
        let tokens = Self { callers: RwLock::default(), loopback, has_had_tokens: AtomicBool::new(false) };
        tokens.refresh(store)?;
        Ok(tokens)
    }

    /// Reads the tokens again, so that one revoked by another process is refused.
    ///
    /// # Errors
    /// When the store fails; then the known tokens stay.
    pub fn refresh(&self, store: &dyn Store) -> stook_store::Result<()> {
        let caller = |Token { id, token, .. }: Token| {
            (token.digest, Caller { name: token.name.into(), token: Some(id), tenant: token.tenant, role: token.role })
        };
        let fresh: HashMap<_, _> = store.tokens()?.into_iter().map(caller).collect();
        if !self.has_had_tokens.load(Ordering::SeqCst) && (!fresh.is_empty() || store.has_had_tokens()?) {
            self.has_had_tokens.store(true, Ordering::SeqCst);
        }
        if let Ok(mut callers) = self.callers.write() {
            *callers = fresh;
        }
        Ok(())
    }

    /// Whether a request needs no token.
    pub fn are_optional(&self) -> bool {
        self.loopback && !self.has_had_tokens.load(Ordering::SeqCst)
    }

    /// Identifies the caller from the headers of a request.
    ///
    /// # Errors
    /// 401 if there is no valid token and one is needed.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let refused = |detail: &str| {
            let challenge = HeaderValue::from_static("Bearer realm=\"stook\", Basic realm=\"stook\", charset=\"UTF-8\"");
            Problem::new(StatusCode::UNAUTHORIZED, detail).header(header::WWW_AUTHENTICATE, challenge)
        };
        let Some(authorization) = headers.get(header::AUTHORIZATION) else {
            if self.are_optional() {
                return if is_local(headers) {
                    Ok(Caller::anonymous(Role::Admin))
                } else {
                    Err(refused("without a token, only requests from this machine to localhost or a loopback address are served"))
                };
            }
            return Err(refused("send a token: Authorization: Bearer TOKEN (`stook token create` makes one)"));
        };
        let secret =
            authorization.to_str().ok().and_then(token_in_header).ok_or_else(|| refused("send the token as Bearer, or as the password of Basic"))?;
        let digest = digest(&secret);
        let callers = self.callers.read().map_err(|_| refused("the tokens cannot be read"))?;
        // the map is searched by the SHA-256 digest, which a caller cannot choose; the final comparison takes constant time
        let found = callers.get_key_value(&digest).filter(|(known, _)| known.iter().zip(&digest).fold(0, |all, (a, b)| all | (a ^ b)) == 0);
        found.map(|(_, caller)| caller.clone()).ok_or_else(|| refused("unknown token; it may have been revoked"))
    }
}

/// Returns the token in an `Authorization` header.
fn token_in_header(authorization: &str) -> Option<Cow<'_, str>> {
    let (scheme, credentials) = authorization.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.trim().into());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = base64::engine::general_purpose::STANDARD.decode(credentials.trim()).ok()?;
    let plain = String::from_utf8(plain).ok()?;
    Some(plain.split_once(':')?.1.to_owned().into())
}

/// Checks that a request that may change something does not come from a web page of another site. A browser adds stored credentials and cookies to such
/// requests, whoever wrote the page. Programs send no `Origin`.
///
/// # Errors
/// 403 if `Origin` names another host than `Host`, and is none of the `allowed` origins.
pub fn refuse_other_origins(method: &Method, headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN).filter(|_| !method.is_safe()) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_own = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
    if is_own || allowed.iter().any(|allowed| allowed == "*" || allowed == origin) {
        return Ok(());
    }
    let detail = format!("a web page of {origin:?} may not change anything here, which is {host:?} (a proxy must pass `Host` on)");
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

/// Whether `Host` and `Origin` name this machine, as a protection against requests from other websites (CSRF) and DNS rebinding.
fn is_local(headers: &HeaderMap) -> bool {
    let local = |host: &str| {
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())).map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let host = text(header::HOST).is_none_or(local);
    let origin = text(header::ORIGIN).is_none_or(|origin| origin.split_once("://").is_some_and(|(_, host)| local(host)));
    host && origin
}
