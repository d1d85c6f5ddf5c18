//! Samples, medians, spreads, the verdict on a figure, and its line.

use stook_sample::random::Random;

/// Repeated measurements of one thing.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// As many of them, each drawn from all.
    pub fn drawn(&self, random: &mut Random) -> Samples {
        Samples(self.0.iter().map(|_| *random.one(&self.0)).collect())
    }

    /// Half the distance between the smallest and the largest, as a share of the median; nothing of one run, which says nothing of it.
    pub fn spread(&self) -> Option<f64> {
        if self.0.len() < 2 {
            return None;
        }
        let low = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some((high - low) / 2.0 / self.median())
    }

    /// Each of these divided by the one of the same round.
    pub fn divided_by(&self, denominator: &Samples) -> Samples {
        Samples(self.0.iter().zip(&denominator.0).map(|(numerator, denominator)| numerator / denominator).collect())
    }
}

/// What a figure must reach, or must not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

impl Bar {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Bar::AtLeast(bar) => value >= bar,
            Bar::AtMost(bar) => value <= bar,
        }
    }

    fn show(self) -> String {
        match self {
            Bar::AtLeast(bar) => format!(">= {}", show(bar)),
            Bar::AtMost(bar) => format!("<= {}", show(bar)),
        }
    }
}

/// What is said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It reaches its bar, and so it does at the bad end of its spread, where there is one.
    Ok,
    /// It reaches its bar, but would not at the bad end of its spread.
    Noisy,
    /// It does not reach its bar, however far its runs are apart.
    Short,
}

impl Verdict {
    /// On a figure judged as `judged`, which may be off by `off` either way, if that is known.
    pub fn on(judged: f64, uncertainty: Option<f64>, bar: Bar) -> Self {
        let worst = match bar {
            Bar::AtLeast(_) => judged - uncertainty.unwrap_or(0.0),
            Bar::AtMost(_) => judged + uncertainty.unwrap_or(0.0),
        };
        match (bar.is_reached(judged), bar.is_reached(worst)) {
            (false, _) => Verdict::Short,
            (true, false) => Verdict::Noisy,
            (true, true) => Verdict::Ok,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Noisy => "NOISY",
            Verdict::Short => "SHORT",
        }
    }
}

/// Prints figures, keeps their lines, and remembers whether one is short.
#[derive(Debug, Default)]
pub struct Figures {
    has_short: bool,
    has_header: bool,
    lines: Vec<String>,
}

/// The columns of a line.
struct Line<'l> {
    title: &'l str,
    value: String,
    unit: &'l str,
    reference: &'l str,
    judged: String,
    spread: String,
    bar: String,
    verdict: &'l str,
}

impl Line<'_> {
    fn show(&self) -> String {
        let Self { title, value, unit, reference, judged, spread, bar, verdict } = self;
        format!("{title:<62} {value:>10} {unit:<10} {reference:<58} {judged:>9} {spread:>7} {bar:>9} {verdict}").trim_end().to_owned()
    }
}

impl Figures {
    /// Prints a figure: what was measured, its unit, what it stands beside (which peer, with how many threads, how durable), and the ratio
    /// that must reach the bar.
    #[expect(clippy::too_many_arguments, reason = "a figure is given as the columns of its line")]
    pub fn ratio(&mut self, title: &str, samples: &Samples, unit: &str, reference: &str, peer_samples: &Samples, bar: f64) {
        let ratio = samples.divided_by(peer_samples);
        self.judged(title, samples, unit, &peer(reference, peer_samples), &ratio, Bar::AtLeast(bar));
    }

    /// Prints a figure and its ratio to a peer's, without a bar.
    pub fn ratio_without_bar(&mut self, title: &str, samples: &Samples, unit: &str, reference: &str, peer_samples: &Samples) {
        let ratio = samples.divided_by(peer_samples);
        let (judged, spread) = (show(ratio.median()), shown_spread(ratio.spread()));
        let (value, reference) = (show(samples.median()), peer(reference, peer_samples));
        self.print(&Line { title, value, unit, reference: &reference, judged, spread, bar: String::new(), verdict: "" });
    }

    /// Prints a figure that must reach a bar by itself.
    pub fn at_least(&mut self, title: &str, samples: &Samples, unit: &str, bar: f64) {
        self.judged(title, samples, unit, "", samples, Bar::AtLeast(bar));
    }

    /// Prints a figure that must not exceed a bar.
    pub fn at_most(&mut self, title: &str, samples: &Samples, unit: &str, bar: f64) {
        self.judged(title, samples, unit, "", samples, Bar::AtMost(bar));
    }

