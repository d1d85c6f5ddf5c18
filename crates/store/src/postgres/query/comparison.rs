//! Turns conditions into SQL in the form that an index supports.

use super::super::session::DbResult;
use super::super::tables::{INDEXED_CHARACTERS, index_expression, quoted_name};
use super::super::words_index::{words_query, words_vector};
use super::columns::ColumnInfo;
use super::parameters::{Parameters, QueryParameter};
use crate::StoreError;
use crate::plan::Comparison;
use crate::sql::during::{during_bounds, during_sql};
use crate::sql::linked::no_statement;
use crate::sql::pattern::{self, MAX_PATTERN};
use stook_catalogue::value::{FieldType, Geometry, Value};

/// Returns the beginning of a text that an index contains.
pub fn indexed_prefix(text: &str) -> String {
    text.chars().take(INDEXED_CHARACTERS).collect()
}

/// Whether comparing with a text of this length by the indexed beginnings decides the comparison.
pub fn is_complete_in_index(indexed_prefix: &str) -> bool {
    indexed_prefix.chars().count() < INDEXED_CHARACTERS
}

/// A comparison of `sql`: the column in the form that is compared, or an element of a list.
pub struct ComparisonSql<'a> {
    pub sql: &'a str,
    pub column: &'a ColumnInfo,
    /// The expression that its index contains: conditions include what follows for it.
    pub index_expression: Option<String>,
    /// Whether its trigrams are indexed.
    pub contains: bool,
    pub parameters: &'a mut Parameters,
}

