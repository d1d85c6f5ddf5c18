//! Tokens: which caller may do what with which records of which tenant.

use super::error::{Result, StoreError};
use super::tenant::Tenant;
use serde::Serialize;

/// What a token allows. Each role includes those before it, but `Metrics` and `Read` have nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// See metrics, for programs that watch the server.
    Metrics,
    /// Read and query records.
    Read,
    /// Also change records and import.
    Write,
    /// Also manage tokens and the queue.
    Admin,
}

/// Every role with its name.
pub const ROLES: [(Role, &str); 4] = [(Role::Metrics, "metrics"), (Role::Read, "read"), (Role::Write, "write"), (Role::Admin, "admin")];

impl Role {
    /// The role's name.
    pub fn name(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("?", |(_, name)| name)
    }

    /// The role with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        ROLES.iter().find(|(_, role_name)| *role_name == name).map(|(role, _)| *role)
    }
}

/// What a right allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// See metrics.
    Metrics,
    /// Read and query records.
    Read,
    /// Import and deliver documents; their records need not be readable.
    Import,
    /// Change records; includes `Read` and `Import`.
    Write,
    /// Everything.
    Admin,
}

/// Every operation with its name.
const OPERATIONS: [(Operation, &str); 5] = [
    (Operation::Metrics, "metrics"),
    (Operation::Read, "read"),
    (Operation::Import, "import"),
    (Operation::Write, "write"),
    (Operation::Admin, "admin"),
];

impl Operation {
    /// The operation's name.
    pub fn name(self) -> &'static str {
        OPERATIONS.iter().find(|(operation, _)| *operation == self).map_or("?", |(_, name)| name)
    }

    fn includes(self, other: Self) -> bool {
        self == other || self == Self::Admin || (self == Self::Write && matches!(other, Self::Read | Self::Import))
    }
}

/// One operation, on one collection or on all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    operation: Operation,
    collection: Option<String>,
}

/// What a token allows: a role, or operations on collections such as `read:book,import:loan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights(Vec<Right>);

impl From<Role> for Rights {
    fn from(role: Role) -> Self {
        let operation = match role {
            Role::Metrics => Operation::Metrics,
            Role::Read => Operation::Read,
            Role::Write => Operation::Write,
            Role::Admin => Operation::Admin,
        };
        Self(vec![Right { operation, collection: None }])
    }
}

impl std::fmt::Display for Rights {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, Right { operation, collection }) in self.0.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match collection {
                Some(collection) => write!(out, "{comma}{}:{collection}", operation.name())?,
                None => write!(out, "{comma}{}", operation.name())?,
            }
        }
        Ok(())
    }
}

impl Rights {
    /// The most rights that a token has.
    const MAX: usize = 200;

    /// Reads operations, each alone or on a collection, separated by commas; the order does not matter.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut rights = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (name, collection) = part.split_once(':').map_or((part, None), |(name, collection)| (name, Some(collection)));
            let operation = OPERATIONS.iter().find(|(_, known)| *known == name).map(|(operation, _)| *operation);
            let operation = operation.ok_or_else(|| {
                format!("{part:?}: a right is read, import or write, alone or for a collection (read:book), or it is metrics or admin")
            })?;
            match collection {
                Some(_) if matches!(operation, Operation::Metrics | Operation::Admin) => {
                    return Err(format!("{part:?}: {name} is not for one collection"));
                }
                Some("") => return Err(format!("{part:?}: the name of the collection is missing")),
                _ => rights.push(Right { operation, collection: collection.map(str::to_owned) }),
            }
        }
        rights.sort();
        rights.dedup();
        if rights.len() > Self::MAX { Err(format!("a token has at most {} rights", Self::MAX)) } else { Ok(Self(rights)) }
    }

    /// Whether an operation on a collection is allowed.
    pub fn may(&self, operation: Operation, collection: &str) -> bool {
        let is_of = |right: &Right| right.collection.as_deref().is_none_or(|named| named == collection);
        self.0.iter().any(|right| right.operation.includes(operation) && is_of(right))
    }

    /// Whether an operation on every collection is allowed, also on those that the definition will have.
    pub fn may_everywhere(&self, operation: Operation) -> bool {
        self.0.iter().any(|right| right.operation.includes(operation) && right.collection.is_none())
    }

    /// The role that is nearest: the least that includes every operation, on whichever collection.
    pub fn role(&self) -> Role {
        let role = |right: &Right| match right.operation {
            Operation::Metrics => Role::Metrics,
            Operation::Read => Role::Read,
            Operation::Import | Operation::Write => Role::Write,
            Operation::Admin => Role::Admin,
        };
        self.0.iter().map(role).max().unwrap_or(Role::Metrics)
    }

    /// Whether these are the rights of a role.
    pub fn is_role(&self) -> bool {
        *self == Self::from(self.role())
    }

    /// The collections that are named.
    pub fn collections(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|right| right.collection.as_deref())
    }
}

