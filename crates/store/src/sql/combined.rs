//! Combined conditions as SQL.

use crate::plan::{CombinedCondition, Condition};

/// How a database writes the two truth values.
pub struct TruthValues {
    pub yes: &'static str,
    pub no: &'static str,
}

/// Combined conditions as SQL, of which `single` writes each condition.
///
/// # Errors
/// What `single` returns.
pub fn combined_sql<E>(
    combined: &CombinedCondition,
    values: &TruthValues,
    single: &mut dyn FnMut(&Condition) -> Result<String, E>,
) -> Result<String, E> {
    let (inner, of_none, operator) = match combined {
        // null is no more than false here, and can be searched for in an index
        CombinedCondition::Is(condition) => return Ok(format!("({})", single(condition)?)),
        CombinedCondition::IsNot(condition) => return Ok(format!("NOT coalesce(({}), {})", single(condition)?, values.no)),
        CombinedCondition::All(inner) => (inner, values.yes, " AND "),
        CombinedCondition::Any(inner) => (inner, values.no, " OR "),
    };
    let inner = inner.iter().map(|inner| combined_sql(inner, values, single)).collect::<Result<Vec<_>, E>>()?;
    Ok(if inner.is_empty() { of_none.to_owned() } else { format!("({})", inner.join(operator)) })
}