impl ComparisonSql<'_> {
    fn compare(&mut self, operator: &str, wanted: &Value) -> String {
        match self.column.folded(wanted) {
            Value::Text(text) => self.compare_text(operator, &text),
            wanted => format!("{} {operator} {}", self.sql, self.parameters.value(wanted, self.column.ty.element())),
        }
    }

    fn prefix_comparison(&mut self, prefix: &str) -> String {
        let low = self.compare_text(">=", prefix);
        match pattern::after_prefix(prefix) {
            Some(end) => format!("{low} AND {}", self.compare_text("<", &end)),
            None => low,
        }
    }

    /// Compares with a bound that is folded already.
    fn compare_text(&mut self, operator: &str, bound: &str) -> String {
        let Some(index_expression) = &self.index_expression else {
            return format!("{} {operator} {}", self.sql, self.parameters.text(bound.to_owned()));
        };
        let prefix = indexed_prefix(bound);
        if is_complete_in_index(&prefix) {
            return format!("{index_expression} {operator} {}", self.parameters.text(prefix));
        }
        // if two texts are ordered, their beginnings are ordered or equal
        let loose_operator = match operator {
            "<" => "<=",
            ">" => ">=",
            other => other,
        };
        let prefix = self.parameters.text(prefix);
        format!("{index_expression} {loose_operator} {prefix} AND {} {operator} {}", self.sql, self.parameters.text(bound.to_owned()))
    }

    fn trigram_condition(&mut self, pieces: &[String]) -> Option<String> {
        let wanted = if self.contains { pattern::trigrams(pieces) } else { Vec::new() };
        if wanted.is_empty() {
            return None;
        }
        Some(format!("trigrams({}) @> {}", self.sql, self.parameters.push(QueryParameter::Texts(wanted), "text[]")))
    }

    fn pattern_comparison(&mut self, pieces: &[String]) -> DbResult<String> {
        let mut parts = Vec::new();
        if let Some(prefix) = pieces.first().filter(|prefix| !prefix.is_empty()) {
            parts.push(self.prefix_comparison(prefix));
        }
        parts.extend(self.trigram_condition(pieces));
        let escape = |piece: &String| {
            piece.chars().fold(String::new(), |mut pattern, character| {
                if matches!(character, '%' | '_' | '\\') {
                    pattern.push('\\');
                }
                pattern.push(character);
                pattern
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
    fn ranges_comparison(&mut self, test: &Comparison) -> DbResult<String> {
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
    fn boxes_overlap(&mut self, wanted: &Geometry) -> String {
        let box_column = quoted_name(&["b", &self.column.name]);
        let overlaps = wanted.reach().search_boxes().into_iter().map(|area| {
            let [west, south, east, north] =
                [area.west, area.south, area.east, area.north].map(|side| self.parameters.value(Value::float(side), &FieldType::Float));
            format!("r.{box_column} && box(point({east}, {north}), point({west}, {south}))")
        });
        format!("({})", overlaps.collect::<Vec<_>>().join(" OR "))
    }

    pub fn test(&mut self, test: &Comparison) -> DbResult<String> {
        if self.column.ty == FieldType::Ranges {
            return self.ranges_comparison(test);
        }
        let element = self.column.ty.element().clone();
        Ok(match test {
            Comparison::Wildcard(pieces) | Comparison::NotWildcard(pieces) if pieces.is_empty() => {
                return Err(StoreError::Wrong("a pattern has one piece at least".into()).into());
            }
            Comparison::Equal(wanted) => {
                let equal = self.compare("=", wanted);
                match (self.index_expression.is_none(), self.column.folded(wanted).as_text()) {
                    (true, Some(text)) => {
                        let pieces = [text.to_owned()];
                        self.trigram_condition(&pieces).map_or(equal.clone(), |trigrams| format!("{trigrams} AND {equal}"))
                    }
                    _ => equal,
                }
            }
            Comparison::NotEqual(wanted) => {
                let wanted = self.column.folded(wanted);
                format!("{} IS DISTINCT FROM {}", self.sql, self.parameters.value(wanted, &element))
            }
            Comparison::In(wanted) => {
                let wanted: Vec<Value> = wanted.iter().map(|wanted| self.column.folded(wanted)).collect();
                let beginnings: Vec<String> = wanted.iter().filter_map(|value| Some(indexed_prefix(value.as_text()?))).collect();
                let list = FieldType::List(Box::new(element));
                let condition = format!("{} = ANY({})", self.sql, self.parameters.value(Value::List(wanted), &list));
                match &self.index_expression {
                    Some(index_expression) if matches!(list.element(), FieldType::Text) => {
                        format!("{index_expression} = ANY({}) AND {condition}", self.parameters.push(QueryParameter::Texts(beginnings), "text[]"))
                    }
                    _ => condition,
                }
            }
            Comparison::Among(_) | Comparison::NotAmong(_) => {
                let values = self.column.among.as_ref().ok_or_else(|| no_statement(&self.column.name))?;
                match (test, &self.index_expression) {
                    (Comparison::Among(_), Some(expression)) => {
                        let indexed = index_expression("q.v", &element);
                        format!("({expression}, {}) IN (SELECT {indexed}, q.v FROM ({values}) AS q)", self.sql)
                    }
                    (Comparison::Among(_), None) => format!("{} IN (SELECT q.v FROM ({values}) AS q)", self.sql),
                    _ => format!("({0} IS NULL OR NOT {0} IN (SELECT q.v FROM ({values}) AS q))", self.sql),
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
                let pieces = self.column.fold_pattern(&[prefix.clone(), String::new()]);
                let begins = self.prefix_comparison(&pieces[0]);
                match self.index_expression.is_none().then(|| self.trigram_condition(&pieces)).flatten() {
                    Some(trigrams) => format!("{trigrams} AND {begins}"),
                    None => begins,
                }
            }
            Comparison::Wildcard(pieces) => {
                let pieces = self.column.fold_pattern(pieces);
                self.pattern_comparison(&pieces)?
            }
            Comparison::NotWildcard(pieces) => {
                let pieces = self.column.fold_pattern(pieces);
                let matches = self.pattern_comparison(&pieces)?;
                format!("({} IS NULL OR NOT ({matches}))", self.sql)
            }
            Comparison::Exists(_) => format!("{} IS NOT NULL", self.sql),
            Comparison::During(days) => {
                let bounds = during_bounds(*days).map(|bound| self.parameters.value(Value::Int(bound), &FieldType::PartialDate));
                during_sql(self.sql, bounds.each_ref().map(String::as_str))
            }
            // the relation is decided elsewhere, see [`crate::sql::geometry_filter`]
            Comparison::Related(_, wanted) if self.column.index.intersects => self.boxes_overlap(wanted),
            Comparison::Related(..) => format!("{} IS NOT NULL", self.sql),
            Comparison::Words(search) => {
                let kept = self.column.kept_words()?;
                let mut parts = vec![format!("{} @@ {}::tsquery", words_vector(&kept), self.parameters.text(words_query(search)))];
                parts.extend(search.terms().iter().map(|term| format!("strpos({kept}, {}) > 0", self.parameters.text(term.needle()))));
                parts.join(" AND ")
            }
        })
    }
}
