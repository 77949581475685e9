//! What is too much for one run, a part of it every day.

/// One of `of` parts.
pub struct Turn {
    of: u64,
    at: u64,
}

impl Turn {
    /// Today's of `of`. `POLYWARP_TEST_PART` names another one by its number, or `all`.
    pub fn today(of: u64) -> Turn {
        let name = std::env::var("POLYWARP_TEST_PART").ok();
        if name.as_deref() == Some("all") {
            return Turn { of: 1, at: 0 };
        }
        let day = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
        let at = name.and_then(|name| name.parse().ok()).unwrap_or_else(day);
        Turn { of, at: at % of }
    }

    /// Whether number `i` is in it; neighbours are scattered, or a regular list would leave the same kinds together.
    pub fn takes(&self, i: u64) -> bool {
        (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % self.of == self.at
    }
}
