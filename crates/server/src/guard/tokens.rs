//! The tokens of a store, as this process knows them: identifies callers by the tokens that they send as `Authorization: Bearer TOKEN` or as the password
//! of Basic authentication, notes when tokens are used, and says which soon expire.

use super::access::{Caller, Identity, is_local};
use super::problem::Problem;
use super::secret::{digest, now, token_in_header};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use stook_catalogue::value::show_timestamp;
use stook_store::Store;
use stook_store::access::{Role, Token};

/// Microseconds after which the use of a token is stored again.
const USE_INTERVAL: i64 = 10 * 60 * 1_000_000;
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// A token is said to expire soon for the last tenth of its life, and at most for this time.
const MAX_WARNING: i64 = 7 * DAY;

/// A secret that callers may send.
struct KnownSecret {
    caller: Caller,
    end: SecretEnd,
    last_use: Arc<LastUse>,
}

/// From when a secret is refused, in microseconds.
#[derive(Debug, Clone, Copy)]
enum SecretEnd {
    Never,
    Expired(i64),
    Replaced(i64),
}

/// When a token was used.
#[derive(Default)]
struct LastUse {
    /// In this process; 0 if it never was.
    seen: AtomicI64,
    /// In the store; 0 if it never was.
    stored: AtomicI64,
}

/// A token that expires.
#[derive(Debug, Clone)]
pub struct ExpiringToken {
    /// Its number.
    pub id: u64,
    /// Its tenant; `None` for all.
    pub tenant: Option<String>,
    /// When, in microseconds.
    pub expires: i64,
    /// From when it expires soon, in microseconds.
    soon: i64,
}

