//! The registers of one warp: rows of 32 lanes; a predicate is one bit of a word.

use crate::inst::{Class, Slot};

pub(crate) const LANES: usize = 32;

/// What a row of registers holds.
pub(crate) trait Lane: Copy + Default + Send + Sync {
    fn rows(regs: &Regs) -> &[[Self; LANES]];
    fn rows_mut(regs: &mut Regs) -> &mut [[Self; LANES]];
}

#[derive(Clone, Debug)]
pub(crate) struct Regs {
    pub(crate) p: Vec<u32>,
    h: Vec<[u16; LANES]>,
    w: Vec<[u32; LANES]>,
    d: Vec<[u64; LANES]>,
}

impl Lane for u16 {
    fn rows(regs: &Regs) -> &[[u16; LANES]] {
        &regs.h
    }
    fn rows_mut(regs: &mut Regs) -> &mut [[u16; LANES]] {
        &mut regs.h
    }
}

impl Lane for u32 {
    fn rows(regs: &Regs) -> &[[u32; LANES]] {
        &regs.w
    }
    fn rows_mut(regs: &mut Regs) -> &mut [[u32; LANES]] {
        &mut regs.w
    }
}

impl Lane for u64 {
    fn rows(regs: &Regs) -> &[[u64; LANES]] {
        &regs.d
    }
    fn rows_mut(regs: &mut Regs) -> &mut [[u64; LANES]] {
        &mut regs.d
    }
}

impl Regs {
    /// Rows that hold what nobody should rely on: not-a-numbers, and indices far out of bounds.
    pub(crate) fn new(rows: [u32; 4]) -> Regs {
        Regs {
            p: vec![0xAAAA_AAAA; rows[0] as usize],
            h: vec![[0xFFAD; LANES]; rows[1] as usize],
            w: vec![[0xFFFF_DEAD; LANES]; rows[2] as usize],
            d: vec![[0xFFFF_DEAD_FFFF_DEAD; LANES]; rows[3] as usize],
        }
    }

    /// Rows of 32 bits.
    pub(crate) fn words(&self) -> u32 {
        self.w.len() as u32
    }

    #[inline(always)]
    pub(crate) fn row<T: Lane>(&self, slot: Slot) -> &[T; LANES] {
        &T::rows(self)[slot as usize]
    }

    #[inline(always)]
    pub(crate) fn row_mut<T: Lane>(&mut self, slot: Slot) -> &mut [T; LANES] {
        &mut T::rows_mut(self)[slot as usize]
    }

    /// Writes the lanes in `mask`.
    #[inline(always)]
    pub(crate) fn write<T: Lane>(&mut self, slot: Slot, mask: u32, values: &[T; LANES]) {
        let row = self.row_mut::<T>(slot);
        if mask == u32::MAX {
            *row = *values;
        } else {
            for (lane, (to, from)) in row.iter_mut().zip(values).enumerate() {
                if mask >> lane & 1 != 0 {
                    *to = *from;
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn write_pred(&mut self, slot: Slot, mask: u32, bits: u32) {
        let row = &mut self.p[slot as usize];
        *row = (*row & !mask) | (bits & mask);
    }

    /// One lane's bits, whatever the width.
    #[inline]
    pub(crate) fn get(&self, class: Class, slot: Slot, lane: usize) -> u64 {
        match class {
            Class::Pred => u64::from(self.p[slot as usize] >> lane & 1),
            Class::Half => u64::from(self.h[slot as usize][lane]),
            Class::Word => u64::from(self.w[slot as usize][lane]),
            Class::Double => self.d[slot as usize][lane],
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, class: Class, slot: Slot, lane: usize, bits: u64) {
        match class {
            Class::Pred => self.write_pred(slot, 1 << lane, (bits as u32 & 1) << lane),
            Class::Half => self.h[slot as usize][lane] = bits as u16,
            Class::Word => self.w[slot as usize][lane] = bits as u32,
            Class::Double => self.d[slot as usize][lane] = bits,
        }
    }

    pub(crate) fn fill(&mut self, class: Class, slot: Slot, bits: u64) {
        match class {
            Class::Pred => self.p[slot as usize] = if bits != 0 { u32::MAX } else { 0 },
            Class::Half => self.h[slot as usize] = [bits as u16; LANES],
            Class::Word => self.w[slot as usize] = [bits as u32; LANES],
            Class::Double => self.d[slot as usize] = [bits; LANES],
        }
    }

    #[inline(always)]
    pub(crate) fn map<A: Lane, D: Lane>(&mut self, mask: u32, d: Slot, a: Slot, f: impl Fn(A) -> D) {
        let a = *self.row::<A>(a);
        let mut out = [D::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(a[lane]);
        }
        self.write(d, mask, &out);
    }

    #[inline(always)]
    pub(crate) fn map2<A: Lane, B: Lane, D: Lane>(
        &mut self,
        mask: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        f: impl Fn(A, B) -> D,
    ) {
        let (a, b) = (self.row::<A>(a), self.row::<B>(b));
        let mut out = [D::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(a[lane], b[lane]);
        }
        self.write(d, mask, &out);
    }

    #[inline(always)]
    pub(crate) fn map3<A: Lane, B: Lane, C: Lane, D: Lane>(
        &mut self,
        mask: u32,
        d: Slot,
        [a, b, c]: [Slot; 3],
        f: impl Fn(A, B, C) -> D,
    ) {
        let (a, b, c) = (self.row::<A>(a), self.row::<B>(b), self.row::<C>(c));
        let mut out = [D::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(a[lane], b[lane], c[lane]);
        }
        self.write(d, mask, &out);
    }
}
