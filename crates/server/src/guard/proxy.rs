//! People whom a proxy has identified: which proxies are trusted, what they say, and what people may do by their groups.
//!
//! A request is a person's if it comes from an address of a proxy and has the secret that only the proxy and this server know. The headers that name a
//! person are taken out of every request, whoever sent it, so that nothing behind this file can mistake them.

use super::access::{Caller, Identity};
use super::problem::Problem;
use super::secret::{digest, token_in_header};
use crate::App;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use std::net::IpAddr;
use std::sync::Arc;
use stook_store::Tenant;
use stook_store::access::Rights;

/// The secret of a proxy, which it may also send as the password of Basic.
const SECRET: HeaderName = HeaderName::from_static("x-proxy-secret");
/// Who a person is, as the identity provider numbers or names people.
const USER: HeaderName = HeaderName::from_static("x-forwarded-user");
const EMAIL: HeaderName = HeaderName::from_static("x-forwarded-email");
/// The person's groups, separated by commas.
const GROUPS: HeaderName = HeaderName::from_static("x-forwarded-groups");
/// Headers that only a trusted proxy may send; others of its family say nothing that is used here.
const RESERVED: [HeaderName; 5] = [SECRET, USER, EMAIL, GROUPS, HeaderName::from_static("x-forwarded-preferred-username")];
/// The fewest characters of a proxy's secret.
const MIN_SECRET: usize = 16;
/// The most characters of a person's name or address.
const MAX_NAME: usize = 200;
/// The group that everybody is in.
const EVERYBODY: &str = "*";

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl std::str::FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: addresses of a proxy are one address such as 10.0.0.5, or a network such as 10.0.0.0/24 or fd00::/64");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        // every address would be trusted with nothing but the secret
        if (1..=most).contains(&bits) { Ok(Self { address, bits }) } else { Err(wrong()) }
    }
}

impl Network {
    /// Whether an address belongs to it. An IPv4 address that an IPv6 socket shows as IPv6 is an IPv4 address.
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(self.bits),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(self.bits),
            _ => false,
        }
    }
}

/// What the members of a group may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRights {
    group: String,
    rights: Rights,
}

impl GroupRights {
    /// Reads `GROUP=RIGHTS`, such as `librarians=write` or `*=read:book`; `check` reads the rights.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str, check: impl Fn(&str) -> Result<Rights, String>) -> Result<Self, String> {
        // names of groups may have an equals sign in them, and so may the conditions of rights; an equals sign before rights is the one that is meant
        let splits = || text.rmatch_indices('=').map(|(at, _)| (text[..at].trim(), &text[at + 1..])).filter(|(group, _)| !group.is_empty());
        let parts = splits()
            .find(|(_, rights)| Rights::parse(rights).is_ok())
            .or_else(|| splits().next_back().filter(|_| text.contains('[')))
            .or_else(|| splits().next());
        let (group, rights) =
            parts.ok_or_else(|| format!("{text:?}: rights of a group are GROUP=RIGHTS, such as librarians=write; * is everybody"))?;
        if group.contains(',') {
            return Err(format!("{group:?}: a group's name has no comma, because commas separate the groups that a proxy sends"));
        }
        Ok(Self { group: group.to_owned(), rights: check(rights)? })
    }
}

/// Proxies that identify people.
pub struct TrustedProxy {
    /// Where they are.
    pub networks: Vec<Network>,
    /// What people may do.
    pub rights: Vec<GroupRights>,
    /// The tenant to which people belong; `None` for all.
    pub tenant: Option<Tenant>,
    secret: [u8; 32],
}

impl std::fmt::Debug for TrustedProxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TrustedProxy").field("networks", &self.networks).field("rights", &self.rights).finish_non_exhaustive()
    }
}

/// What a trusted proxy says of the sender of a request.
#[derive(Debug, Clone)]
pub enum ProxiedCaller {
    /// It is this person.
    Person(Caller),
    /// It is nobody who may do anything here, for this reason.
    Refused(Problem),
}

