//! Callers and what they may do. A caller belongs to a tenant, or to all, and has a role or rights for collections; `undecided` checks them. A path with
//! another tenant is answered as if that tenant did not exist.

use crate::guard::problem::Problem;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::diagnostic::known_instead;
use stook_store::access::{Operation, Reach, Rights, Role};
use stook_store::{DEFAULT_TENANT, Tenant};

/// By what a caller is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// By nothing: the request needs no token.
    Nobody,
    /// By a token, of which this is the number.
    Token(u64),
    /// By what a trusted proxy says: it is the person with the caller's name.
    Person,
}

impl Identity {
    /// The number of the token.
    pub fn token(self) -> Option<u64> {
        if let Self::Token(number) = self { Some(number) } else { None }
    }
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name of the token, or of the person.
    pub name: Arc<str>,
    /// By what the caller is known.
    pub identity: Identity,
    /// The tenant; `None` if the token is for all tenants.
    pub tenant: Option<Tenant>,
    /// What the caller may do.
    pub rights: Arc<Rights>,
}

impl Caller {
    /// The caller of a request that needs no token.
    pub fn anonymous(role: Role) -> Self {
        Self { name: "anonymous".into(), identity: Identity::Nobody, tenant: Tenant::new(DEFAULT_TENANT).ok(), rights: Arc::new(role.into()) }
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

    /// Returns the tenant that a path of the API names, or else the caller's; `None` if it names one that the caller may not see.
    pub fn tenant_in(&self, path: &str) -> Option<Tenant> {
        match path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next()) {
            Some(named) => self.tenant(named).ok(),
            None => Some(self.tenant_or_default()),
        }
    }

    /// Returns the tenant for paths that name none.
    pub fn tenant_or_default(&self) -> Tenant {
        // the default name is a valid tenant name
        self.tenant.clone().or_else(|| Tenant::new(DEFAULT_TENANT).ok()).unwrap_or_else(|| unreachable!())
    }

    /// The name of the role that is nearest to what the caller may do, for expressions and people.
    pub fn role_name(&self) -> &'static str {
        self.rights.role().name()
    }

    /// Checks that the caller has at least this role: for all collections, whatever the definition declares.
    ///
    /// # Errors
    /// 403 when it has not.
    pub fn require_role(&self, role: Role) -> Result<(), Problem> {
        let operation = match role {
            Role::Metrics => Operation::Metrics,
            Role::Read => Operation::Read,
            Role::Write => Operation::Write,
            Role::Admin => Operation::Admin,
        };
        if self.rights.may_everywhere(operation) {
            return Ok(());
        }
        let who = self.who();
        let allowed = if self.rights.is_role() { format!("{who} has the role {}", self.rights) } else { format!("{who} may {}", self.rights) };
        Err(Problem::new(StatusCode::FORBIDDEN, format!("this requires the role {}; {allowed}", role.name())))
    }

    /// Checks that the caller may do something with all records of a collection.
    ///
    /// # Errors
    /// 403 when it may not.
    pub fn require(&self, operation: Operation, collection: &Collection) -> Result<(), Problem> {
        match self.rights.reach(operation, &collection.name) {
            Reach::Everything => return Ok(()),
            Reach::Part(conditions) => {
                let (who, name, conditions) = (self.who(), &collection.name, conditions.join(" or "));
                let detail = format!("this is about all of {name}; {who} may {} only those with {conditions}", operation.name());
                return Err(Problem::new(StatusCode::FORBIDDEN, detail));
            }
            Reach::Nothing => {}
        }
        if self.rights.is_role() {
            return self.require_role(if operation == Operation::Read { Role::Read } else { Role::Write });
        }
        let needed = format!("this requires {}:{}; {} may {}", operation.name(), collection.name, self.who(), self.rights);
        Err(Problem::new(StatusCode::FORBIDDEN, needed))
    }

    /// Of whom a refusal speaks.
    fn who(&self) -> &str {
        if self.identity == Identity::Person { &self.name } else { "the token" }
    }

    /// Checks that the caller may do something else than see metrics.
    ///
    /// # Errors
    /// 403 when it may not.
    pub fn require_any(&self) -> Result<(), Problem> {
        if self.rights.role() > Role::Metrics { Ok(()) } else { self.require_role(Role::Read) }
    }

    /// Checks that the caller may see metrics.
    ///
    /// # Errors
    /// 403 when it may not.
    pub fn require_metrics(&self) -> Result<(), Problem> {
        if self.rights.may_everywhere(Operation::Metrics) { Ok(()) } else { self.require_role(Role::Admin) }
    }
}

/// Reads rights such as `read:book,import:loan`, for collections, and conditions on their records, that fit a definition.
///
/// # Errors
/// What is expected, or what does not fit.
pub fn checked_rights(text: &str, catalogue: &Catalogue) -> Result<Rights, String> {
    let rights = Rights::parse(text)?;
    let known = || catalogue.collections.iter().map(|collection| collection.name.as_str());
    let tenant = Tenant::new(DEFAULT_TENANT).map_err(|error| error.to_string())?;
    for (name, condition) in rights.collections() {
        let Some((collection, _)) = catalogue.collection(name) else {
            return Err(format!("there is no collection {name:?}; {}", known_instead(name, known())));
        };
        if let Some(condition) = condition {
            stook_query::record_filter(catalogue, collection, &[condition], true, &tenant, 0).map_err(|reason| format!("{name}{reason}"))?;
        }
    }
    Ok(rights)
}

/// What names of tokens are.
pub const TOKEN_NAME: &str = "a name has at most 100 characters, none of them a control character";

/// Whether a token may have this name.
pub fn is_token_name(name: &str) -> bool {
    name.chars().count() <= 100 && !name.chars().any(char::is_control)
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
pub(super) fn is_local(headers: &HeaderMap) -> bool {
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