    /// Prints a figure that is judged as another number than it shows, beside a peer or limit, and must not exceed a bar.
    #[expect(clippy::too_many_arguments, reason = "a figure is given as the columns of its line")]
    pub fn judged_at_most(&mut self, title: &str, samples: &Samples, unit: &str, reference: &str, judged: &Samples, bar: f64) {
        self.judged(title, samples, unit, reference, judged, Bar::AtMost(bar));
    }

    /// Prints a figure that stands beside a peer's, and how far their medians are apart in units of what is allowed: `part` of the
    /// peer's, or `about`, whichever is more. The spread is what nine of ten other draws of the same rounds would say.
    pub fn distance_from_peer(
        &mut self,
        title: &str,
        samples: &Samples,
        unit: &str,
        (peer_name, peer_samples): (&str, &Samples),
        (part, about): (f64, f64),
    ) {
        let distance =
            |samples: &Samples, peer_samples: &Samples| (samples.median() - peer_samples.median()).abs() / about.max(peer_samples.median() * part);
        let mut random = Random::new(1);
        let mut drawn: Vec<f64> = (0..1_000).map(|_| distance(&samples.drawn(&mut random), &peer_samples.drawn(&mut random))).collect();
        drawn.sort_by(f64::total_cmp);
        let uncertainty = samples.spread().map(|_| (drawn[949] - drawn[50]) / 2.0);
        self.line(
            (title, samples, unit),
            &peer(peer_name, peer_samples),
            distance(samples, peer_samples),
            (uncertainty, uncertainty),
            Bar::AtMost(1.0),
        );
    }

    /// Prints a figure without a bar.
    pub fn without_bar(&mut self, title: &str, samples: &Samples, unit: &str) {
        let (value, spread) = (show(samples.median()), shown_spread(samples.spread()));
        self.print(&Line { title, value, unit, reference: "", judged: String::new(), spread, bar: String::new(), verdict: "" });
    }

    /// Prints how often something happened that must not.
    pub fn forbidden_event(&mut self, title: &str, times: u64) {
        self.has_short |= times > 0;
        let verdict = if times == 0 { Verdict::Ok } else { Verdict::Short }.word();
        let (value, judged) = (times.to_string(), times.to_string());
        self.print(&Line { title, value, unit: "", reference: "", judged, spread: String::new(), bar: "<= 0".into(), verdict });
    }

    /// Prints a line that is no figure: what was left out, and why, or what belongs to the figure after it.
    pub fn note(&mut self, words: &str) {
        println!("{words}");
        self.lines.push(words.to_owned());
    }

    #[expect(clippy::too_many_arguments, reason = "a figure is given as the columns of its line")]
    fn judged(&mut self, title: &str, samples: &Samples, unit: &str, reference: &str, judged: &Samples, bar: Bar) {
        let spread = judged.spread();
        let uncertainty = spread.map(|spread| spread * judged.median().abs());
        self.line((title, samples, unit), reference, judged.median(), (spread, uncertainty), bar);
    }

    fn line(
        &mut self,
        (title, samples, unit): (&str, &Samples, &str),
        reference: &str,
        judged: f64,
        (spread, uncertainty): (Option<f64>, Option<f64>),
        bar: Bar,
    ) {
        let verdict = Verdict::on(judged, uncertainty, bar);
        self.has_short |= verdict == Verdict::Short;
        let (value, judged, spread) = (show(samples.median()), show(judged), shown_spread(spread));
        self.print(&Line { title, value, unit, reference, judged, spread, bar: bar.show(), verdict: verdict.word() });
    }

    fn print(&mut self, line: &Line<'_>) {
        if !self.has_header {
            self.has_header = true;
            let name = |name: &str| name.to_owned();
            let (value, judged, spread, bar) = (name("value"), name("judged"), name("spread"), name("bar"));
            self.note(&Line { title: "what", value, unit: "unit", reference: "peer or limit", judged, spread, bar, verdict: "" }.show());
        }
        self.note(&line.show());
    }

    /// The lines of a group, which ends; the next one begins with a head of its own.
    pub fn end_group(&mut self) -> Vec<String> {
        self.has_header = false;
        std::mem::take(&mut self.lines)
    }

    /// Whether some figure is below its bar.
    pub fn is_short(&self) -> bool {
        self.has_short
    }
}

fn peer(name: &str, peer_samples: &Samples) -> String {
    format!("{name} {}", show(peer_samples.median()))
}

/// One run says nothing of its spread.
fn shown_spread(spread: Option<f64>) -> String {
    spread.map_or_else(|| "one run".to_owned(), |spread| format!("{:.1}%", spread * 100.0))
}

