//! A small random number generator that gives the same numbers on every machine: SplitMix64 (Steele, Lea, Flood 2014).

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates the stream of one item of a seed, so that items can be made in any order.
    pub fn of_item(seed: u64, item: u64) -> Self {
        let mut random = Self(seed ^ item.wrapping_mul(0xd134_2543_de82_ef95));
        random.number();
        random
    }

    /// Returns the next 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true in `share` of 1 000 cases.
    pub fn per_mille(&mut self, share: u64) -> bool {
        self.below(1_000) < share
    }

    /// Returns one of the choices.
    pub fn one<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns the length of a run of events, each with a probability of `share` in 1 000, at most `most`.
    pub fn run(&mut self, share: u64, most: u64) -> u64 {
        (0..most).take_while(|_| self.per_mille(share)).count() as u64
    }
}
