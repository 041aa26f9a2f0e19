//! Randomness from a seed, so that each failure can be repeated.

/// The generator: Splitmix64.
pub struct Chance(u64);

impl Chance {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// One of these, which are not empty.
    pub fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        let bound = u64::try_from(choices.len()).expect("a small number");
        choices[usize::try_from(self.below(bound)).expect("a small number")].clone()
    }
}
