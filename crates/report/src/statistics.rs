//! The mean of numbers, and how far they are from it.

/// The mean of values; of none it is zero.
pub fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count().max(1) as f64
}

/// The population standard deviation of values; of none it is zero.
pub fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let average = mean(values.clone());
    mean(values.map(|value| (value - average).powi(2))).sqrt()
}