/// A token to be created. The secret itself is never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    /// The tenant whose records it gives access to; `None` for all tenants.
    pub tenant: Option<Tenant>,
    /// What it allows.
    pub rights: Rights,
    /// A name for people.
    pub name: String,
    /// From when it is refused, in microseconds; `None` if it does not expire.
    pub expires: Option<i64>,
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The token's number.
    pub id: u64,
    /// When it was created, in microseconds.
    pub created: i64,
    /// About when it was last used; `None` if it never was.
    pub used: Option<i64>,
    /// The secret that its last rotation replaced.
    pub former: Option<FormerSecret>,
    /// What it is now.
    pub token: NewToken,
}

/// A secret that was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerSecret {
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    /// From when it is refused, in microseconds.
    pub until: i64,
}

/// A change of a token; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenChange {
    /// Another name.
    pub name: Option<String>,
    /// Other rights.
    pub rights: Option<Rights>,
    /// Another expiry; `Some(None)` for none.
    pub expires: Option<Option<i64>>,
    /// Another secret.
    pub secret: Option<NewSecret>,
}

/// A secret that replaces a token's present one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecret {
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    /// From when the present secret is refused, in microseconds.
    pub former_until: i64,
}

/// The columns of a token's row.
pub(crate) struct TokenRow {
    pub(crate) id: i64,
    pub(crate) digest: Vec<u8>,
    pub(crate) tenant: Option<String>,
    /// The rights as text.
    pub(crate) role: String,
    pub(crate) name: String,
    pub(crate) created: i64,
    pub(crate) expires: Option<i64>,
    pub(crate) used: Option<i64>,
    pub(crate) former_digest: Option<Vec<u8>>,
    pub(crate) former_until: Option<i64>,
}

/// The columns of a [`TokenRow`], in its order.
pub(crate) const TOKEN_COLUMNS: &str = "id, digest, tenant, role, name, created, expires, used, former_digest, former_until";

impl TryFrom<TokenRow> for Token {
    type Error = StoreError;

    fn try_from(row: TokenRow) -> Result<Self> {
        let TokenRow { id, digest, tenant, role, name, created, expires, used, former_digest, former_until } = row;
        let damaged = || StoreError::Other(format!("token {id} is damaged"));
        let digest = digest.try_into().map_err(|_| damaged())?;
        let tenant = tenant.map(|tenant| Tenant::new(&tenant)).transpose()?;
        let rights = Rights::parse(&role).map_err(|_| damaged())?;
        let former = match former_digest.zip(former_until) {
            Some((digest, until)) => Some(FormerSecret { digest: digest.try_into().map_err(|_| damaged())?, until }),
            None => None,
        };
        Ok(Self { id: id as u64, created, used, former, token: NewToken { digest, tenant, rights, name, expires } })
    }
}

/// The tokens that a store keeps.
pub trait Tokens {
    /// Stores a token and returns its number.
    ///
    /// # Errors
    /// When the database fails.
    fn create_token(&self, token: NewToken) -> Result<u64>;

    /// Returns all tokens that have not been revoked, also expired ones.
    ///
    /// # Errors
    /// When the database fails.
    fn tokens(&self) -> Result<Vec<Token>>;

    /// Whether any token has ever been created.
    ///
    /// # Errors
    /// When the database fails.
    fn has_had_tokens(&self) -> Result<bool>;

    /// Changes a token that has not been revoked; returns false if there is none with this number.
    ///
    /// # Errors
    /// When the database fails.
    fn change_token(&self, id: u64, change: TokenChange) -> Result<bool>;

    /// Notes for tokens, by their numbers, when they were used. An earlier time than the one that is stored changes nothing.
    ///
    /// # Errors
    /// When the database fails.
    fn note_token_uses(&self, uses: &[(u64, i64)]) -> Result<()>;

    /// Revokes a token; returns false if there is none with this number.
    ///
    /// # Errors
    /// When the database fails.
    fn revoke_token(&self, id: u64) -> Result<bool>;
}
