//! Mean and standard deviation.

/// Returns the mean of values; zero if there are none.
pub fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count().max(1) as f64
}

/// Returns the population standard deviation of values; zero if there are none.
pub fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let average = mean(values.clone());
    mean(values.map(|value| (value - average).powi(2))).sqrt()
}
