//! Compares runs: what changed, and whether the change is more than noise.

use crate::run::{Durations, RequestSet, Run, TimeBin};
use crate::sections::{Report, ReportTable, Section, time};
use crate::{ReportError, Result, svg};
use statrs::stats_tests::Alternative;
use statrs::stats_tests::mannwhitneyu::{MannWhitneyUMethod, mannwhitneyu};

/// Significance level: a difference with a smaller p-value is more than noise.
const SIGNIFICANCE: f64 = 0.05;
/// The same for a change point, which is lower because many are tried.
const CHANGE_POINT_SIGNIFICANCE: f64 = 0.01;
/// Min runs of each side to compare the values of runs; with fewer, parts of runs are compared.
const MIN_REPETITIONS: usize = 4;
/// Parts of a run.
const PARTS: usize = 10;

/// Compared metrics, with whether more is better.
const METRICS: [(&str, bool); 5] = [("p50", false), ("p90", false), ("p99", false), ("answers/s", true), ("success %", true)];

/// A metric of one set in groups of runs.
#[derive(Debug, Clone)]
pub struct MetricComparison {
    /// The set.
    pub set: String,
    /// The metric.
    pub metric: &'static str,
    /// Its value in each group of runs.
    pub values: Vec<f64>,
    /// The last value divided by the first.
    pub ratio: f64,
    /// By which share of the first value the last is worse; negative if it is better.
    pub regression: f64,
    /// The p-value of the difference between first and last; `None` if it cannot be computed.
    pub p_value: Option<f64>,
    /// The group at which it changed, if there are many groups.
    pub changed_at: Option<usize>,
}

impl MetricComparison {
    /// Whether the difference is more than noise.
    pub fn is_real(&self) -> bool {
        self.p_value.is_some_and(|p_value| p_value < SIGNIFICANCE)
    }
}

fn name(set: &RequestSet) -> String {
    let mut name = if set.series.is_empty() { set.route.clone() } else { format!("{}: {}", set.series, set.route) };
    if let (Some(every), Some(planned)) = (set.every, set.planned) {
        name.push_str(&format!(", {planned} every {}", time(every)));
    }
    if let Some(clients) = set.clients {
        name.push_str(&format!(", {clients} clients"));
    }
    name
}

fn value(set: &RequestSet, metric: &str) -> Option<f64> {
    Some(match metric {
        "p50" => set.latency.quantile(0.5)?,
        "p90" => set.latency.quantile(0.9)?,
        "p99" => set.latency.quantile(0.99)?,
        "answers/s" => set.successes() as f64 / set.seconds.max(1e-9),
        _ => set.successes() as f64 * 100.0 / set.requests.max(1) as f64,
    })
}

/// Returns the values of parts of a set, which stand in for repetitions.
fn values_of_parts(set: &RequestSet, metric: &str) -> Vec<f64> {
    let size = set.bins.len().div_ceil(PARTS).max(1);
    let value_of_part = |bins: &[TimeBin]| {
        let requests: u64 = bins.iter().map(|bin| bin.requests).sum();
        let weighted = |value: fn(&TimeBin) -> f64| bins.iter().map(|bin| value(bin) * bin.requests as f64).sum::<f64>() / requests.max(1) as f64;
        match metric {
            "p50" => weighted(|bin| bin.p50),
            "p90" => weighted(|bin| bin.p90),
            "p99" => weighted(|bin| bin.p99),
            "answers/s" => requests as f64 / (set.bin * bins.len() as f64).max(1e-9),
            _ => bins.iter().map(|bin| bin.requests - bin.unsuccessful).sum::<u64>() as f64 * 100.0 / requests.max(1) as f64,
        }
    };
    // the last part is left out if it is shorter
    set.bins.chunks(size).filter(|bins| bins.len() == size).map(value_of_part).collect()
}

fn p_value(old: &[f64], new: &[f64]) -> Option<f64> {
    let has_enough = old.len() >= MIN_REPETITIONS && new.len() >= MIN_REPETITIONS;
    let is_constant = old.iter().chain(new).all(|value| *value == old[0]);
    if !has_enough {
        return None;
    }
    if is_constant {
        return Some(1.0);
    }
    mannwhitneyu(old, new, MannWhitneyUMethod::Automatic, Alternative::TwoSided).ok().map(|(_, p_value)| p_value)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { sorted[middle - 1].midpoint(sorted[middle]) }
}