impl TrustedProxy {
    /// Proxies that know this secret.
    ///
    /// # Errors
    /// When the secret could be guessed.
    pub fn new(secret: &str, networks: Vec<Network>, rights: Vec<GroupRights>, tenant: Option<Tenant>) -> Result<Self, String> {
        let secret = secret.trim();
        if secret.len() < MIN_SECRET || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "the secret of a proxy is one line of at least {MIN_SECRET} characters without spaces; `openssl rand -hex 32` makes one"
            ));
        }
        Ok(Self { networks, rights, tenant, secret: digest(secret) })
    }

    /// Returns who has sent a request, if a trusted proxy says it.
    fn caller(&self, headers: &HeaderMap, peer: IpAddr) -> Option<ProxiedCaller> {
        if !self.is_sender(headers, peer) {
            return None;
        }
        let refused = |status, detail: &str| Some(ProxiedCaller::Refused(Problem::new(status, detail)));
        let [user, email, groups] = [USER, EMAIL, GROUPS].map(|name| said(headers, &name));
        let (Ok(user), Ok(email), Ok(groups)) = (user, email, groups) else {
            return refused(StatusCode::UNAUTHORIZED, "the proxy names a person twice, or by what is no text: it must replace what a client sends");
        };
        // without a person, it passes on the request of a program, which has a token
        let name = match (user, email) {
            (None, None) => return None,
            (Some(name), None) | (None, Some(name)) => name.to_owned(),
            (Some(user), Some(email)) if user == email => email.to_owned(),
            (Some(user), Some(email)) => format!("{email} ({user})"),
        };
        if name.chars().count() > 2 * MAX_NAME || name.chars().any(char::is_control) {
            return refused(StatusCode::UNAUTHORIZED, "the proxy names a person by a name that is too long, or has control characters");
        }
        let groups: Vec<&str> = groups.unwrap_or_default().split(',').map(str::trim).collect();
        let is_in = |group: &str| group == EVERYBODY || groups.contains(&group);
        let rights = self.rights.iter().filter(|known| is_in(&known.group)).map(|known| known.rights.to_string());
        let rights = rights.collect::<Vec<_>>().join(",");
        match Rights::parse(&rights) {
            Ok(rights) => {
                let (name, rights) = (name.as_str().into(), Arc::new(rights));
                Some(ProxiedCaller::Person(Caller { name, identity: Identity::Person, tenant: self.tenant.clone(), rights }))
            }
            Err(_) => refused(StatusCode::FORBIDDEN, &format!("{name} is in no group that may do something here; ask who runs this server")),
        }
    }

    /// Whether the sender of a request is a proxy: by its address and its secret.
    fn is_sender(&self, headers: &HeaderMap, peer: IpAddr) -> bool {
        if !self.networks.iter().any(|network| network.contains(peer)) {
            return false;
        }
        let sent = |name| only(headers, name).ok().flatten().and_then(|value| value.to_str().ok());
        let secret = sent(&SECRET).map(Into::into).or_else(|| sent(&header::AUTHORIZATION).and_then(token_in_header));
        // digests are compared, of which a caller cannot choose the first bytes
        secret.is_some_and(|secret| digest(&secret).iter().zip(&self.secret).fold(0, |all, (a, b)| all | (a ^ b)) == 0)
    }
}

/// Why a header says nothing: it is sent twice, and so in part by the client, or is no text.
struct Ambiguous;

/// Returns the one value of a header.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Ambiguous> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_none() { Ok(value) } else { Err(Ambiguous) }
}

/// Returns the one text of a header, if it is not empty.
fn said<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Ambiguous> {
    let text = only(headers, name)?.map(|value| std::str::from_utf8(value.as_bytes())).transpose().map_err(|_| Ambiguous)?;
    Ok(text.map(str::trim).filter(|text| !text.is_empty()))
}

/// Takes what only a trusted proxy may say out of a request; returns who has sent it, if such a proxy has said it.
pub fn take_person(proxy: Option<&TrustedProxy>, headers: &mut HeaderMap, peer: IpAddr) -> Option<ProxiedCaller> {
    let is_proxied = proxy.is_some_and(|proxy| proxy.is_sender(headers, peer));
    let caller = proxy.and_then(|proxy| proxy.caller(headers, peer));
    // the proxy's own credentials are no token
    if is_proxied && !headers.contains_key(SECRET) {
        headers.remove(header::AUTHORIZATION);
    }
    for name in RESERVED {
        headers.remove(name);
    }
    caller
}

