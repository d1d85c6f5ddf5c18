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
    pub fn over(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(own, other)| own / other).collect())
    }
}

/// What a figure must reach, or must not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// At least this.
    Least(f64),
    /// At most this.
    Most(f64),
}

impl Bar {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Bar::Least(bar) => value >= bar,
            Bar::Most(bar) => value <= bar,
        }
    }

    fn show(self) -> String {
        match self {
            Bar::Least(bar) => format!(">= {}", show(bar)),
            Bar::Most(bar) => format!("<= {}", show(bar)),
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
    pub fn on(judged: f64, off: Option<f64>, bar: Bar) -> Self {
        let worst = match bar {
            Bar::Least(_) => judged - off.unwrap_or(0.0),
            Bar::Most(_) => judged + off.unwrap_or(0.0),
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
    short: bool,
    headed: bool,
    lines: Vec<String>,
}

/// The columns of a line.
struct Line<'l> {
    what: &'l str,
    value: String,
    unit: &'l str,
    beside: &'l str,
    judged: String,
    spread: String,
    bar: String,
    verdict: &'l str,
}

impl Line<'_> {
    fn show(&self) -> String {
        let Self { what, value, unit, beside, judged, spread, bar, verdict } = self;
        format!("{what:<62} {value:>10} {unit:<10} {beside:<58} {judged:>9} {spread:>7} {bar:>9} {verdict}").trim_end().to_owned()
    }
}

impl Figures {
    /// Prints a figure: what was measured, its unit, what it stands beside (which peer, with how many threads, how durable), and the ratio
    /// that must reach the bar.
    #[expect(clippy::too_many_arguments, reason = "a figure is given as the columns of its line")]
    pub fn ratio(&mut self, what: &str, own: &Samples, unit: &str, beside: &str, other: &Samples, bar: f64) {
        let ratio = own.over(other);
        self.judged(what, own, unit, &peer(beside, other), &ratio, Bar::Least(bar));
    }

    /// Prints a figure and its ratio to a peer's, without a bar.
    pub fn compared(&mut self, what: &str, own: &Samples, unit: &str, beside: &str, other: &Samples) {
        let ratio = own.over(other);
        let (judged, spread) = (show(ratio.median()), shown_spread(ratio.spread()));
        let (value, beside) = (show(own.median()), peer(beside, other));
        self.print(&Line { what, value, unit, beside: &beside, judged, spread, bar: String::new(), verdict: "" });
    }

    /// Prints a figure that must reach a bar by itself.
    pub fn at_least(&mut self, what: &str, own: &Samples, unit: &str, bar: f64) {
        self.judged(what, own, unit, "", own, Bar::Least(bar));
    }

    /// Prints a figure that must not exceed a bar.
    pub fn at_most(&mut self, what: &str, own: &Samples, unit: &str, bar: f64) {
        self.judged(what, own, unit, "", own, Bar::Most(bar));
    }

    /// Prints a figure that is judged as another number than it shows, beside a peer or limit, and must not exceed a bar.
    #[expect(clippy::too_many_arguments, reason = "a figure is given as the columns of its line")]
    pub fn judged_at_most(&mut self, what: &str, own: &Samples, unit: &str, beside: &str, judged: &Samples, bar: f64) {
        self.judged(what, own, unit, beside, judged, Bar::Most(bar));
    }

    /// Prints a figure that stands beside a peer's, and how far their medians are apart in units of what is allowed: `part` of the
    /// peer's, or `about`, whichever is more. The spread is what nine of ten other draws of the same rounds would say.
    pub fn apart(&mut self, what: &str, own: &Samples, unit: &str, peer_of: (&str, &Samples), (part, about): (f64, f64)) {
        let (name, other) = peer_of;
        let distance = |own: &Samples, other: &Samples| (own.median() - other.median()).abs() / about.max(other.median() * part);
        let mut random = Random::new(1);
        let mut drawn: Vec<f64> = (0..1_000).map(|_| distance(&own.drawn(&mut random), &other.drawn(&mut random))).collect();
        drawn.sort_by(f64::total_cmp);
        let off = own.spread().map(|_| (drawn[949] - drawn[50]) / 2.0);
        self.line((what, own, unit), &peer(name, other), distance(own, other), (off, off), Bar::Most(1.0));
    }

    /// Prints a figure without a bar.
    pub fn shown(&mut self, what: &str, own: &Samples, unit: &str) {
        let (value, spread) = (show(own.median()), shown_spread(own.spread()));
        self.print(&Line { what, value, unit, beside: "", judged: String::new(), spread, bar: String::new(), verdict: "" });
    }

    /// Prints how often something happened that must not.
    pub fn count(&mut self, what: &str, times: u64) {
        self.short |= times > 0;
        let verdict = if times == 0 { Verdict::Ok } else { Verdict::Short }.word();
        let (value, judged) = (times.to_string(), times.to_string());
        self.print(&Line { what, value, unit: "", beside: "", judged, spread: String::new(), bar: "<= 0".into(), verdict });
    }

    /// Prints a line that is no figure: what was left out, and why, or what belongs to the figure after it.
    pub fn note(&mut self, words: &str) {
        println!("{words}");
        self.lines.push(words.to_owned());
    }

    #[expect(clippy::too_many_arguments, reason = "a figure is given as the columns of its line")]
    fn judged(&mut self, what: &str, own: &Samples, unit: &str, beside: &str, judged: &Samples, bar: Bar) {
        let spread = judged.spread();
        let off = spread.map(|spread| spread * judged.median().abs());
        self.line((what, own, unit), beside, judged.median(), (spread, off), bar);
    }

    fn line(&mut self, (what, own, unit): (&str, &Samples, &str), beside: &str, judged: f64, (spread, off): (Option<f64>, Option<f64>), bar: Bar) {
        let verdict = Verdict::on(judged, off, bar);
        self.short |= verdict == Verdict::Short;
        let (value, judged, spread) = (show(own.median()), show(judged), shown_spread(spread));
        self.print(&Line { what, value, unit, beside, judged, spread, bar: bar.show(), verdict: verdict.word() });
    }

    fn print(&mut self, line: &Line<'_>) {
        if !self.headed {
            self.headed = true;
            let name = |name: &str| name.to_owned();
            let (value, judged, spread, bar) = (name("value"), name("judged"), name("spread"), name("bar"));
            self.note(&Line { what: "what", value, unit: "unit", beside: "peer or limit", judged, spread, bar, verdict: "" }.show());
        }
        self.note(&line.show());
    }

    /// The lines of a group, which ends; the next one begins with a head of its own.
    pub fn end_group(&mut self) -> Vec<String> {
        self.headed = false;
        std::mem::take(&mut self.lines)
    }

    /// Whether some figure is below its bar.
    pub fn is_short(&self) -> bool {
        self.short
    }
}

fn peer(name: &str, other: &Samples) -> String {
    format!("{name} {}", show(other.median()))
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
    fn a_figure_below_its_bar_is_short_however_noisy_it_is() {
        for off in [None, Some(0.0), Some(0.01), Some(5.0)] {
            assert_eq!(Verdict::on(0.99, off, Bar::Least(1.0)), Verdict::Short, "{off:?}");
            assert_eq!(Verdict::on(1.01, off, Bar::Most(1.0)), Verdict::Short, "{off:?}");
        }
    }

    #[test]
    fn a_figure_above_its_bar_is_noisy_if_its_spread_reaches_below_it() {
        for (judged, off, bar, verdict) in [
            (1.2, Some(0.1), Bar::Least(1.0), Verdict::Ok),
            (1.2, Some(0.2), Bar::Least(1.0), Verdict::Ok),
            (1.2, Some(0.21), Bar::Least(1.0), Verdict::Noisy),
            (0.8, Some(0.1), Bar::Most(1.0), Verdict::Ok),
            (0.8, Some(0.21), Bar::Most(1.0), Verdict::Noisy),
            (1.0, Some(0.0), Bar::Least(1.0), Verdict::Ok),
            (1.0, Some(0.001), Bar::Least(1.0), Verdict::Noisy),
            // one run: nothing is known of its spread, and nothing is said of it
            (1.0, None, Bar::Least(1.0), Verdict::Ok),
            (1.0, None, Bar::Most(1.0), Verdict::Ok),
        ] {
            assert_eq!(Verdict::on(judged, off, bar), verdict, "{judged} {off:?} {bar:?}");
        }
    }

    #[test]
    fn what_was_not_measured_reaches_no_bar() {
        assert_eq!(Verdict::on(f64::NAN, None, Bar::Least(1.0)), Verdict::Short);
        assert_eq!(Verdict::on(f64::NAN, None, Bar::Most(1.0)), Verdict::Short);
        assert_eq!(Verdict::on(2.0, Some(f64::NAN), Bar::Least(1.0)), Verdict::Noisy);
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
        figures.compared("beside", &samples(&[1.0, 1.0]), "x", "a peer", &samples(&[4.0, 4.0]));
        let lines = figures.end_group();
        assert!(!figures.is_short() && lines[1].contains("a peer 4.00") && lines[1].trim_end().ends_with("0.0%"), "{}", lines[1]);
    }

    #[test]
    fn what_happened_that_must_not_is_short() {
        let mut figures = Figures::default();
        figures.count("lost", 0);
        assert!(!figures.is_short());
        figures.count("lost", 1);
        assert!(figures.is_short());
    }
}
