//! What asynchronous operations still do to a block's shared memory.
//!
//! A copy may fill its destination at any time between its instruction and the moment its end is observed, and wgmma or a bulk
//! store may read its source as long. Whoever touches such bytes in between reads or destroys what the other needs, whatever
//! the hardware happens to do that day: that is a fault at once. Words of four bytes are counted, the least that any of these
//! operations moves.

/// Bytes of what is counted.
pub(super) const WORD: usize = 4;

/// Bytes that the asynchronous units move at once, swizzled or not.
pub(super) const UNIT: usize = 16;

/// Operations under way, per word.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    filling: Vec<u16>,
    reading: Vec<u16>,
    /// Words with any.
    filled: u32,
    read: u32,
}

/// How an access is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

impl Claims {
    pub(super) fn reset(&mut self, bytes: usize) {
        let words = bytes.div_ceil(WORD);
        for counts in [&mut self.filling, &mut self.reading] {
            counts.clear();
            counts.resize(words, 0);
        }
        (self.filled, self.read) = (0, 0);
    }

    /// Whether an access now would meet an operation that is under way: which of its bytes, and what that is.
    #[inline]
    pub(super) fn meets(&self, at: usize, bytes: usize, how: Use) -> Option<(usize, &'static str)> {
        if self.filled == 0 && (self.read == 0 || how == Use::Read) {
            return None;
        }
        self.search(at, bytes, how)
    }

    fn search(&self, at: usize, bytes: usize, how: Use) -> Option<(usize, &'static str)> {
        let words = at / WORD..(at + bytes).div_ceil(WORD);
        let first = |counts: &[u16]| words.clone().find(|&word| counts[word] != 0);
        let place = |word: usize| (word * WORD).max(at) - at;
        if let Some(word) = first(&self.filling) {
            let what = match how {
                Use::Read => "read before the copy that fills it was waited for",
                Use::Write => "written while a copy fills it",
            };
            return Some((place(word), what));
        }
        let word = first(&self.reading).filter(|_| how == Use::Write)?;
        Some((place(word), "written while wgmma or a bulk store still reads it"))
    }

    pub(super) fn begin(&mut self, at: usize, bytes: usize, how: Use) {
        let (counts, total) = self.of(how);
        for count in &mut counts[at / WORD..(at + bytes).div_ceil(WORD)] {
            *total += u32::from(*count == 0);
            *count += 1;
        }
    }

    pub(super) fn end(&mut self, at: usize, bytes: usize, how: Use) {
        let (counts, total) = self.of(how);
        for count in &mut counts[at / WORD..(at + bytes).div_ceil(WORD)] {
            *count -= 1;
            *total -= u32::from(*count == 0);
        }
    }

    /// What is under way at all.
    pub(super) fn left(&self) -> Option<&'static str> {
        match (self.filled, self.read) {
            (0, 0) => None,
            (0, _) => Some("wgmma or bulk stores that read"),
            _ => Some("copies that fill"),
        }
    }

    fn of(&mut self, how: Use) -> (&mut [u16], &mut u32) {
        match how {
            Use::Read => (&mut self.reading, &mut self.read),
            Use::Write => (&mut self.filling, &mut self.filled),
        }
    }
}
