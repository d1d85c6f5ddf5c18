//! Evaluates a query in CQL on a published collection.

use super::CqlDiagnostic;
use super::parse::{Boolean, Clause, CqlQuery, CqlSort, Relation};
use std::collections::BTreeSet;
use std::sync::Arc;
use stook_catalogue::definition::{Collection, DUBLIN_CORE};
use stook_catalogue::diagnostic::did_you_mean;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_catalogue::words::{WordSearch, WordSearchError};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey, matching_keys};
use stook_store::{Store, StoreError, Tenant};

/// The maximum number of records that one side of `or` or `not` may find.
pub const MAX_KEYS: u64 = 10_000;

/// An error of a search: a diagnostic, or a failure of the store.
pub type Searched<T> = Result<Result<T, CqlDiagnostic>, StoreError>;

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPage {
    /// The keys of its records.
    pub keys: Vec<Key>,
    /// The number of all records found.
    pub total: u64,
}

/// The indexes of a collection: the fields that its Dublin Core is made of.
pub struct CqlIndexes<'c> {
    collection: &'c Collection,
    /// Names with the columns that are searched.
    pub names: Vec<(String, Vec<PlanColumn>)>,
}

impl<'c> CqlIndexes<'c> {
    /// The indexes of a published collection.
    pub fn new(collection: &'c Collection) -> Self {
        let mut names: Vec<(String, Vec<PlanColumn>)> = vec![("rec.identifier".into(), vec![PlanColumn::Key])];
        let Some(publication) = &collection.publish else { return Self { collection, names } };
        let mut fields: Vec<FieldId> = Vec::new();
        for (position, expressions) in &publication.elements {
            let of_element: Vec<FieldId> = expressions.iter().flat_map(|expression| fields_of(collection, expression)).collect();
            fields.extend(of_element.iter().copied().filter(|field| !fields.contains(field)).collect::<Vec<_>>());
            let columns = of_element.into_iter().map(PlanColumn::Field).collect::<Vec<_>>();
            if !columns.is_empty() {
                names.push((format!("dc.{}", DUBLIN_CORE[*position]), columns));
            }
        }
        if !names.iter().any(|(name, _)| name == "dc.identifier") {
            names.push(("dc.identifier".into(), vec![PlanColumn::Key]));
        }
        names.extend(fields.into_iter().map(|field| (collection.fields[field].name.clone(), vec![PlanColumn::Field(field)])));
        Self { collection, names }
    }

    /// The columns of an index.
    fn columns(&self, name: &str) -> Result<&[PlanColumn], CqlDiagnostic> {
        let lower = name.to_ascii_lowercase();
        let wanted = match lower.as_str() {
            // what is searched where a query names no index
            "" | "cql.serverchoice" | "cql.anywhere" | "cql.anyindexes" => "dc.title",
            "rec.id" | "cql.resultsetid" => "rec.identifier",
            other => other,
        };
        let found = self
            .names
            .iter()
            .find(|(own, _)| own == wanted || own.strip_prefix("dc.") == Some(wanted))
            .or_else(|| self.names.get(1).filter(|_| wanted == "dc.title"));
        match (found, wanted.split_once('.')) {
            (Some((_, columns)), _) => Ok(columns),
            (None, Some((set, _))) if !["dc", "rec", "cql"].contains(&set) && self.collection.field(set).is_none() => {
                Err(CqlDiagnostic::new(15, set))
            }
            (None, _) => {
                let meant = did_you_mean(wanted, self.names.iter().map(|(own, _)| own.as_str()));
                Err(CqlDiagnostic::new(16, meant.map_or_else(|| name.to_owned(), |meant| format!("{name}; did you mean {meant}?"))))
            }
        }
    }

    fn ty(&self, column: PlanColumn) -> FieldType {
        column.field().map_or(FieldType::Text, |field| self.collection.fields[field].golden_type().clone())
    }
}