/// The tokens of a store, as this process knows them.
pub struct TokenCache {
    secrets: RwLock<HashMap<[u8; 32], KnownSecret>>,
    /// Held from the read of the store on, so that what was read earlier never replaces what was read later: a revoked token would work again.
    refreshing: Mutex<()>,
    uses: Mutex<HashMap<u64, Arc<LastUse>>>,
    expiring: Mutex<Vec<ExpiringToken>>,
    /// For tokens that expire soon: their expiry, and the days that were left when it was last said.
    said: Mutex<HashMap<u64, (i64, i64)>>,
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
        let (secrets, uses, expiring, said) = (RwLock::default(), Mutex::default(), Mutex::default(), Mutex::default());
        let tokens = Self { secrets, refreshing: Mutex::default(), uses, expiring, said, loopback, has_had_tokens: AtomicBool::new(false) };
        tokens.refresh(store)?;
        Ok(tokens)
    }

    /// Reads the tokens again, so that what another process has changed, rotated or revoked applies here.
    ///
    /// # Errors
    /// When the store fails; then the known tokens stay.
    pub fn refresh(&self, store: &dyn Store) -> stook_store::Result<()> {
        let _refreshing = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = store.tokens()?;
        if !self.has_had_tokens.load(Ordering::SeqCst) && (!tokens.is_empty() || store.has_had_tokens()?) {
            self.has_had_tokens.store(true, Ordering::SeqCst);
        }
        if let Ok(mut expiring) = self.expiring.lock() {
            *expiring = tokens.iter().filter_map(expiring_token).collect();
        }
        let Ok(mut uses) = self.uses.lock() else { return Ok(()) };
        uses.retain(|id, _| tokens.iter().any(|token| token.id == *id));
        let mut secrets = HashMap::with_capacity(tokens.len());
        for token in tokens {
            let rights = Arc::new(token.token.rights.clone());
            let last_use = uses.entry(token.id).or_default().clone();
            last_use.stored.fetch_max(token.used.unwrap_or(0), Ordering::Relaxed);
            for (digest, end) in secrets_of(&token) {
                let (name, tenant, rights) = (token.token.name.as_str().into(), token.token.tenant.clone(), rights.clone());
                let caller = Caller { name, identity: Identity::Token(token.id), tenant, rights };
                secrets.insert(digest, KnownSecret { caller, end, last_use: last_use.clone() });
            }
        }
        if let Ok(mut known) = self.secrets.write() {
            *known = secrets;
        }
        Ok(())
    }

    /// Stores when tokens were used, for those whose last stored use is some time ago: an active token costs a write in ten minutes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn store_uses(&self, store: &dyn Store) -> stook_store::Result<()> {
        let outdated: Vec<(u64, i64)> = {
            let Ok(uses) = self.uses.lock() else { return Ok(()) };
            let seen = |(id, last_use): (&u64, &Arc<LastUse>)| (*id, last_use.seen.load(Ordering::Relaxed), last_use.stored.load(Ordering::Relaxed));
            uses.iter().map(seen).filter(|(_, seen, stored)| *seen > stored + USE_INTERVAL).map(|(id, seen, _)| (id, seen)).collect()
        };
        if outdated.is_empty() { Ok(()) } else { store.note_token_uses(&outdated) }
    }

    /// The tokens that expire.
    pub fn expiring(&self) -> Vec<ExpiringToken> {
        self.expiring.lock().map(|expiring| expiring.clone()).unwrap_or_default()
    }

    /// Returns tokens that have expired or soon expire, each once a day.
    pub fn expiring_soon(&self) -> Vec<ExpiringToken> {
        let (now, expiring) = (now(), self.expiring());
        let Ok(mut said) = self.said.lock() else { return Vec::new() };
        said.retain(|id, _| expiring.iter().any(|token| token.id == *id));
        let is_news = |token: &ExpiringToken| {
            // an expired one is said once
            let news = (token.expires, (token.expires - now).div_euclid(DAY).max(-1));
            now >= token.soon && said.insert(token.id, news) != Some(news)
        };
        expiring.into_iter().filter(is_news).collect()
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
        let secret = authorization
            .to_str()
            .ok()
            .and_then(token_in_header)
            .ok_or_else(|| refused("send the token as Bearer, as the password of Basic, or as the token secret of OAuth 1.0 with PLAINTEXT"))?;
        let digest = digest(&secret);
        let secrets = self.secrets.read().map_err(|_| refused("the tokens cannot be read"))?;
        // the map is searched by the SHA-256 digest, which a caller cannot choose; the final comparison takes constant time
        let found = secrets.get_key_value(&digest).filter(|(known, _)| known.iter().zip(&digest).fold(0, |all, (a, b)| all | (a ^ b)) == 0);
        let (_, known) = found.ok_or_else(|| refused("unknown token; it may have been revoked"))?;
        let now = now();
        match known.end {
            SecretEnd::Expired(at) if at <= now => {
                return Err(refused(&format!("the token expired at {}; ask an admin for another one", show_timestamp(at))));
            }
            SecretEnd::Replaced(at) if at <= now => {
                return Err(refused(&format!("the token was rotated, and this secret ended at {}; send the new one", show_timestamp(at))));
            }
            SecretEnd::Never | SecretEnd::Expired(_) | SecretEnd::Replaced(_) => {}
        }
        // many threads that write one word all the time would slow each other down
        if now - known.last_use.seen.load(Ordering::Relaxed) > SECOND {
            known.last_use.seen.store(now, Ordering::Relaxed);
        }
        Ok(known.caller.clone())
    }
}

fn refused(detail: &str) -> Problem {
    let challenge = HeaderValue::from_static("Bearer realm=\"stook\", Basic realm=\"stook\", charset=\"UTF-8\", OAuth realm=\"stook\"");
    Problem::new(StatusCode::UNAUTHORIZED, detail).header(header::WWW_AUTHENTICATE, challenge)
}

/// The digests of a token's secrets, each with its end.
fn secrets_of(token: &Token) -> impl Iterator<Item = ([u8; 32], SecretEnd)> {
    let expires = token.token.expires;
    let end = expires.map_or(SecretEnd::Never, SecretEnd::Expired);
    let former = token.former.as_ref().map(|former| match expires {
        Some(at) if at < former.until => (former.digest, SecretEnd::Expired(at)),
        _ => (former.digest, SecretEnd::Replaced(former.until)),
    });
    former.into_iter().chain([(token.token.digest, end)])
}

fn expiring_token(token: &Token) -> Option<ExpiringToken> {
    let expires = token.token.expires?;
    let warning = ((expires - token.created) / 10).clamp(0, MAX_WARNING);
    let tenant = token.token.tenant.as_ref().map(|tenant| tenant.as_str().to_owned());
    Some(ExpiringToken { id: token.id, tenant, expires, soon: expires - warning })
}

impl ExpiringToken {
    /// Whether it has expired.
    pub fn has_expired(&self) -> bool {
        self.expires <= now()
    }
}
