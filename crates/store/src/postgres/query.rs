//! Plans to SQL. PostgreSQL's planner chooses among the indexes; every condition is said in the form an index answers.

use super::session::{DatabaseError, DbResult, Session, SqlParameter};
use super::tables::{INDEXED, indexed, name};
use super::values::{BoundValue, RowExt, bare_type, column_type, read};
use crate::StoreError;
use crate::damage::Damage;
use crate::pattern::{self, MAX_PATTERN, fold_pieces};
use crate::plan::{Aggregate, AggregateFunction, Comparison, PlanColumn, QueryPlan, link_of, mean_of, member, middle_of, structs};
use ::tokio_postgres::types::ToSql;
use stook_catalogue::definition::{Catalogue, Collection, Field, FieldIndexes};
use stook_catalogue::fold::fold;
use stook_catalogue::value::{FieldType, StructMember, Value};

/// A parameter of a query, owned.
#[derive(Debug)]
enum QueryParameter {
    Number(i64),
    Text(String),
    Texts(Vec<String>),
    Value(Value),
}

/// Parameters as they are collected; `$n` stands for the n-th.
#[derive(Default)]
struct Parameters(Vec<QueryParameter>);

impl Parameters {
    fn push(&mut self, given: QueryParameter, ty: &str) -> String {
        self.0.push(given);
        format!("${}::{ty}", self.0.len())
    }

    fn value(&mut self, value: Value, ty: &FieldType) -> String {
        self.push(QueryParameter::Value(value), &bare_type(ty))
    }

    fn text(&mut self, text: String) -> String {
        self.push(QueryParameter::Text(text), "text")
    }

    /// Runs `ask` with what PostgreSQL's client takes.
    fn with<T>(&self, ask: impl FnOnce(&[SqlParameter<'_>]) -> T) -> T {
        let boxed: Vec<Box<dyn ToSql + Sync + '_>> = self
            .0
            .iter()
            .map(|given| -> Box<dyn ToSql + Sync + '_> {
                match given {
                    QueryParameter::Number(number) => Box::new(*number),
                    QueryParameter::Text(text) => Box::new(text.as_str()),
                    QueryParameter::Texts(texts) => Box::new(texts),
                    QueryParameter::Value(value) => Box::new(BoundValue(value)),
                }
            })
            .collect();
        let parameters: Vec<SqlParameter<'_>> = boxed.iter().map(|parameter| &**parameter).collect();
        ask(&parameters)
    }
}

/// What the builder knows of a column.
struct ColumnInfo {
    /// As SQL, for values.
    sql: String,
    /// As SQL, for comparisons and order: the folded form where there is one.
    compared: String,
    ty: FieldType,
    fold: bool,
    index: FieldIndexes,
    name: String,
    /// The number of the collection's tags, where it is those.
    tags: Option<u32>,
}

fn known(catalogue: &Catalogue, collection: &Collection, each: Option<usize>, column: PlanColumn) -> DbResult<ColumnInfo> {
    let plain = |sql: &str, ty: FieldType| {
        let (sql, compared, name) = (sql.to_owned(), sql.to_owned(), sql.to_owned());
        ColumnInfo { sql: format!("r.{sql}"), compared: format!("r.{compared}"), ty, fold: false, index: FieldIndexes::default(), name, tags: None }
    };
    match column {
        PlanColumn::Key => Ok(plain("key", FieldType::Text)),
        PlanColumn::Revision => Ok(plain("revision", FieldType::Integer)),
        PlanColumn::Conflict => Ok(plain("conflict", FieldType::List(Box::new(FieldType::Text)))),
        PlanColumn::Tag => {
            let tags = collection.tags.as_ref().ok_or_else(|| StoreError::Wrong("the records of this collection carry no tags".into()))?;
            let own = format!("t.tenant = r.tenant AND t.collection = {} AND t.key = r.key", tags.id);
            let sql = format!("(SELECT array_agg(t.value ORDER BY t.value) FROM tagged t WHERE {own})");
            let (ty, index) = (FieldType::List(Box::new(FieldType::Text)), FieldIndexes { ordered: true, ..FieldIndexes::default() });
            Ok(ColumnInfo { compared: sql.clone(), sql, ty, fold: false, index, name: "tag".into(), tags: Some(tags.id) })
        }
        PlanColumn::Field(index) => {
            let field = collection.fields.get(index).ok_or_else(|| StoreError::Wrong("there is no such field".into()))?;
            let sql = match collection.member(index) {
                Some((list, member)) => in_structs(&name(&["f", &collection.fields[list].name]), member),
                None => format!("r.{}", name(&["f", &field.name])),
            };
            let ty = field.golden_type().clone();
            let compared = if field.fold && !ty.is_list() { format!("r.{}", name(&["x", &field.name])) } else { sql.clone() };
            Ok(ColumnInfo { sql, compared, ty, fold: field.fold, index: field.index, name: field.name.clone(), tags: None })
        }
        PlanColumn::Element(index) => {
            let member = member(collection, each, index)?;
            let value = format!("(el.value::jsonb ->> '{}')", member.name);
            // text is collated by the column's rule wherever it stands
            let sql = format!("{value}::{}", column_type(&member.ty));
            let ty = member.ty.clone();
            Ok(ColumnInfo { compared: sql.clone(), sql, ty, fold: false, index: FieldIndexes::default(), name: member.name.clone(), tags: None })
        }
        PlanColumn::TargetsExist(index) => {
            let link = link_of(catalogue, collection, index)?;
            let (to, field) = (name(&["r", &catalogue.collections[link.target_collection].name]), name(&["f", &collection.fields[link.field].name]));
            let exists = |key: &str| format!("EXISTS (SELECT 1 FROM {to} lt WHERE lt.tenant = r.tenant AND lt.key = {key} AND lt.alive)");
            let all = match link.many {
                false => exists(&format!("r.{field}")),
                true => format!("NOT EXISTS (SELECT 1 FROM unnest(r.{field}) AS le(value) WHERE NOT {})", exists("le.value")),
            };
            let sql = format!("(CASE WHEN r.{field} IS NOT NULL THEN {all} END)");
            let (ty, name) = (FieldType::Boolean, format!("{}.exists", link.name));
            Ok(ColumnInfo { compared: sql.clone(), sql, ty, fold: false, index: FieldIndexes::default(), name, tags: None })
        }
        PlanColumn::State(index) => {
            let state = collection.states.get(index).ok_or_else(|| StoreError::Wrong("there is no such state field".into()))?;
            let sql = format!("r.{}", name(&["s", &state.name]));
            // state fields have no side tables
            let index = FieldIndexes { ordered: state.index.ordered && !state.ty.is_list(), ..FieldIndexes::default() };
            Ok(ColumnInfo { compared: sql.clone(), sql, ty: state.ty.clone(), fold: false, index, name: state.name.clone(), tags: None })
        }
    }
}

impl ColumnInfo {
    fn folded(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) if self.fold => Value::text(fold(text)),
            other => other.clone(),
        }
    }

    /// Whether an index finds the records that satisfy a condition.
    fn finds(&self, test: &Comparison) -> bool {
        let ordered = self.index.ordered || self.name == "key";
        let contained = |pieces: &[String]| self.index.contains && !pattern::trigrams(&self.pieces(pieces)).is_empty();
        match test {
            Comparison::Equal(wanted) => ordered || wanted.as_text().is_some_and(|text| contained(&[text.to_owned()])),
            Comparison::Prefix(prefix) => ordered || contained(std::slice::from_ref(prefix)),
            Comparison::In(_) => ordered,
            Comparison::Range { low, high } => ordered && (low.is_some() || high.is_some()),
            Comparison::Wildcard(pieces) => (ordered && pieces.first().is_some_and(|first| !first.is_empty())) || contained(pieces),
            Comparison::NotEqual(_) | Comparison::NotWildcard(_) | Comparison::Exists(_) => false,
        }
    }

    fn pieces(&self, pieces: &[String]) -> Vec<String> {
        if self.fold { fold_pieces(pieces) } else { pieces.to_vec() }
    }
}

