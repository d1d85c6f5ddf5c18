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

/// One operation, on one collection, on some of its records, or on all collections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    operation: Operation,
    collection: Option<String>,
    /// The conditions of a query that records must satisfy; `None` for all records. Only rights for one collection have some.
    condition: Option<String>,
}

/// The records of a collection for which an operation is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach<'r> {
    /// None.
    Nothing,
    /// Those that satisfy one of these conditions.
    Part(Vec<&'r str>),
    /// All.
    Everything,
}

/// What a token allows: a role, or operations on collections such as `read:book,import:loan`, or on some of their records, `read:book[library=north]`.
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
        Self(vec![Right { operation, collection: None, condition: None }])
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.operation.name())?;
        if let Some(collection) = &self.collection {
            write!(out, ":{collection}")?;
        }
        if let Some(condition) = &self.condition {
            write!(out, "[{condition}]")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Rights {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.texts().join(","))
    }
}

impl Rights {
    /// The most rights that a token has.
    const MAX: usize = 200;

    /// The most bytes of the conditions of a right.
    const MAX_CONDITION: usize = 1_000;

    /// Reads operations, each alone, on a collection, or on some of its records, separated by commas; the order does not matter.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut rights = separated(text)?.into_iter().map(str::trim).map(Self::right).collect::<std::result::Result<Vec<Right>, String>>()?;
        rights.sort();
        rights.dedup();
        if rights.len() > Self::MAX { Err(format!("a token has at most {} rights", Self::MAX)) } else { Ok(Self(rights)) }
    }

    fn right(part: &str) -> std::result::Result<Right, String> {
        let (head, condition) = match part.split_once('[') {
            None => (part, None),
            Some((head, rest)) => match rest.strip_suffix(']') {
                Some(condition) => (head, Some(condition.trim())),
                None => return Err(format!("{part:?}: nothing follows the conditions of a right, which are in brackets")),
            },
        };
        let (name, collection) = head.split_once(':').map_or((head, None), |(name, collection)| (name, Some(collection)));
        let operation = OPERATIONS.iter().find(|(_, known)| *known == name).map(|(operation, _)| *operation);
        let operation = operation
            .ok_or_else(|| format!("{part:?}: a right is read, import or write, alone or for a collection (read:book), or it is metrics or admin"))?;
        match (collection, condition) {
            (Some(_), _) if matches!(operation, Operation::Metrics | Operation::Admin) => Err(format!("{part:?}: {name} is not for one collection")),
            (Some(""), _) => Err(format!("{part:?}: the name of the collection is missing")),
            (Some(collection), _) if collection.contains(']') => Err(format!("{part:?}: a bracket is closed that is not open")),
            (None, Some(_)) => Err(format!("{part:?}: conditions are on the records of one collection: read:book[library=north]")),
            (_, Some("")) => Err(format!("{part:?}: the conditions are missing; without brackets the right is for all records")),
            (_, Some(condition)) if condition.len() > Self::MAX_CONDITION => {
                Err(format!("the conditions of a right have at most {} bytes", Self::MAX_CONDITION))
            }
            (Some(_), Some(_)) if operation == Operation::Import => {
                Err(format!("{part:?}: documents are imported before it is known which records they change; only read and write have conditions"))
            }
            _ => Ok(Right { operation, collection: collection.map(str::to_owned), condition: condition.map(str::to_owned) }),
        }
    }

    /// Each right as text.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(Right::to_string).collect()
    }

    /// For which records of a collection an operation is allowed.
    pub fn reach(&self, operation: Operation, collection: &str) -> Reach<'_> {
        let is_of = |right: &&Right| right.operation.includes(operation) && right.collection.as_deref().is_none_or(|named| named == collection);
        let mut conditions = Vec::new();
        for right in self.0.iter().filter(is_of) {
            match &right.condition {
                None => return Reach::Everything,
                Some(condition) => conditions.push(condition.as_str()),
            }
        }
        if conditions.is_empty() { Reach::Nothing } else { Reach::Part(conditions) }
    }

    /// Whether an operation on all records of a collection is allowed.
    pub fn may(&self, operation: Operation, collection: &str) -> bool {
        self.reach(operation, collection) == Reach::Everything
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

    /// The collections that are named, each with the conditions on its records.
    pub fn collections(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().filter_map(|right| Some((right.collection.as_deref()?, right.condition.as_deref())))
    }
}

/// Splits a text at commas that are neither in brackets nor, inside of these, in quotes.
fn separated(text: &str) -> std::result::Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth, mut quote, mut is_escaped) = (Vec::new(), 0, 0_u32, None, false);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some('"'), '\\') => is_escaped = true,
            (Some(open), _) => quote = Some(open).filter(|open| *open != character),
            (None, '"' | '\'') if depth > 0 => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.checked_sub(1).ok_or_else(|| format!("{text:?}: a bracket is closed that is not open"))?,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 || quote.is_some() {
        return Err(format!("{text:?}: the conditions of a right end with a bracket, outside of quotes: read:book[library=north]"));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_rights_are_read_back_and_commas_in_them_do_not_end_a_right() {
        for (text, shown) in [
            ("write:m[pool in [a, b]], read:n", "read:n,write:m[pool in [a, b]]"),
            (r#"read:m[ name="a],\"b" ]"#, r#"read:m[name="a],\"b"]"#),
            ("read:m[x='],'],read:m[y=1]", "read:m[x='],'],read:m[y=1]"),
        ] {
            let rights = Rights::parse(text).expect(text);
            assert_eq!(rights.to_string(), shown);
            assert_eq!(Rights::parse(shown).as_ref(), Ok(&rights), "{shown}");
        }
        for wrong in
            ["read[x=1]", "read:m[]", "read:m[x=1", "read:m]", "read:m[x=1]y", "import:m[x=1]", "admin:m[x=1]", "read:m[x='a]", "read:m[a][b"]
        {
            assert!(Rights::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_right_without_conditions_reaches_everything_and_several_with_conditions_reach_what_one_of_them_does() {
        let reach = |text: &str, operation| match Rights::parse(text).expect(text).reach(operation, "m") {
            Reach::Nothing => "-".to_owned(),
            Reach::Part(conditions) => conditions.join(" or "),
            Reach::Everything => "all".to_owned(),
        };
        assert_eq!(reach("read:m[x=1],write:m[x=2]", Operation::Read), "x=1 or x=2");
        assert_eq!(reach("read:m[x=1],write:m[x=2]", Operation::Write), "x=2");
        assert_eq!(reach("read:m[x=1],read", Operation::Read), "all");
        assert_eq!(reach("read:m[x=1],write:n", Operation::Write), "-");
        assert_eq!(reach("write:m[x=1]", Operation::Import), "x=1");
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