fn show(value: f64) -> String {
    match value {
        value if value >= 1_000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        let mut samples = Samples::default();
        values.iter().for_each(|value| samples.push(*value));
        samples
    }

    #[test]
    fn a_figure_that_misses_its_bar_is_short_whatever_its_spread() {
        for uncertainty in [None, Some(0.0), Some(0.01), Some(5.0)] {
            assert_eq!(Verdict::on(0.99, uncertainty, Bar::AtLeast(1.0)), Verdict::Short, "{uncertainty:?}");
            assert_eq!(Verdict::on(1.01, uncertainty, Bar::AtMost(1.0)), Verdict::Short, "{uncertainty:?}");
        }
    }

    #[test]
    fn a_figure_above_its_bar_is_noisy_if_its_spread_reaches_below_it() {
        for (judged, uncertainty, bar, verdict) in [
            (1.2, Some(0.1), Bar::AtLeast(1.0), Verdict::Ok),
            (1.2, Some(0.2), Bar::AtLeast(1.0), Verdict::Ok),
            (1.2, Some(0.21), Bar::AtLeast(1.0), Verdict::Noisy),
            (0.8, Some(0.1), Bar::AtMost(1.0), Verdict::Ok),
            (0.8, Some(0.21), Bar::AtMost(1.0), Verdict::Noisy),
            (1.0, Some(0.0), Bar::AtLeast(1.0), Verdict::Ok),
            (1.0, Some(0.001), Bar::AtLeast(1.0), Verdict::Noisy),
            // one run: nothing is known of its spread, and nothing is said of it
            (1.0, None, Bar::AtLeast(1.0), Verdict::Ok),
            (1.0, None, Bar::AtMost(1.0), Verdict::Ok),
        ] {
            assert_eq!(Verdict::on(judged, uncertainty, bar), verdict, "{judged} {uncertainty:?} {bar:?}");
        }
    }

    #[test]
    fn a_figure_that_was_not_measured_reaches_no_bar() {
        assert_eq!(Verdict::on(f64::NAN, None, Bar::AtLeast(1.0)), Verdict::Short);
        assert_eq!(Verdict::on(f64::NAN, None, Bar::AtMost(1.0)), Verdict::Short);
        assert_eq!(Verdict::on(2.0, Some(f64::NAN), Bar::AtLeast(1.0)), Verdict::Noisy);
    }

    #[test]
    fn one_run_shows_no_spread() {
        assert_eq!((samples(&[]).spread(), samples(&[3.0]).spread(), samples(&[1.0, 2.0, 3.0]).spread()), (None, None, Some(0.5)));
        let mut figures = Figures::default();
        figures.at_least("one", &samples(&[3.0]), "x", 1.0);
        figures.at_least("three", &samples(&[1.0, 2.0, 3.0]), "x", 0.5);
        let lines = figures.end_group();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains(" one run ") && !lines[1].contains('%'), "{}", lines[1]);
        assert!(lines[2].contains(" 50.0% ") && lines[2].ends_with("ok"), "{}", lines[2]);
    }

    #[test]
    fn a_short_figure_makes_the_run_fail_and_a_noisy_one_does_not() {
        let mut figures = Figures::default();
        // the median reaches the bar, the spread does not
        figures.ratio("noisy", &samples(&[8.0, 11.0, 12.0]), "x", "a peer, 1 thread", &samples(&[10.0, 10.0, 10.0]), 1.0);
        assert!(!figures.is_short());
        figures.ratio("short and noisy", &samples(&[5.0, 9.0, 30.0]), "x", "a peer, 1 thread", &samples(&[10.0, 10.0, 10.0]), 1.0);
        assert!(figures.is_short());
        let lines = figures.end_group();
        assert!(lines[1].ends_with("NOISY") && lines[2].ends_with("SHORT"), "{lines:?}");
        assert!(lines[1].contains("a peer, 1 thread 10.0"), "{}", lines[1]);
    }

    #[test]
    fn a_figure_without_a_bar_is_not_judged() {
        let mut figures = Figures::default();
        figures.ratio_without_bar("beside", &samples(&[1.0, 1.0]), "x", "a peer", &samples(&[4.0, 4.0]));
        let lines = figures.end_group();
        assert!(!figures.is_short() && lines[1].contains("a peer 4.00") && lines[1].trim_end().ends_with("0.0%"), "{}", lines[1]);
    }

    #[test]
    fn a_forbidden_event_is_short() {
        let mut figures = Figures::default();
        figures.forbidden_event("lost", 0);
        assert!(!figures.is_short());
        figures.forbidden_event("lost", 1);
        assert!(figures.is_short());
    }
}