/// What an index holds of a text.
fn beginning(text: &str) -> String {
    text.chars().take(INDEXED).collect()
}

/// Whether comparing with what an index holds of texts compares the texts: what differs, or ends, does so within that.
fn decides(beginning: &str) -> bool {
    beginning.chars().count() < INDEXED
}

/// A comparison of `sql`: the column in the form that is compared, or an element of a list.
struct ComparisonSql<'a> {
    sql: &'a str,
    known: &'a ColumnInfo,
    /// What its index holds of it: conditions say what follows for that, too.
    held: Option<String>,
    /// Whether its trigrams are indexed.
    contains: bool,
    parameters: &'a mut Parameters,
}

impl ComparisonSql<'_> {
    fn compare(&mut self, operator: &str, wanted: &Value) -> String {
        match self.known.folded(wanted) {
            Value::Text(text) => self.bound(operator, &text),
            wanted => format!("{} {operator} {}", self.sql, self.parameters.value(wanted, self.known.ty.element())),
        }
    }

    fn begins(&mut self, prefix: &str) -> String {
        let low = self.bound(">=", prefix);
        match pattern::behind(prefix) {
            Some(behind) => format!("{low} AND {}", self.bound("<", &behind)),
            None => low,
        }
    }

    /// A bound that is folded already.
    fn bound(&mut self, operator: &str, bound: &str) -> String {
        let Some(held) = &self.held else { return format!("{} {operator} {}", self.sql, self.parameters.text(bound.to_owned())) };
        let beginning = beginning(bound);
        if decides(&beginning) {
            return format!("{held} {operator} {}", self.parameters.text(beginning));
        }
        // the first characters of an ordered pair are ordered, or equal
        let loose = match operator {
            "<" => "<=",
            ">" => ">=",
            other => other,
        };
        let beginning = self.parameters.text(beginning);
        format!("{held} {loose} {beginning} AND {} {operator} {}", self.sql, self.parameters.text(bound.to_owned()))
    }

    fn trigrams(&mut self, pieces: &[String]) -> Option<String> {
        let wanted = if self.contains { pattern::trigrams(pieces) } else { Vec::new() };
        if wanted.is_empty() {
            return None;
        }
        Some(format!("trigrams({}) @> {}", self.sql, self.parameters.push(QueryParameter::Texts(wanted), "text[]")))
    }

    fn matches(&mut self, pieces: &[String]) -> DbResult<String> {
        let mut parts = Vec::new();
        if let Some(beginning) = pieces.first().filter(|beginning| !beginning.is_empty()) {
            parts.push(self.begins(beginning));
        }
        parts.extend(self.trigrams(pieces));
        let escape = |piece: &String| {
            piece.chars().fold(String::new(), |mut out, character| {
                if matches!(character, '%' | '_' | '\\') {
                    out.push('\\');
                }
                out.push(character);
                out
            })
        };
        // the same limit as in the embedded store, which writes its special characters with three bytes
        let length =
            pieces.iter().map(|piece| piece.len() + 2 * piece.matches(['*', '?', '[']).count()).sum::<usize>() + pieces.len().saturating_sub(1);
        if length > MAX_PATTERN {
            return Err(StoreError::Wrong(format!("a pattern has at most {MAX_PATTERN} bytes, this one has {length}")).into());
        }
        let like = self.parameters.text(pieces.iter().map(escape).collect::<Vec<_>>().join("%"));
        parts.push(format!("{} LIKE {like}", self.sql));
        Ok(parts.join(" AND "))
    }

    /// A test of a column that holds ranges.
    fn in_ranges(&mut self, test: &Comparison) -> DbResult<String> {
        let windows = test.windows().ok_or_else(|| StoreError::Wrong("ranges are compared with integers".into()))?;
        let windows: Vec<[i64; 2]> = windows.into_iter().map(|(low, high)| [low, high]).collect();
        let windows = self.parameters.text(serde_json::json!(windows).to_string());
        let negation = if matches!(test, Comparison::NotEqual(_)) { "NOT " } else { "" };
        Ok(format!(
            "{negation}EXISTS (SELECT 1 FROM jsonb_array_elements({}::jsonb) AS g(v), jsonb_array_elements({windows}::jsonb) AS w(v) \
             WHERE (g.v ->> 0)::bigint <= (w.v ->> 1)::bigint AND (g.v ->> 1)::bigint >= (w.v ->> 0)::bigint)",
            self.sql
        ))
    }

    fn test(&mut self, test: &Comparison) -> DbResult<String> {
        if self.known.ty == FieldType::Ranges {
            return self.in_ranges(test);
        }
        let element = self.known.ty.element().clone();
        Ok(match test {
            Comparison::Wildcard(pieces) | Comparison::NotWildcard(pieces) if pieces.is_empty() => {
                return Err(StoreError::Wrong("a pattern has one piece at least".into()).into());
            }
            Comparison::Equal(wanted) => {
                let equal = self.compare("=", wanted);
                match (self.held.is_none(), self.known.folded(wanted).as_text()) {
                    (true, Some(text)) => {
                        let pieces = [text.to_owned()];
                        self.trigrams(&pieces).map_or(equal.clone(), |trigrams| format!("{trigrams} AND {equal}"))
                    }
                    _ => equal,
                }
            }
            Comparison::NotEqual(wanted) => {
                let wanted = self.known.folded(wanted);
                format!("{} IS DISTINCT FROM {}", self.sql, self.parameters.value(wanted, &element))
            }
            Comparison::In(wanted) => {
                let wanted: Vec<Value> = wanted.iter().map(|wanted| self.known.folded(wanted)).collect();
                let beginnings: Vec<String> = wanted.iter().filter_map(|value| Some(beginning(value.as_text()?))).collect();
                let list = FieldType::List(Box::new(element));
                let condition = format!("{} = ANY({})", self.sql, self.parameters.value(Value::List(wanted), &list));
                match &self.held {
                    Some(held) if matches!(list.element(), FieldType::Text) => {
                        format!("{held} = ANY({}) AND {condition}", self.parameters.push(QueryParameter::Texts(beginnings), "text[]"))
                    }
                    _ => condition,
                }
            }
            Comparison::Range { low, high } => {
                let mut parts = Vec::new();
                for (bound, strict, inclusive) in [(low, ">", ">="), (high, "<", "<=")] {
                    if let Some((wanted, included)) = bound {
                        parts.push(self.compare(if *included { inclusive } else { strict }, wanted));
                    }
                }
                if parts.is_empty() { format!("{} IS NOT NULL", self.sql) } else { parts.join(" AND ") }
            }
            Comparison::Prefix(prefix) => {
                let pieces = self.known.pieces(&[prefix.clone(), String::new()]);
                let begins = self.begins(&pieces[0]);
                match self.held.is_none().then(|| self.trigrams(&pieces)).flatten() {
                    Some(trigrams) => format!("{trigrams} AND {begins}"),
                    None => begins,
                }
            }
            Comparison::Wildcard(pieces) => {
                let pieces = self.known.pieces(pieces);
                self.matches(&pieces)?
            }
            Comparison::NotWildcard(pieces) => {
                let pieces = self.known.pieces(pieces);
                let matches = self.matches(&pieces)?;
                format!("({} IS NULL OR NOT ({matches}))", self.sql)
            }
            Comparison::Exists(_) => format!("{} IS NOT NULL", self.sql),
        })
    }
}

