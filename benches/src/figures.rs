//! Samples, medians, spreads, and the line of a figure.

use stook_lab::random::Random;

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

    /// Half the distance between the smallest and the largest, as a share of the median.
    pub fn spread(&self) -> f64 {
        let low = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (high - low) / 2.0 / self.median()
    }

    /// Each of these divided by the one of the same round.
    pub fn over(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(own, other)| own / other).collect())
    }
}

/// Prints figures and remembers whether one is short.
#[derive(Debug, Default)]
pub struct Figures {
    short: bool,
    headed: bool,
}

impl Figures {
    /// Prints a figure: what was measured, its unit, what it stands beside, and the ratio that must reach (or, for limits
    /// not to exceed, must not exceed) the bar.
    pub fn ratio(&mut self, what: &str, own: &Samples, unit: &str, beside: &str, other: &Samples, bar: f64) {
        let ratio = own.over(other);
        let peer = format!("{beside} {}", show(other.median()));
        self.line(what, own.median(), unit, &peer, ratio.median(), ratio.spread(), bar, true);
    }

    /// Prints a figure that must reach a bar by itself.
    pub fn at_least(&mut self, what: &str, own: &Samples, unit: &str, bar: f64) {
        self.line(what, own.median(), unit, "", own.median(), own.spread(), bar, true);
    }

    /// Prints a figure that must not exceed a bar.
    pub fn at_most(&mut self, what: &str, own: &Samples, unit: &str, bar: f64) {
        self.line(what, own.median(), unit, "", own.median(), own.spread(), bar, false);
    }

    /// Prints a figure that is judged as another number than it shows, beside a peer or limit, and must not exceed a bar.
    pub fn judged_at_most(&mut self, what: &str, own: &Samples, unit: &str, beside: &str, judged: &Samples, bar: f64) {
        self.line(what, own.median(), unit, beside, judged.median(), judged.spread(), bar, false);
    }

    /// Prints a figure that stands beside a peer's, and how far their medians are apart in units of what is allowed: `part` of the
    /// peer's, or `about`, whichever is more. The spread is what nine of ten other draws of the same rounds would say.
    pub fn apart(&mut self, what: &str, own: &Samples, unit: &str, peer: (&str, &Samples), (part, about): (f64, f64)) {
        let (name, other) = peer;
        let distance = |own: &Samples, other: &Samples| (own.median() - other.median()).abs() / about.max(other.median() * part);
        let mut random = Random::new(1);
        let mut drawn: Vec<f64> = (0..1_000).map(|_| distance(&own.drawn(&mut random), &other.drawn(&mut random))).collect();
        drawn.sort_by(f64::total_cmp);
        let peer = format!("{name} {}", show(other.median()));
        self.line(what, own.median(), unit, &peer, distance(own, other), (drawn[949] - drawn[50]) / 2.0, 1.0, false);
    }

    /// Prints a figure without a bar.
    pub fn shown(&mut self, what: &str, own: &Samples, unit: &str) {
        self.head();
        println!("{what:<52} {:>10} {unit:<10} {:<30} {:>9} {:>6.1}%", show(own.median()), "", "", own.spread() * 100.0);
    }

    /// Prints how often something happened that must not.
    pub fn count(&mut self, what: &str, times: u64) {
        self.head();
        self.short |= times > 0;
        println!("{what:<52} {times:>10} {:<10} {:<30} {times:>9} {:>7} {:>9} {}", "", "", "", "<= 0", if times == 0 { "ok" } else { "SHORT" });
    }

    fn head(&mut self) {
        if !self.headed {
            println!("{:<52} {:>10} {:<10} {:<30} {:>9} {:>7} {:>9}", "what", "value", "unit", "peer or limit", "judged", "spread", "bar");
            self.headed = true;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of a line")]
    fn line(&mut self, what: &str, value: f64, unit: &str, peer: &str, judged: f64, spread: f64, bar: f64, upwards: bool) {
        self.head();
        let reached = if upwards { judged >= bar } else { judged <= bar };
        let distance = (judged - bar).abs() / bar;
        let verdict = match (reached, spread > distance) {
            (_, true) => "NOISY",
            (true, false) => "ok",
            (false, false) => "SHORT",
        };
        self.short |= verdict == "SHORT";
        let sign = if upwards { ">=" } else { "<=" };
        println!(
            "{what:<52} {:>10} {unit:<10} {peer:<30} {:>9} {:>6.1}% {:>9} {verdict}",
            show(value),
            show(judged),
            spread * 100.0,
            format!("{sign} {}", show(bar))
        );
    }

    /// Whether some figure is certainly below its bar.
    pub fn is_short(&self) -> bool {
        self.short
    }
}

fn show(value: f64) -> String {
    match value {
        value if value >= 1_000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
