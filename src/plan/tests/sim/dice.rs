//! Chance from a seed: the same seed tells the same story again.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
    /// Nothing goes wrong any more.
    pub is_calm: bool,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed,
            is_calm: false,
        }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).unwrap();
        usize::try_from(self.below(len)).unwrap()
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Something that goes wrong once in `n` times.
    pub fn fails(&mut self, n: u64) -> bool {
        !self.is_calm && self.one_in(n)
    }

    /// How long a message or a small piece of work takes: mostly nothing, sometimes longer than anybody waits for it.
    pub fn delay_ms(&mut self) -> u64 {
        if self.is_calm {
            return 1;
        }
        match self.below(60) {
            0 => self.below(150_000),
            1..5 => self.below(15_000),
            5..25 => self.below(300),
            _ => 0,
        }
    }
}