struct SqlBuilder<'a> {
    catalogue: &'a Catalogue,
    collection: &'a Collection,
    tenant: i64,
    conditions: Vec<String>,
    parameters: Parameters,
    /// Whether an index finds the records, so that walking another one in the order that is asked for would be a mistake.
    is_indexed: bool,
    /// Whether nothing but what they are sorted by first finds them, so that its index is walked.
    is_ordered_scan: bool,
    /// The field that is the key, where the key's index is walked.
    key_field: Option<&'a str>,
    /// Whether who carries a tag is read in the order of keys, and records are looked up by that.
    is_tag_scan: bool,
    /// The structs that rows are of, read of each record.
    each: String,
    /// Where only the first records are looked at, what their keys have to be, and how many.
    first: Option<(String, u64)>,
    /// Whether texts are sorted by no more than an index holds of them.
    by_beginnings: bool,
}

/// Rows of a page that is read in the order of keys.
const SMALL_PAGE: u64 = 256;

impl<'a> SqlBuilder<'a> {
    fn new(catalogue: &'a Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<Self> {
        let collection = catalogue.collections.get(plan.collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
        let each = each(collection, plan.each)?;
        let mut builder = Self {
            catalogue,
            collection,
            tenant,
            conditions: Vec::new(),
            parameters: Parameters::default(),
            is_indexed: false,
            is_ordered_scan: false,
            key_field: None,
            is_tag_scan: false,
            each,
            first: None,
            by_beginnings: false,
        };
        let tenant = builder.parameters.push(QueryParameter::Number(tenant), "bigint");
        builder.conditions = vec![format!("r.tenant = {tenant}"), "r.alive".into()];
        let conditions: Vec<(ColumnInfo, &Comparison)> = plan
            .conditions
            .iter()
            .map(|condition| Ok((known(catalogue, collection, plan.each, condition.column)?, &condition.test)))
            .collect::<DbResult<_>>()?;
        let finds = |(known, test): &(ColumnInfo, &Comparison)| known.finds(test);
        builder.is_indexed = conditions.iter().any(finds);
        let first = known(catalogue, collection, plan.each, plan.sort.first().map_or(PlanColumn::Key, |sort| sort.column))?;
        // the field that is the key says the same once more; what stands inside of it is found better by that
        let key_field = collection.key_field().map(|index| collection.fields[index].name.as_str()).filter(|_| first.name == "key");
        let repeats = |(known, test): &(ColumnInfo, &Comparison)| {
            Some(known.name.as_str()) == key_field && !(known.index.contains && matches!(test, Comparison::Wildcard(_)))
        };
        let of_first = |condition: &(ColumnInfo, &Comparison)| condition.0.name == first.name || repeats(condition);
        builder.is_ordered_scan = !plan.distinct
            && !first.ty.is_list()
            && conditions.iter().any(|condition| condition.0.name == first.name && finds(condition))
            && conditions.iter().all(|condition| of_first(condition) || !finds(condition));
        builder.key_field = key_field.filter(|_| builder.is_ordered_scan);
        let is_page = plan.sort.is_empty() && !plan.distinct && plan.limit.is_some_and(|limit| limit.saturating_add(plan.offset) <= SMALL_PAGE);
        let of_tag = |(known, test): &(ColumnInfo, &Comparison)| known.tags.filter(|_| matches!(test, Comparison::Equal(_)));
        let streamed = conditions.iter().position(|condition| is_page && of_tag(condition).is_some());
        // one record at most cannot be beaten
        let by_key = |(known, test): &(ColumnInfo, &Comparison)| known.name == "key" && matches!(test, Comparison::Equal(_) | Comparison::In(_));
        let streamed = streamed.filter(|_| !conditions.iter().any(by_key));
        if let Some(place) = streamed
            && let (known, Comparison::Equal(wanted)) = &conditions[place]
        {
            builder.is_tag_scan = true;
            let value = builder.parameters.value(wanted.clone(), &FieldType::Text);
            let tags = known.tags.unwrap_or_default();
            builder.conditions.push(format!("t.tenant = {tenant} AND t.collection = {tags} AND t.value = {value}"));
            // the beginning of a page is found in the index of tags, too
            for (known, test) in conditions.iter().filter(|(known, _)| known.name == "key") {
                let condition = ComparisonSql { sql: "t.key", known, held: None, contains: false, parameters: &mut builder.parameters }.test(test)?;
                builder.conditions.push(condition);
            }
        }
        // elements of lists find records where nothing else does
        let mut by_elements = !conditions.iter().any(|condition| finds(condition) && !condition.0.ty.is_list());
        for (place, condition) in conditions.iter().enumerate() {
            if streamed == Some(place) {
                continue;
            }
            let drives = by_elements && finds(condition);
            by_elements &= !drives;
            builder.condition(condition.1, &condition.0, drives)?;
        }
        Ok(builder)
    }

    /// Adds a condition; one on an indexed list that `drives` is asked first, and records are looked up by what it finds.
    fn condition(&mut self, test: &Comparison, known: &ColumnInfo, drives: bool) -> DbResult<()> {
        if let Comparison::Exists(wanted) = test {
            self.conditions.push(format!("{} IS {}NULL", known.sql, if *wanted { "NOT " } else { "" }));
            return Ok(());
        }
        if !known.ty.is_list() {
            let sql = known.compared.clone();
            // where the key finds them, no other index is to be preferred
            let is_repeated = Some(known.name.as_str()) == self.key_field;
            let held = (known.index.ordered && known.ty == FieldType::Text && !is_repeated).then(|| indexed(&sql, &known.ty));
            let contains = known.index.contains && !is_repeated;
            let condition = ComparisonSql { sql: &sql, known, held, contains, parameters: &mut self.parameters }.test(test)?;
            self.conditions.push(condition);
            return Ok(());
        }
        // a list: some element satisfies it; negations: none satisfies the positive form
        let (test, negation) = match test {
            Comparison::NotEqual(value) => (&Comparison::Equal(value.clone()), "NOT "),
            Comparison::NotWildcard(pieces) => (&Comparison::Wildcard(pieces.clone()), "NOT "),
            other => (other, ""),
        };
        if known.sql == "r.conflict" && negation.is_empty() {
            // most records have none: an index has the others
            self.conditions.push("r.conflict IS NOT NULL".into());
        }
        if known.index.ordered {
            // the index of tags holds them whole
            let held = (known.ty.element() == &FieldType::Text && known.tags.is_none()).then(|| indexed("i.value", known.ty.element()));
            let tenant = self.parameters.push(QueryParameter::Number(self.tenant), "bigint");
            let tenant = known.tags.map_or(tenant.clone(), |tags| format!("{tenant} AND i.collection = {tags}"));
            let inner = ComparisonSql { sql: "i.value", known, held, contains: false, parameters: &mut self.parameters }.test(test)?;
            let side = if known.tags.is_some() { "tagged".to_owned() } else { name(&["i", &self.collection.name, &known.name]) };
            self.conditions.push(if drives {
                format!("r.key = ANY(ARRAY(SELECT i.key FROM {side} i WHERE i.tenant = {tenant} AND {inner}))")
            } else if negation.is_empty() {
                format!("r.key IN (SELECT i.key FROM {side} i WHERE i.tenant = {tenant} AND {inner})")
            } else {
                format!("NOT EXISTS (SELECT 1 FROM {side} i WHERE i.tenant = {tenant} AND i.key = r.key AND {inner})")
            });
        } else {
            let inner = ComparisonSql { sql: "e.value", known, held: None, contains: false, parameters: &mut self.parameters }.test(test)?;
            self.conditions.push(format!("{negation}EXISTS (SELECT 1 FROM unnest({}) AS e(value) WHERE {inner})", known.sql));
        }
        Ok(())
    }

    /// Among the first records in the order of keys, where every condition is one on the record itself.
    fn among_first(mut self, plan: &QueryPlan, records: u64) -> DbResult<Self> {
        let mut first = vec!["r.tenant = $1".to_owned()];
        for condition in plan.conditions.iter().filter(|condition| condition.column == PlanColumn::Key) {
            let known = known(self.catalogue, self.collection, None, PlanColumn::Key)?;
            let mut key = ComparisonSql { sql: "r.key", known: &known, held: None, contains: false, parameters: &mut self.parameters };
            first.push(key.test(&condition.test)?);
        }
        self.first = Some((first.join(" AND "), records));
        Ok(self)
    }

    fn from(&self) -> String {
        let (table, conditions, each) = (name(&["r", &self.collection.name]), self.conditions.join(" AND "), &self.each);
        if let Some((first, records)) = &self.first {
            return format!("(SELECT * FROM {table} r WHERE {first} ORDER BY r.key LIMIT {records}) AS r WHERE {conditions}");
        }
        match self.is_tag_scan {
            true => format!(
                "tagged t CROSS JOIN LATERAL (SELECT * FROM {table} o WHERE o.tenant = t.tenant AND o.key = t.key OFFSET 0) AS r{each} WHERE {conditions}"
            ),
            false => format!("{table} r{each} WHERE {conditions}"),
        }
    }
}

/// The values of a member of the structs in a list, as a list is stored; of ranges all of them.
fn in_structs(list: &str, member: &StructMember) -> String {
    let from = format!("unnest(r.{list}) WITH ORDINALITY AS m(value, place)");
    match member.ty {
        FieldType::Ranges => format!(
            "(SELECT jsonb_agg(g.v ORDER BY m.place, g.place)::text COLLATE \"C\" FROM {from}, \
             jsonb_array_elements(m.value::jsonb -> '{}') WITH ORDINALITY AS g(v, place))",
            member.name
        ),
        _ => {
            let value = format!("(m.value::jsonb ->> '{}')", member.name);
            format!("(SELECT array_agg({value}::{} ORDER BY m.place) FROM {from} WHERE {value} IS NOT NULL)", column_type(&member.ty))
        }
    }
}

/// What is read beside each record for rows that are of structs.
fn each(collection: &Collection, field: Option<usize>) -> DbResult<String> {
    let unnested = |list: &Field| format!(" CROSS JOIN LATERAL unnest(r.{}) WITH ORDINALITY AS el(value, place)", name(&["f", &list.name]));
    Ok(structs(collection, field)?.map_or(String::new(), unnested))
}

/// A column to sort by; `hidden` from the planner, which would otherwise walk its index and hope to meet records soon.
fn in_order(column: &str, hidden: bool) -> String {
    if hidden { format!("(SELECT {column})") } else { column.to_owned() }
}

fn rows_statement(catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<(String, Parameters)> {
    rows_of(SqlBuilder::new(catalogue, tenant, plan)?, plan)
}

fn rows_of(builder: SqlBuilder<'_>, plan: &QueryPlan) -> DbResult<(String, Parameters)> {
    let columns: Vec<ColumnInfo> =
        plan.columns.iter().map(|column| known(builder.catalogue, builder.collection, plan.each, *column)).collect::<DbResult<_>>()?;
    let mut selected: Vec<String> = columns.iter().map(|column| column.sql.clone()).collect();
    if selected.is_empty() {
        // rows without columns can be counted; distinct ones are grouped by at least one
        selected.push("r.alive".into());
    }
    let (mut order, mut sorted): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let hidden = builder.is_indexed && !builder.is_ordered_scan && builder.first.is_none();
    for sort in &plan.sort {
        let column = known(builder.catalogue, builder.collection, plan.each, sort.column)?;
        let held = (column.index.ordered && column.ty == FieldType::Text).then(|| indexed(&column.compared, &column.ty));
        let direction = if sort.descending { " DESC NULLS LAST" } else { " ASC NULLS FIRST" };
        order.extend(held.filter(|_| !plan.distinct && !hidden).map(|held| format!("{held} COLLATE \"C\"{direction}")));
        if !builder.by_beginnings {
            order.push(format!("{}{direction}", in_order(&column.compared, hidden && !plan.distinct)));
        }
        sorted.push(column.compared);
    }
    let from = builder.from();
    let mut sql = if plan.distinct {
        // lists have no order of their own: as in the embedded store, that of their text
        let in_order = |(column, known): (&String, &ColumnInfo)| match known.ty {
            FieldType::List(_) => format!("array_to_json({column})::text COLLATE \"C\" NULLS FIRST"),
            _ => format!("{column} NULLS FIRST"),
        };
        order.extend(selected.iter().zip(&columns).map(in_order));
        // a sort column may be folded, which is not selected
        let grouped: Vec<String> = selected.iter().cloned().chain(sorted).collect();
        format!("SELECT {} FROM {from} GROUP BY {}", selected.join(", "), grouped.join(", "))
    } else {
        if !plan.any_order {
            order.push(if builder.is_tag_scan { "t.key".to_owned() } else { in_order("r.key", hidden) });
            order.extend(plan.each.map(|_| "el.place".to_owned()));
        }
        format!("SELECT {} FROM {from}", selected.join(", "))
    };
    if !order.is_empty() {
        sql.push_str(&format!(" ORDER BY {}", order.join(", ")));
    }
    let mut parameters = builder.parameters;
    // some servers add the two up
    let bounded = |rows: u64| QueryParameter::Number(rows.min(i64::MAX as u64 / 4) as i64);
    if let Some(limit) = plan.limit {
        let limit = parameters.push(bounded(limit), "bigint");
        sql.push_str(&format!(" LIMIT {limit}"));
    }
    if plan.offset > 0 {
        let offset = parameters.push(bounded(plan.offset), "bigint");
        sql.push_str(&format!(" OFFSET {offset}"));
    }
    Ok((sql, parameters))
}

pub fn visit(
    session: &mut Session,
    catalogue: &Catalogue,
    tenant: i64,
    plan: &QueryPlan,
    visit: &mut dyn FnMut(Vec<Value>) -> crate::Result<()>,
) -> DbResult<()> {
    if let Some(rows) = smallest(session, catalogue, tenant, plan)? {
        return Ok(rows.into_iter().try_for_each(visit)?);
    }
    let builder = SqlBuilder::new(catalogue, tenant, plan)?;
    if may_glance(&builder, plan)?
        && let Some(rows) = glance(session, catalogue, tenant, plan)?
    {
        return Ok(rows.into_iter().try_for_each(visit)?);
    }
    read_rows(session, catalogue, plan, rows_of(builder, plan)?, visit)
}

/// Any one of the records with the smallest text in a column. The beginnings that an index holds nearly always tell which that is; sorting
/// those with the same one by all of the text would read them all. Nothing where they do not tell, or the plan is for something else.
fn smallest(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<Option<Vec<Vec<Value>>>> {
    let [sort] = plan.sort.as_slice() else { return Ok(None) };
    let is_one = plan.limit == Some(1) && plan.offset == 0 && plan.any_order && !plan.distinct && plan.each.is_none();
    let Some(place) = plan.columns.iter().position(|column| *column == sort.column).filter(|_| is_one) else { return Ok(None) };
    let builder = SqlBuilder::new(catalogue, tenant, plan)?;
    let column = known(builder.catalogue, builder.collection, None, sort.column)?;
    if !builder.is_ordered_scan || !column.index.ordered || column.ty != FieldType::Text {
        return Ok(None);
    }
    let rows = collected(session, catalogue, plan, SqlBuilder { by_beginnings: true, ..builder })?;
    let is_decided = rows.iter().all(|row| column.folded(&row[place]).as_text().is_none_or(decides));
    Ok(Some(rows).filter(|_| is_decided))
}

fn collected(session: &mut Session, catalogue: &Catalogue, plan: &QueryPlan, builder: SqlBuilder<'_>) -> DbResult<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    read_rows(session, catalogue, plan, rows_of(builder, plan)?, &mut |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

fn read_rows(
    session: &mut Session,
    catalogue: &Catalogue,
    plan: &QueryPlan,
    (sql, parameters): (String, Parameters),
    visit: &mut dyn FnMut(Vec<Value>) -> crate::Result<()>,
) -> DbResult<()> {
    let collection = &catalogue.collections[plan.collection];
    let types: Vec<FieldType> =
        plan.columns.iter().map(|column| Ok(known(catalogue, collection, plan.each, *column)?.ty)).collect::<DbResult<_>>()?;
    parameters.with(|parameters| {
        session.visit(&sql, parameters, |row| {
            let mut values = Vec::with_capacity(types.len());
            for (index, ty) in types.iter().enumerate() {
                values.push(read(row, index, ty).map_err(|unfit| {
                    let column = known(catalogue, collection, plan.each, plan.columns[index]);
                    column.map_or_else(|trouble| trouble, |column| unreadable(collection, &column, &unfit))
                })?);
            }
            Ok(visit(values)?)
        })
    })
}

/// Most rows of a page that is looked for among the first records.
const GLANCED: u64 = 1_024;
/// Records that are looked at for it: a few, and more where those say that the page is likely to be among them.
const LOOKED_AT: [u64; 2] = [512, 8_192];

/// Whether the page is one in the order of keys of what an index finds: where that are very many records, the first ones are looked at
/// instead of finding all and sorting.
fn may_glance(builder: &SqlBuilder<'_>, plan: &QueryPlan) -> DbResult<bool> {
    let is_page = plan.limit.is_some_and(|limit| limit.saturating_add(plan.offset) <= GLANCED);
    let is_plain = plan.sort.is_empty() && !plan.distinct && !plan.any_order && plan.each.is_none();
    if !is_page || !is_plain || !builder.is_indexed || builder.is_ordered_scan || builder.is_tag_scan {
        return Ok(false);
    }
    for condition in &plan.conditions {
        // what lists have is found better in their own tables
        let is_list = known(builder.catalogue, builder.collection, None, condition.column)?.ty.is_list();
        let is_unique = matches!(condition.column, PlanColumn::Field(index) if builder.collection.fields[index].unique);
        if is_list || (is_unique && matches!(condition.test, Comparison::Equal(_))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A page among the first records in the order of keys, if it is there. What the planner expects to be found is no help: it may be a
/// thousand times too few for the beginnings of texts.
fn glance(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<Option<Vec<Vec<Value>>>> {
    let wanted = plan.offset + plan.limit.unwrap_or_default();
    let page = QueryPlan { offset: 0, limit: Some(wanted), ..plan.clone() };
    let [few, many] = LOOKED_AT;
    for records in LOOKED_AT {
        let first = SqlBuilder::new(catalogue, tenant, &page)?.among_first(&page, records)?;
        let mut rows = collected(session, catalogue, &page, first)?;
        let found = rows.len() as u64;
        if found == wanted {
            return Ok(Some(rows.split_off(plan.offset as usize)));
        }
        if found * (many / few) < wanted {
            break;
        }
    }
    Ok(None)
}

/// Says that a record that was found has no readable value in a column.
fn unreadable(collection: &Collection, column: &ColumnInfo, unfit: &str) -> DatabaseError {
    let row = format!("a record of `{}` that the query finds", collection.name);
    StoreError::Damaged(Damage::of_row(row, format!("`{}`: {unfit} (`stook check --deep` names the record)", column.name))).into()
}

/// A plan without its order and page.
fn all_rows(plan: &QueryPlan) -> QueryPlan {
    QueryPlan { sort: Vec::new(), offset: 0, limit: None, ..plan.clone() }
}

pub fn count(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan) -> DbResult<u64> {
    let plan = all_rows(plan);
    let (sql, parameters) = if plan.distinct {
        let (rows, parameters) = rows_statement(catalogue, tenant, &plan)?;
        (format!("SELECT count(*) FROM ({rows}) AS rows"), parameters)
    } else {
        let builder = SqlBuilder::new(catalogue, tenant, &plan)?;
        (format!("SELECT count(*) FROM {}", builder.from()), builder.parameters)
    };
    let row = parameters.with(|parameters| session.one(&sql, parameters))?;
    Ok(row.at::<i64>(0)? as u64)
}

/// One aggregate; its type is as in the embedded store.
pub fn aggregate(session: &mut Session, catalogue: &Catalogue, tenant: i64, plan: &QueryPlan, aggregate: Aggregate) -> DbResult<Value> {
    let plan = all_rows(plan);
    let builder = SqlBuilder::new(catalogue, tenant, &plan)?;
    let column = known(builder.catalogue, builder.collection, plan.each, aggregate.column)?;
    let rows = if plan.distinct {
        let Some(wanted) = plan.columns.iter().position(|other| *other == aggregate.column) else {
            return Err(StoreError::Wrong(format!("unique rows have no `{}`", column.name)).into());
        };
        let columns: Vec<ColumnInfo> =
            plan.columns.iter().map(|column| known(builder.catalogue, builder.collection, plan.each, *column)).collect::<DbResult<_>>()?;
        let name = |index: usize| if index == wanted { "v".to_owned() } else { format!("c{index}") };
        let selected: Vec<String> = columns.iter().enumerate().map(|(index, column)| format!("{} AS {}", column.sql, name(index))).collect();
        format!("SELECT DISTINCT {} FROM {}", selected.join(", "), builder.from())
    } else {
        format!("SELECT {} AS v FROM {}", column.sql, builder.from())
    };
    if column.ty == FieldType::Ranges {
        let sql = match aggregate.function {
            AggregateFunction::Count => "coalesce(sum((e.v ->> 1)::bigint - (e.v ->> 0)::bigint + 1), 0)::bigint",
            AggregateFunction::Min => "min((e.v ->> 0)::bigint)",
            AggregateFunction::Max => "max((e.v ->> 1)::bigint)",
            other => return Err(StoreError::Wrong(format!("ranges have no {}", other.name())).into()),
        };
        let sql = format!("SELECT {sql} FROM ({rows}) AS rows, jsonb_array_elements(rows.v::jsonb) AS e(v)");
        let row = builder.parameters.with(|parameters| session.one(&sql, parameters))?;
        return Ok(row.at::<Option<i64>>(0)?.map_or(Value::Null, Value::Int));
    }
    let values = if column.ty.is_list() {
        format!("SELECT e.v FROM ({rows}) AS rows, unnest(rows.v) AS e(v) WHERE e.v IS NOT NULL")
    } else {
        format!("SELECT v FROM ({rows}) AS rows WHERE v IS NOT NULL")
    };
    let element = column.ty.element().clone();
    let whole = element != FieldType::Float;
    let sql = match aggregate.function {
        AggregateFunction::Count => format!("SELECT count(*) FROM ({values}) AS present"),
        AggregateFunction::Min => format!("SELECT v FROM ({values}) AS present ORDER BY v LIMIT 1"),
        AggregateFunction::Max => format!("SELECT v FROM ({values}) AS present ORDER BY v DESC LIMIT 1"),
        // as text: a sum of 64-bit numbers has more than 64 bits on its way
        AggregateFunction::Sum | AggregateFunction::Avg if whole => format!("SELECT count(*), sum(v)::text FROM ({values}) AS present"),
        AggregateFunction::Sum | AggregateFunction::Avg => format!("SELECT count(*), sum(v) FROM ({values}) AS present"),
        AggregateFunction::Median => format!(
            "WITH present AS MATERIALIZED ({values}), size AS (SELECT count(*) AS n FROM present) \
             SELECT v FROM present ORDER BY v LIMIT 2 - (SELECT n % 2 FROM size) OFFSET greatest((SELECT (n - 1) / 2 FROM size), 0)"
        ),
    };
    let overflow = |trouble| match trouble {
        DatabaseError::Store(StoreError::Other(reason)) if !whole && reason.contains("out of range") => {
            StoreError::Wrong("the sum is too large for a float".into()).into()
        }
        other => other,
    };
    let found = builder.parameters.with(|parameters| session.query(&sql, parameters)).map_err(overflow)?;
    let Some(row) = found.first() else { return Ok(Value::Null) };
    match aggregate.function {
        AggregateFunction::Count => Ok(Value::Int(row.at(0)?)),
        AggregateFunction::Min | AggregateFunction::Max => read(row, 0, &element).map_err(|unfit| unreadable(builder.collection, &column, &unfit)),
        AggregateFunction::Sum | AggregateFunction::Avg => {
            let (count, mean) = (row.at::<i64>(0)?, aggregate.function == AggregateFunction::Avg);
            if count == 0 {
                return Ok(Value::Null);
            }
            if !whole {
                let sum = row.at::<Option<f64>>(1)?.filter(|sum| sum.is_finite());
                let sum = sum.ok_or_else(|| StoreError::Wrong("the sum is too large for a float".into()))?;
                return Ok(Value::Float(if mean { sum / count as f64 } else { sum }));
            }
            let sum: i128 = match row.at::<Option<&str>>(1)? {
                Some(sum) => sum.parse().map_err(|_| StoreError::Other(format!("a sum is no number: {sum:?}")))?,
                None => 0,
            };
            if mean {
                return Ok(mean_of(sum, i128::from(count), &column.ty));
            }
            i64::try_from(sum).map(Value::Int).map_err(|_| StoreError::Wrong("the sum does not fit 64 bits".into()).into())
        }
        AggregateFunction::Median => {
            let low = read(row, 0, &element).map_err(|unfit| unreadable(builder.collection, &column, &unfit))?;
            let high = found.last().map_or(Ok(Value::Null), |row| read(row, 0, &element));
            let high = high.map_err(|unfit| unreadable(builder.collection, &column, &unfit))?;
            Ok(middle_of(&low, &high, &column.ty))
        }
    }
}

/// Records among which the server may rather read all than look them up.
const FEW: i64 = 1_000;

pub fn explain(session: &mut Session, catalogue: &Catalogue, plan: &QueryPlan) -> DbResult<Vec<String>> {
    let (sql, parameters) = rows_statement(catalogue, 1, plan)?;
    let mut steps: Vec<String> = Vec::new();
    parameters.with(|parameters| {
        session.visit(&format!("EXPLAIN (COSTS OFF) {sql}"), parameters, |row| {
            steps.push(row.at(0)?);
            Ok(())
        })
    })?;
    let all = steps.iter().any(|step| step.contains("Seq Scan on r_")) || steps.windows(2).any(|pair| reads_a_tenant(&pair[0], &pair[1]));
    let collection = &catalogue.collections[plan.collection];
    let rows = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass($1)";
    let few = session.one(rows, &[&name(&["r", &collection.name])])?.at::<i64>(0)? < FEW;
    let mut lines = vec![match (all, SqlBuilder::new(catalogue, 1, plan)?.is_indexed && few) {
        (true, true) => "scans all records because there are few; an index is available".to_owned(),
        (true, false) => "reads every record of the collection".to_owned(),
        (false, _) => "uses an index".to_owned(),
    }];
    lines.extend(steps);
    lines.push(sql);
    Ok(lines)
}

/// Whether an index of a record table is asked for nothing but the tenant.
fn reads_a_tenant(step: &str, condition: &str) -> bool {
    let of_records = step.contains(" on r_") || step.contains("Bitmap Index Scan on ");
    of_records && condition.trim().strip_prefix("Index Cond: (tenant = ").is_some_and(|rest| !rest.contains(" AND "))
}