/// Compares groups of runs, each with repetitions of one plan: every metric of every set that all groups have.
///
/// # Errors
/// When there are fewer than two groups, or they have no set in common.
pub fn compare(groups: &[Vec<Run>]) -> Result<Vec<MetricComparison>> {
    let (Some(first), Some(last)) = (groups.first(), groups.last().filter(|_| groups.len() > 1)) else {
        return Err(ReportError::Content("at least two runs are compared".into()));
    };
    let mut all = Vec::new();
    for set in first.iter().take(1).flat_map(|run| &run.sets) {
        let set_name = name(set);
        let sets_of = |group: &[Run]| -> Vec<RequestSet> {
            group.iter().filter_map(|run| run.sets.iter().find(|set| name(set) == set_name)).cloned().collect()
        };
        let sets: Vec<Vec<RequestSet>> = groups.iter().map(|group| sets_of(group)).collect();
        if sets.iter().any(Vec::is_empty) {
            continue;
        }
        for (metric, more_is_better) in METRICS {
            let values: Vec<Vec<f64>> = sets.iter().map(|sets| sets.iter().filter_map(|set| value(set, metric)).collect()).collect();
            if values.iter().any(Vec::is_empty) {
                continue;
            }
            let medians: Vec<f64> = values.iter().map(|values| median(values)).collect();
            let repetitions = |group: usize| {
                let of_runs = &values[group];
                if of_runs.len() >= MIN_REPETITIONS {
                    of_runs.clone()
                } else {
                    sets[group].iter().flat_map(|set| values_of_parts(set, metric)).collect()
                }
            };
            let (old, new) = (medians[0], medians[medians.len() - 1]);
            let ratio = new / old;
            let change = if old == 0.0 { 0.0 } else { (new - old) / old };
            all.push(MetricComparison {
                set: set_name.clone(),
                metric,
                ratio,
                regression: if more_is_better { -change } else { change },
                p_value: p_value(&repetitions(0), &repetitions(groups.len() - 1)),
                changed_at: change_point(&medians),
                values: medians,
            });
        }
    }
    if all.is_empty() {
        let known = last.iter().take(1).flat_map(|run| &run.sets).map(name).collect::<Vec<_>>().join("; ");
        return Err(ReportError::Content(format!("the runs have no set in common; the last one has {known}")));
    }
    Ok(all)
}

/// Returns the position at which a series changes its level: the cut with the smallest p-value, if that is small enough.
fn change_point(values: &[f64]) -> Option<usize> {
    let cuts = MIN_REPETITIONS..=values.len().saturating_sub(MIN_REPETITIONS);
    let tried = cuts.filter_map(|cut| Some((p_value(&values[..cut], &values[cut..])?, cut)));
    tried.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(p_value, _)| *p_value < CHANGE_POINT_SIGNIFICANCE).map(|(_, cut)| cut)
}

/// Reports a comparison: a table of the metrics of every set, and latencies of the first and the last group.
pub fn report(names: &[String], groups: &[Vec<Run>], all: &[MetricComparison]) -> Report {
    let mut headings: Vec<&str> = vec!["set", "metric"];
    headings.extend(names.iter().map(String::as_str));
    headings.extend(["delta %", "ratio", "chance", ""]);
    let mut table = ReportTable::new(2, &headings);
    let format_value = |metric: &str, value: f64| if metric.starts_with('p') { time(value) } else { format!("{value:.1}") };
    for comparison in all {
        let verdict = match (comparison.is_real(), comparison.regression) {
            (false, _) => "",
            (true, regression) if regression > 0.0 => "worse",
            (true, regression) if regression < 0.0 => "better",
            (true, _) => "",
        };
        let delta = if comparison.values[0] == 0.0 { String::new() } else { format!("{:+.1}", (comparison.ratio - 1.0) * 100.0) };
        let ratio = if comparison.ratio.is_finite() { format!("{:.3}", comparison.ratio) } else { String::new() };
        let p_value = comparison.p_value.map_or_else(|| "?".into(), |p_value| format!("{p_value:.3}"));
        let values = comparison.values.iter().map(|value| format_value(comparison.metric, *value));
        let change = comparison.changed_at.and_then(|at| names.get(at)).map_or_else(|| verdict.to_owned(), |name| format!("{verdict} since {name}"));
        let cells = [comparison.set.clone(), comparison.metric.to_owned()].into_iter().chain(values).chain([delta, ratio, p_value, change]);
        table.rows.push(cells.collect());
    }
    let words = vec![format!(
        "chance: of a difference at least as large without a reason (Mann-Whitney), between {MIN_REPETITIONS} and more runs, else between \
         {PARTS} stretches of each; below {SIGNIFICANCE} it is told from noise"
    )];
    let mut sections = vec![Section { words, table: Some(table), ..Section::default() }];
    let mut drawn: Vec<&str> = all.iter().map(|comparison| comparison.set.as_str()).collect();
    drawn.dedup();
    sections.extend(drawn.into_iter().filter_map(|set| picture(names, groups, set)));
    Report { title: "Comparison".into(), sections }
}

