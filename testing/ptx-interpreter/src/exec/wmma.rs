//! `wmma` on tiles of 16x16x16. PTX leaves open which lane holds which element; here each kind of fragment has another
//! layout, so that code which relies on one is found. `A` and `B` hold every element twice, as on hardware. Products
//! and sums are exact to `f64` and rounded once at the end; hardware may be less exact.

use super::access::lane_address;
use super::regs::LANES;
use super::round::{f16_to_f32, f32_to_f16, f64_to_f16};
use super::warp::Warp;
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;

/// Row and column of an element: the `part`-th of register `reg` of `lane`.
fn element(fragment: Fragment, half: bool, reg: usize, lane: usize, part: usize) -> (usize, usize) {
    let index = match (fragment, half) {
        // Registers 4 to 7 repeat 0 to 3.
        (Fragment::A, _) => (reg % 4) * 64 + lane * 2 + part,
        (Fragment::B, _) => ((reg % 4) * 64 + lane * 2 + part) ^ 0x55,
        (Fragment::C, true) => lane * 8 + reg * 2 + part,
        (Fragment::C, false) => (reg * 32 + lane) ^ 0xA3,
    };
    (index / 16, index % 16)
}

type Tile = [[f32; 16]; 16];

fn gather(warp: &Warp, fragment: Fragment, half: bool, regs: &[Slot]) -> Tile {
    let mut tile = [[0.0; 16]; 16];
    for (reg, &slot) in regs.iter().enumerate() {
        let row = warp.regs.row::<u32>(slot);
        for (lane, &bits) in row.iter().enumerate() {
            for part in 0..1 + usize::from(half) {
                let (i, j) = element(fragment, half, reg, lane, part);
                tile[i][j] = if half { f16_to_f32((bits >> (16 * part)) as u16) } else { f32::from_bits(bits) };
            }
        }
    }
    tile
}

fn scatter(warp: &mut Warp, fragment: Fragment, half: bool, regs: &[Slot], tile: &Tile) {
    for (reg, &slot) in regs.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
        for lane in 0..LANES {
            let mut bits = 0;
            for part in 0..1 + usize::from(half) {
                let (i, j) = element(fragment, half, reg, lane, part);
                bits |= if half { u32::from(f32_to_f16(tile[i][j])) << (16 * part) } else { tile[i][j].to_bits() };
            }
            warp.regs.row_mut::<u32>(slot)[lane] = bits;
        }
    }
}

impl Machine<'_> {
    pub(super) fn wmma(&mut self, warp: &mut Warp, mask: u32, wmma: &Wmma) -> Result<(), Trouble> {
        if mask != u32::MAX {
            let message = format!("wmma needs all 32 threads of the warp, {mask:#010x} execute it");
            return Err(Trouble::new(mask.trailing_zeros() as usize, FaultKind::Convergence(message)));
        }
        match wmma {
            Wmma::Load { fragment, row, space, half, regs, address, stride } => {
                let (start, stride) = self.tile_place(warp, *address, *stride, *half)?;
                let size = if *half { 2 } else { 4 };
                let mut tile = [[0.0; 16]; 16];
                for (i, line) in tile.iter_mut().enumerate() {
                    for (j, value) in line.iter_mut().enumerate() {
                        let (major, minor) = if *row { (i, j) } else { (j, i) };
                        let at = start.wrapping_add(size * (major as u64 * stride + minor as u64));
                        *value = self.tile_read(warp, *space, at, *half)?;
                    }
                }
                scatter(warp, *fragment, *half, regs, &tile);
            }
            Wmma::Store { row, space, half, regs, address, stride } => {
                let (start, stride) = self.tile_place(warp, *address, *stride, *half)?;
                let size = if *half { 2 } else { 4 };
                let tile = gather(warp, Fragment::C, *half, regs);
                for (i, line) in tile.iter().enumerate() {
                    for (j, &value) in line.iter().enumerate() {
                        let (major, minor) = if *row { (i, j) } else { (j, i) };
                        let at = start.wrapping_add(size * (major as u64 * stride + minor as u64));
                        let bits = if *half { u32::from(f32_to_f16(value)) } else { value.to_bits() };
                        self.tile_write(warp, *space, at, bits, *half)?;
                    }
                }
            }
            Wmma::Mma { d_half, c_half, d, a, b, c, .. } => {
                let a = gather(warp, Fragment::A, true, a);
                let b = gather(warp, Fragment::B, true, b);
                let c = gather(warp, Fragment::C, *c_half, c);
                let mut out = [[0.0; 16]; 16];
                for i in 0..16 {
                    for j in 0..16 {
                        let products = (0..16).map(|k| f64::from(a[i][k]) * f64::from(b[k][j]));
                        let sum = products.fold(f64::from(c[i][j]), |sum, product| sum + product);
                        out[i][j] = if *d_half { f16_to_f32(f64_to_f16(sum, Round::Rn)) } else { sum as f32 };
                    }
                }
                scatter(warp, Fragment::C, *d_half, d, &out);
            }
        }
        Ok(())
    }

    /// Start and stride of a tile: the same in all lanes, and aligned as 9.7.14.4.3 asks.
    fn tile_place(&self, warp: &Warp, address: Address, stride: Slot, half: bool) -> Result<(u64, u64), Trouble> {
        let start = lane_address(warp, address, 0);
        let strides = warp.regs.row::<u32>(stride);
        for lane in 1..LANES {
            if lane_address(warp, address, lane) != start || strides[lane] != strides[0] {
                let message = "wmma needs one address and one stride in all threads".to_owned();
                return Err(Trouble::new(lane, FaultKind::Convergence(message)));
            }
        }
        let unit = if half { 8 } else { 4 };
        if !start.is_multiple_of(32) || !strides[0].is_multiple_of(unit) {
            return Err(Trouble::new(0, FaultKind::Misaligned { space: "tile", address: start, bytes: 32 }));
        }
        Ok((start, u64::from(strides[0])))
    }
}

/// Elements of a 16x16 tile in memory.
impl Machine<'_> {
    fn tile_read(&mut self, warp: &Warp, space: Space, address: u64, half: bool) -> Result<f32, Trouble> {
        let mut bytes = [0; 4];
        let size = if half { 2 } else { 4 };
        let how = (space, Strength::Weak);
        self.read(warp, 0, how, address, &mut bytes[..size]).map_err(|kind| Trouble::new(0, kind))?;
        let bits = u32::from_le_bytes(bytes);
        Ok(if half { f16_to_f32(bits as u16) } else { f32::from_bits(bits) })
    }

    fn tile_write(
        &mut self,
        warp: &mut Warp,
        space: Space,
        address: u64,
        bits: u32,
        half: bool,
    ) -> Result<(), Trouble> {
        let size = if half { 2 } else { 4 };
        let how = (space, Strength::Weak);
        let bytes = bits.to_le_bytes();
        self.write(warp, 0, how, address, &bytes[..size]).map_err(|kind| Trouble::new(0, kind))
    }
}