/// The fields whose values an expression shows: its variables, and of structs the members that it names.
fn fields_of(collection: &Collection, expression: &stook_catalogue::eval::Expression) -> Vec<FieldId> {
    let mut fields = Vec::new();
    for name in expression.variables() {
        let Some((id, field)) = collection.field(name) else { continue };
        let members = field.golden_type().members();
        if members.is_empty() {
            let is_searchable = !matches!(field.golden_type().element(), FieldType::Json | FieldType::Geometry | FieldType::Ranges);
            fields.extend(Some(id).filter(|_| is_searchable));
        }
        let named = members.iter().filter(|member| expression.source().contains(&format!(".{}", member.name)));
        fields.extend(named.filter_map(|member| collection.field(&format!("{name}.{}", member.name)).map(|(id, _)| id)));
    }
    fields
}

/// What a part of a query has found.
enum Found {
    /// What satisfies all these conditions.
    Conditions(Vec<Condition>),
    /// These records.
    Keys(BTreeSet<String>),
}

/// What a search reads.
struct Searcher<'s> {
    store: &'s dyn Store,
    tenant: &'s Tenant,
    id: CollectionId,
    indexes: &'s CqlIndexes<'s>,
}

/// Searches a collection; returns `limit` keys after `offset`.
///
/// # Errors
/// When the store fails.
pub fn search(
    store: &dyn Store,
    (tenant, id): (&Tenant, CollectionId),
    indexes: &CqlIndexes<'_>,
    query: &CqlQuery,
    (offset, limit): (u64, u64),
) -> Searched<ResultPage> {
    let searcher = Searcher { store, tenant, id, indexes };
    let conditions = match searcher.clause(&query.clause)? {
        Err(diagnostic) => return Ok(Err(diagnostic)),
        Ok(Found::Conditions(conditions)) => conditions,
        Ok(Found::Keys(keys)) => vec![is_one_of(&keys)],
    };
    let sort = match query.sort.iter().map(|key| searcher.sort_key(key)).collect::<Result<Vec<_>, _>>() {
        Err(diagnostic) => return Ok(Err(diagnostic)),
        Ok(sort) => sort,
    };
    let plan = QueryPlan { conditions, sort, offset, limit: Some(limit), ..QueryPlan::all(tenant.clone(), id) };
    let (rows, total) = store.find_and_count(&plan)?;
    let key = |row: Vec<Value>| row.first().and_then(Value::as_text).and_then(|key| Key::new(key).ok());
    Ok(Ok(ResultPage { keys: rows.rows.into_iter().filter_map(key).collect(), total }))
}

fn is_one_of(keys: &BTreeSet<String>) -> Condition {
    Condition { column: PlanColumn::Key, test: Comparison::In(keys.iter().map(Value::text).collect()) }
}

