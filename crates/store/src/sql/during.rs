//! Whether a stored partial date lies in other days, as SQL; both dialects have the same operators.

use stook_catalogue::value::PartialDate;

/// The bounds of stored values that begin in these days, and the least of the bits of a last day that is one of them.
pub fn during_bounds(days: PartialDate) -> [i64; 3] {
    let last_day = PartialDate::between(days.last(), days.last()).unwrap_or(days);
    [days.stored(), last_day.stored(), PartialDate::stored_last(days.last())]
}

/// The condition on a column; an index on it finds the values between the first two bounds.
pub fn during_sql(column: &str, [low, high, last]: [&str; 3]) -> String {
    format!("{column} >= {low} AND {column} <= {high} AND ({column} & {}) >= {last}", PartialDate::LAST_MASK)
}

/// The first and the last day of a stored value, counted from 1970-01-01.
pub fn days_sql(value: &str) -> [String; 2] {
    let (bits, mask, shift) = (PartialDate::LAST_BITS, PartialDate::LAST_MASK, PartialDate::SHIFT);
    [format!("(({value} >> {bits}) - {shift})"), format!("({mask} - ({value} & {mask}) - {shift})")]
}