impl App {
    /// Identifies the caller of a request: a person whom a trusted proxy names, or else by its token.
    ///
    /// # Errors
    /// 401 if there is no valid token and one is needed; 403 for a person without rights.
    pub(crate) fn caller(&self, extensions: &Extensions, headers: &HeaderMap) -> Result<Caller, Problem> {
        match extensions.get::<ProxiedCaller>() {
            Some(ProxiedCaller::Person(caller)) => Ok(caller.clone()),
            Some(ProxiedCaller::Refused(problem)) => Err(problem.clone()),
            None => self.tokens.caller(headers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use base64::Engine;

    const KNOWN: &str = "0123456789abcdef0123";

    fn proxy() -> TrustedProxy {
        let rights = ["staff=write", "cn=readers=read:book", "ops=admin"].map(|text| GroupRights::parse(text, Rights::parse).expect("rights"));
        let networks = ["10.1.0.0/16", "fd00::/64"].map(|text| text.parse().expect("a network"));
        TrustedProxy::new(KNOWN, networks.into(), rights.into(), Tenant::new("main").ok()).expect("a proxy")
    }

    fn headers(sent: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        headers
    }

    /// Who it is, or the status.
    fn taken(sent: &[(&'static str, &str)], peer: &str) -> Option<Result<String, u16>> {
        let mut headers = headers(sent);
        let caller = take_person(Some(&proxy()), &mut headers, peer.parse().expect("an address"));
        assert!(RESERVED.iter().all(|name| !headers.contains_key(name)), "they are taken out, whoever sent them");
        caller.map(|caller| match caller {
            ProxiedCaller::Person(caller) => Ok(format!("{}: {}", caller.name, caller.rights)),
            ProxiedCaller::Refused(problem) => Err(problem.status.as_u16()),
        })
    }

    #[test]
    fn a_person_is_who_a_proxy_with_the_secret_says_and_nobody_else() {
        let said = [("x-forwarded-user", "7"), ("x-forwarded-email", "ann@a.example"), ("x-forwarded-groups", "staff, cn=readers")];
        let with = |more: &[(&'static str, &'static str)]| [&said[..], more].concat();
        let (secret, ann) = (("x-proxy-secret", KNOWN), Some(Ok("ann@a.example (7): read:book,write".to_owned())));
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("ann:{KNOWN}")));
        for peer in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"] {
            assert_eq!(taken(&with(&[secret]), peer), ann, "{peer}");
            assert_eq!(taken(&[&said[..], &[("authorization", basic.as_str())]].concat(), peer), ann, "{peer}");
        }
        for peer in ["10.2.0.1", "127.0.0.1", "::1", "fd00:0:0:1::1"] {
            assert_eq!(taken(&with(&[secret]), peer), None, "{peer}");
        }
        for wrong in [&[][..], &[("x-proxy-secret", "0123456789abcdef0124")], &[("x-proxy-secret", "")], &[secret, secret]] {
            assert_eq!(taken(&with(wrong), "10.1.2.3"), None, "{wrong:?}");
        }
        // what a client sends beside what the proxy says
        for more in [("x-forwarded-user", "root"), ("x-forwarded-email", "root@a.example"), ("x-forwarded-groups", "ops")] {
            assert_eq!(taken(&with(&[secret, more]), "10.1.2.3"), Some(Err(401)), "{more:?}");
        }
        assert_eq!(taken(&[secret, ("x-forwarded-user", "7")], "10.1.2.3"), Some(Err(403)), "in no group");
        assert_eq!(taken(&[secret, ("x-forwarded-user", "7"), ("x-forwarded-groups", "Staff,ops2")], "10.1.2.3"), Some(Err(403)));
        assert_eq!(taken(&[secret, ("x-forwarded-groups", "ops")], "10.1.2.3"), None, "no person: it needs a token");
    }

    #[test]
    fn the_credentials_of_a_proxy_are_no_token_and_those_of_a_program_stay() {
        let peer = "10.1.2.3".parse().expect("an address");
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("x:{KNOWN}")));
        let mut own = headers(&[("authorization", &basic)]);
        assert!(take_person(Some(&proxy()), &mut own, peer).is_none() && own.is_empty());
        let mut program = headers(&[("authorization", "Bearer stook_x"), ("x-proxy-secret", KNOWN)]);
        assert!(take_person(Some(&proxy()), &mut program, peer).is_none() && program.contains_key("authorization"));
        let mut claimed = headers(&[("x-forwarded-user", "root"), ("x-proxy-secret", KNOWN)]);
        assert!(take_person(None, &mut claimed, peer).is_none() && claimed.is_empty(), "no proxy is trusted");
    }

    #[test]
    fn networks_secrets_and_rights_are_checked() {
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/0", "::/0", "10.0.0/8", "proxy", "10.0.0.1/", "10.0.0.1/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        for wrong in ["short", "0123456789abcdef 0123", ""] {
            assert!(TrustedProxy::new(wrong, Vec::new(), Vec::new(), None).is_err(), "{wrong}");
        }
        for (text, group) in
            [("cn=north=read:book[library=north]", "cn=north"), ("n=read:book[note=write],read:x", "n"), ("n=read:book[a=\"=read\"]", "n")]
        {
            let parsed = GroupRights::parse(text, Rights::parse).expect(text);
            assert_eq!((parsed.group.as_str(), format!("{group}={}", parsed.rights)), (group, text.to_owned()));
        }
        for wrong in ["staff", "=read", "a,b=read", "staff=rule", "staff=read:book[x=1"] {
            assert!(GroupRights::parse(wrong, Rights::parse).is_err(), "{wrong}");
        }
    }
}
