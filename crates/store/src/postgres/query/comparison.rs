//! Turns conditions into SQL in the form that an index supports.

use super::super::session::DbResult;
use super::super::tables::{INDEXED, name};
use super::columns::ColumnInfo;
use super::parameters::{Parameters, QueryParameter};
use crate::StoreError;
use crate::plan::Comparison;
use crate::sql::pattern::{self, MAX_PATTERN};
use stook_catalogue::value::{FieldType, Geometry, Value};

/// Returns the beginning of a text that an index contains.
pub fn beginning(text: &str) -> String {
    text.chars().take(INDEXED).collect()
}

/// Whether comparing with a text of this length by the indexed beginnings decides the comparison.
pub fn decides(beginning: &str) -> bool {
    beginning.chars().count() < INDEXED
}

/// A comparison of `sql`: the column in the form that is compared, or an element of a list.
pub struct ComparisonSql<'a> {
    pub sql: &'a str,
    pub known: &'a ColumnInfo,
    /// The expression that its index contains: conditions include what follows for it.
    pub held: Option<String>,
    /// Whether its trigrams are indexed.
    pub contains: bool,
    pub parameters: &'a mut Parameters,
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
        match pattern::after_prefix(prefix) {
            Some(behind) => format!("{low} AND {}", self.bound("<", &behind)),
            None => low,
        }
    }

    /// Compares with a bound that is folded already.
    fn bound(&mut self, operator: &str, bound: &str) -> String {
        let Some(held) = &self.held else { return format!("{} {operator} {}", self.sql, self.parameters.text(bound.to_owned())) };
        let beginning = beginning(bound);
        if decides(&beginning) {
            return format!("{held} {operator} {}", self.parameters.text(beginning));
        }
        // if two texts are ordered, their beginnings are ordered or equal
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
        // the same limit as in SQLite, which writes special characters with three bytes
        let length =
            pieces.iter().map(|piece| piece.len() + 2 * piece.matches(['*', '?', '[']).count()).sum::<usize>() + pieces.len().saturating_sub(1);
        if length > MAX_PATTERN {
            return Err(StoreError::Wrong(format!("a pattern has at most {MAX_PATTERN} bytes, this one has {length}")).into());
        }
        let like = self.parameters.text(pieces.iter().map(escape).collect::<Vec<_>>().join("%"));
        parts.push(format!("{} LIKE {like}", self.sql));
        Ok(parts.join(" AND "))
    }

    /// Compares a column of ranges.
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

    /// Finds candidates by their bounding boxes.
    fn meets(&mut self, wanted: &Geometry) -> String {
        let own = name(&["b", &self.known.name]);
        let asked = wanted.reach().asked().into_iter().map(|asked| {
            let [west, south, east, north] =
                [asked.west, asked.south, asked.east, asked.north].map(|side| self.parameters.value(Value::float(side), &FieldType::Float));
            format!("r.{own} && box(point({east}, {north}), point({west}, {south}))")
        });
        format!("({})", asked.collect::<Vec<_>>().join(" OR "))
    }

    pub fn test(&mut self, test: &Comparison) -> DbResult<String> {
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
            // the relation is decided elsewhere, see [`crate::sql::lies`]
            Comparison::Lies(_, wanted) if self.known.index.intersects => self.meets(wanted),
            Comparison::Lies(..) => format!("{} IS NOT NULL", self.sql),
        })
    }
}