/// Draws the latencies of a set in the first run of the first and of the last group.
fn picture(names: &[String], groups: &[Vec<Run>], set: &str) -> Option<Section> {
    let old = (names.first()?.as_str(), times(groups.first()?, set)?);
    let new = (names.last()?.as_str(), times(groups.last()?, set)?);
    let picture = svg::percentiles(&[old, new]);
    Some(Section { title: set.to_owned(), picture: Some(picture), ..Section::default() })
}

/// Returns the latencies of a set in the first run of a group.
fn times<'r>(group: &'r [Run], set: &str) -> Option<&'r Durations> {
    group.first()?.sets.iter().find(|candidate| name(candidate) == set).map(|set| &set.latency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stook_sample::random::Random;

    fn run(seed: u64, slower: f64) -> Run {
        let mut random = Random::new(seed);
        let mut histogram = std::collections::BTreeMap::new();
        let mut bins = Vec::new();
        for second in 0..50 {
            let mut times: Vec<f64> = (0..20).map(|_| (1.0 + random.below(1_000) as f64 / 1_000.0) * slower).collect();
            times.sort_by(f64::total_cmp);
            times.iter().for_each(|time| *histogram.entry((time * 1e6) as u64).or_insert(0) += 1);
            let at = |share: f64| times[(share * 19.0) as usize] / 1e3;
            bins.push(TimeBin { at: f64::from(second), requests: 20, unsuccessful: 0, p50: at(0.5), p90: at(0.9), p99: at(1.0), max: at(1.0) });
        }
        let set = RequestSet {
            route: "GET /x".into(),
            requests: 1_000,
            seconds: 50.0,
            outcomes: [("200".to_owned(), 1_000)].into(),
            latency: Durations { histogram: histogram.into_iter().collect() },
            bin: 1.0,
            bins,
            ..RequestSet::default()
        };
        Run { sets: vec![set], ..Run::default() }
    }

    fn metric_of<'c>(all: &'c [MetricComparison], metric: &str) -> &'c MetricComparison {
        all.iter().find(|comparison| comparison.metric == metric).expect("the metric")
    }

    #[test]
    fn noise_is_distinguished_from_change() {
        let mut found = 0;
        for seed in 0..40 {
            let all = compare(&[vec![run(seed, 1.0)], vec![run(seed + 100, 1.0)]]).expect("comparable");
            found += usize::from(metric_of(&all, "p50").is_real());
            let all = compare(&[vec![run(seed, 1.0)], vec![run(seed + 100, 1.1)]]).expect("comparable");
            let p50 = metric_of(&all, "p50");
            assert!(p50.is_real() && (0.04..0.16).contains(&p50.regression), "{p50:?}");
            assert!(!metric_of(&all, "success %").is_real() && !metric_of(&all, "answers/s").is_real());
        }
        // one in twenty is expected by chance
        assert!(found <= 6, "{found} of 40");
    }

    #[test]
    fn repetitions_and_series_are_compared() {
        let group = |from: u64, slower: f64| (from..from + 5).map(|seed| run(seed, slower)).collect::<Vec<_>>();
        let all = compare(&[group(0, 1.0), group(10, 1.3)]).expect("comparable");
        assert!(metric_of(&all, "p99").is_real() && metric_of(&all, "p99").regression > 0.2);
        let series: Vec<Vec<Run>> = (0..12).map(|index| vec![run(index, if index < 7 { 1.0 } else { 1.2 })]).collect();
        let all = compare(&series).expect("comparable");
        assert_eq!(metric_of(&all, "p50").changed_at, Some(7));
        let names: Vec<String> = (0..12).map(|index| format!("r{index}")).collect();
        let report = report(&names, &series, &all);
        assert!(report.text().contains("since r7"));
        let picture = report.sections[1].picture.as_deref().expect("times of both");
        assert!(picture.contains("r0") && picture.contains("r11"));
        let mut other = run(1, 1.0);
        other.sets[0].route = "GET /y".into();
        assert!(compare(&[vec![run(0, 1.0)], vec![other]]).is_err());
        assert!(compare(&[vec![run(0, 1.0)]]).is_err());
    }
}
