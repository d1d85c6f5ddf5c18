//! The rank of records that match words, as SQL: the sum of [`stook_catalogue::words::WordSearch::rank`], with the same whole numbers in all stores.

use crate::plan::{PlanColumn, QueryPlan};
use stook_catalogue::words::MAX_RANK;

/// The rank as SQL. `column_of` returns the SQL of the kept words of a column, `bind` binds a text.
///
/// # Errors
/// What `column_of` returns.
pub fn rank_sql<E>(
    plan: &QueryPlan,
    mut column_of: impl FnMut(PlanColumn) -> Result<String, E>,
    mut bind: impl FnMut(String) -> String,
) -> Result<String, E> {
    let mut ranks = Vec::new();
    for (column, search) in plan.word_searches() {
        let kept = column_of(column)?;
        let words = format!("(length({kept}) - length(replace({kept}, ' ', ''))) / 2");
        for term in search.terms() {
            let needle = term.needle();
            let length = needle.chars().count();
            let mut found = || format!("((length({kept}) - length(replace({kept}, {}, ''))) / {length})", bind(needle.clone()));
            ranks.push(format!("coalesce(CAST({MAX_RANK} AS BIGINT) * 10 * {} / (10 * {} + 10 + {words}), 0)", found(), found()));
        }
    }
    Ok(if ranks.is_empty() { "CAST(0 AS BIGINT)".to_owned() } else { format!("({})", ranks.join(" + ")) })
}