impl Searcher<'_> {
    fn clause(&self, clause: &Clause) -> Searched<Found> {
        match clause {
            Clause::Term { index, relation, term } => match self.alternatives(index, *relation, term) {
                Err(diagnostic) => Ok(Err(diagnostic)),
                Ok(mut alternatives) if alternatives.len() == 1 => Ok(Ok(Found::Conditions(alternatives.remove(0)))),
                Ok(alternatives) => {
                    let mut keys = BTreeSet::new();
                    for conditions in alternatives {
                        match self.keys(Found::Conditions(conditions))? {
                            Err(diagnostic) => return Ok(Err(diagnostic)),
                            Ok(found) => keys.extend(found),
                        }
                    }
                    Ok(self.bounded(keys).map(Found::Keys))
                }
            },
            Clause::Both(boolean, parts) => {
                let (left, right) = match (self.clause(&parts[0])?, self.clause(&parts[1])?) {
                    (Err(diagnostic), _) | (_, Err(diagnostic)) => return Ok(Err(diagnostic)),
                    (Ok(left), Ok(right)) => (left, right),
                };
                self.combined(*boolean, left, right)
            }
        }
    }

    fn combined(&self, boolean: Boolean, left: Found, right: Found) -> Searched<Found> {
        match (boolean, left, right) {
            (Boolean::And, Found::Conditions(mut left), Found::Conditions(right)) => {
                left.extend(right);
                Ok(Ok(Found::Conditions(left)))
            }
            (Boolean::And, Found::Keys(left), Found::Keys(right)) => Ok(Ok(Found::Keys(left.intersection(&right).cloned().collect()))),
            (Boolean::And, Found::Keys(keys), Found::Conditions(conditions)) | (Boolean::And, Found::Conditions(conditions), Found::Keys(keys)) => {
                Ok(self.among(&keys, conditions)?.map(Found::Keys))
            }
            (Boolean::Or, left, right) => match (self.keys(left)?, self.keys(right)?) {
                (Err(diagnostic), _) | (_, Err(diagnostic)) => Ok(Err(diagnostic)),
                (Ok(mut left), Ok(right)) => {
                    left.extend(right);
                    Ok(self.bounded(left).map(Found::Keys))
                }
            },
            (Boolean::Not, left, right) => {
                let left = match self.keys(left)? {
                    Err(diagnostic) => return Ok(Err(diagnostic)),
                    Ok(left) => left,
                };
                let without = match right {
                    Found::Keys(right) => right,
                    Found::Conditions(conditions) => match self.among(&left, conditions)? {
                        Err(diagnostic) => return Ok(Err(diagnostic)),
                        Ok(found) => found,
                    },
                };
                Ok(Ok(Found::Keys(left.difference(&without).cloned().collect())))
            }
        }
    }

    /// The records among these that satisfy conditions.
    fn among(&self, keys: &BTreeSet<String>, mut conditions: Vec<Condition>) -> Searched<BTreeSet<String>> {
        if keys.is_empty() {
            return Ok(Ok(BTreeSet::new()));
        }
        conditions.push(is_one_of(keys));
        self.keys(Found::Conditions(conditions))
    }

    /// The keys of what was found.
    fn keys(&self, found: Found) -> Searched<BTreeSet<String>> {
        let conditions = match found {
            Found::Keys(keys) => return Ok(Ok(keys)),
            Found::Conditions(conditions) => conditions,
        };
        let plan = QueryPlan { conditions, limit: Some(MAX_KEYS + 1), ..QueryPlan::all(self.tenant.clone(), self.id) };
        let keys = matching_keys(self.store, &plan)?.into_iter().map(|key| key.as_str().to_owned()).collect();
        Ok(self.bounded(keys))
    }

    fn bounded(&self, keys: BTreeSet<String>) -> Result<BTreeSet<String>, CqlDiagnostic> {
        if keys.len() as u64 > MAX_KEYS {
            return Err(CqlDiagnostic::new(60, format!("a part of `or` or `not` finds more than {MAX_KEYS} records")));
        }
        Ok(keys)
    }

    fn sort_key(&self, key: &CqlSort) -> Result<SortKey, CqlDiagnostic> {
        let columns = self.indexes.columns(&key.index)?;
        match columns {
            [column] if !self.indexes.ty(*column).is_list() => Ok(SortKey { column: *column, descending: key.descending }),
            _ => Err(CqlDiagnostic::new(82, format!("{}: it has several values", key.index))),
        }
    }

    /// The conditions of a clause: lists of which one must hold, each of conditions that all must.
    fn alternatives(&self, index: &str, relation: Relation, term: &str) -> Result<Vec<Vec<Condition>>, CqlDiagnostic> {
        if index.eq_ignore_ascii_case("cql.allrecords") {
            return Ok(vec![Vec::new()]);
        }
        if term.trim().is_empty() {
            return Err(CqlDiagnostic::new(27, index));
        }
        let columns = self.indexes.columns(index)?;
        let words: Vec<&str> = term.split_whitespace().collect();
        let of_column = |column: &PlanColumn| -> Result<Vec<Vec<Condition>>, CqlDiagnostic> {
            let condition = |term: &str, relation: Relation| Ok(Condition { column: *column, test: self.test(*column, relation, term)? });
            match relation {
                Relation::Any => words.iter().map(|word| Ok(vec![condition(word, Relation::Usual)?])).collect(),
                Relation::All => Ok(vec![words.iter().map(|word| condition(word, Relation::Usual)).collect::<Result<_, CqlDiagnostic>>()?]),
                relation => Ok(vec![vec![condition(term, relation)?]]),
            }
        };
        let found = columns.iter().map(of_column).collect::<Result<Vec<_>, _>>();
        match found {
            Ok(found) => Ok(found.into_iter().flatten().collect()),
            // a term need not fit all columns of an index
            Err(diagnostic) if diagnostic.number == 36 && columns.len() > 1 => {
                let fitting: Vec<_> = columns.iter().filter_map(|column| of_column(column).ok()).flatten().collect();
                if fitting.is_empty() { Err(diagnostic) } else { Ok(fitting) }
            }
            Err(diagnostic) => Err(diagnostic),
        }
    }

    fn test(&self, column: PlanColumn, relation: Relation, term: &str) -> Result<Comparison, CqlDiagnostic> {
        let ty = self.indexes.ty(column);
        let element = ty.element();
        let pieces = pieces(term)?;
        let value = || {
            let text = pieces.concat();
            let value = from_text(&text, element, None).ok().filter(|value| *value != Value::Null);
            value.ok_or_else(|| CqlDiagnostic::new(36, format!("`{text}` is not of type {element}")))
        };
        let is_text = *element == FieldType::Text;
        if pieces.len() > 1 && !is_text {
            return Err(CqlDiagnostic::new(28, term));
        }
        let indexes = column.field().map(|field| self.indexes.collection.fields[field].index).unwrap_or_default();
        Ok(match relation {
            // words of a text that is indexed by its words
            Relation::Usual if indexes.words && !(indexes.contains && pieces.len() > 1) => match phrase(&pieces) {
                Some(Ok(search)) => Comparison::Words(Arc::new(search)),
                Some(Err(error)) => return Err(CqlDiagnostic::new(36, error.to_string())),
                None => Comparison::Wildcard(pieces),
            },
            // a text that is indexed for it is searched for a phrase
            Relation::Usual if is_text && indexes.contains => {
                let mut around = pieces;
                around.insert(0, String::new());
                around.push(String::new());
                Comparison::Wildcard(around)
            }
            Relation::Usual | Relation::Exact if pieces.len() > 1 => Comparison::Wildcard(pieces),
            Relation::Different if pieces.len() > 1 => Comparison::NotWildcard(pieces),
            Relation::Usual | Relation::Exact | Relation::Any | Relation::All => Comparison::Equal(value()?),
            Relation::Different => Comparison::NotEqual(value()?),
            Relation::Less => Comparison::Range { low: None, high: Some((value()?, false)) },
            Relation::LessOrEqual => Comparison::Range { low: None, high: Some((value()?, true)) },
            Relation::Greater => Comparison::Range { low: Some((value()?, false)), high: None },
            Relation::GreaterOrEqual => Comparison::Range { low: Some((value()?, true)), high: None },
        })
    }
}

/// The words of a term as a search for a phrase, of which the last word may be only begun; `None` if a `*` stands elsewhere.
fn phrase(pieces: &[String]) -> Option<Result<WordSearch, WordSearchError>> {
    let (text, star) = match pieces {
        [text] => (text, ""),
        [text, last] if last.is_empty() => (text, "*"),
        _ => return None,
    };
    Some(WordSearch::parse(&format!("\"{}\"{star}", text.replace('"', " "))))
}

/// The pieces of a term between its `*`; a backslash before a character makes it plain.
fn pieces(term: &str) -> Result<Vec<String>, CqlDiagnostic> {
    let mut pieces = vec![String::new()];
    let mut characters = term.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => pieces.last_mut().into_iter().for_each(|piece| piece.extend(characters.next())),
            '*' => pieces.push(String::new()),
            '?' => return Err(CqlDiagnostic::new(28, "? stands for one character; use * for any")),
            '^' => return Err(CqlDiagnostic::new(31, "^")),
            other => pieces.last_mut().into_iter().for_each(|piece| piece.push(other)),
        }
    }
    Ok(pieces)
}
