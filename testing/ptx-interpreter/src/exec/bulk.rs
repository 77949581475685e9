//! `cp.async.bulk`: boxes of tensors and runs of bytes, to shared memory of a block or of several (a multicast), and back.
//!
//! Loads read global memory at the instruction and land on their barrier as late as can be (`mbarrier.rs`). Stores read
//! shared memory at the instruction and claim it until their thread has waited for that; they write global memory when
//! their thread waits for the whole, or when the block ends.

use super::access::{lane_address, lanes};
use super::claims::{UNIT, Use};
use super::mbarrier::Units;
use super::under_way::Stores;
use super::warp::Warp;
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;
use crate::kernel::{PARAM_BASE, SHARED_BASE};
use crate::tensor_map::{Pixels, TensorMap};

/// One row of a box: the element of the tensor where it starts, and where it stands in the box, in bytes.
struct Row {
    at: Vec<i64>,
    offset: usize,
}

/// The pixels that a copy takes (PTX ISA, "Im2col mode"): from `at` on, one of the bounding box, along rows, then images, each read at its
/// offset.
fn pixels(map: &TensorMap, pixels: &Pixels, at: &[i32], offsets: &[u16]) -> Result<Vec<Row>, FaultKind> {
    let pixel_bytes = map.box_dims[0] as usize * map.element_bytes();
    let [first, last] = [0, 1].map(|end| {
        [0, 1].map(|axis| if end == 0 { i64::from(pixels.lower[axis]) } else { pixels.last(&map.dims, axis) })
    });
    let [w, h, mut image] = [at[1], at[2], at[3]].map(i64::from);
    let mut place = [w, h];
    let starts = (0..2).all(|axis| {
        (first[axis]..=last[axis]).contains(&place[axis])
            && (place[axis] - first[axis]) % i64::from(pixels.steps[axis]) == 0
    });
    if !starts {
        return broken(format!(
            "a copy of pixels from {place:?} on, which is none of {first:?} to {last:?} by {:?}",
            pixels.steps
        ));
    }
    let mut rows = Vec::new();
    for index in 0..map.box_dims[1] as usize {
        let [x, y] = [0, 1].map(|axis| place[axis] + i64::from(offsets[axis]));
        rows.push(Row { at: vec![i64::from(at[0]), x, y, image], offset: index * pixel_bytes });
        place[0] += i64::from(pixels.steps[0]);
        if place[0] > last[0] {
            place = [first[0], place[1] + i64::from(pixels.steps[1])];
        }
        if place[1] > last[1] {
            place[1] = first[1];
            image += 1;
        }
    }
    Ok(rows)
}

/// The rows of the box that starts at `at`.
fn rows(map: &TensorMap, at: &[i32]) -> Vec<Row> {
    let row_bytes = map.box_dims[0] as usize * map.element_bytes();
    let count: u32 = map.box_dims[1..].iter().product();
    let row = |index: u32| {
        let mut rest = index;
        let mut place = vec![i64::from(at[0])];
        for (&start, &extent) in at[1..].iter().zip(&map.box_dims[1..]) {
            place.push(i64::from(start) + i64::from(rest % extent));
            rest /= extent;
        }
        Row { at: place, offset: index as usize * row_bytes }
    };
    (0..count).map(row).collect()
}

/// The elements of a row that the tensor has: how many of the row lie before them, how many they are, and the first's
/// address.
fn inside(map: &TensorMap, row: &Row) -> Option<(usize, usize, u64)> {
    let outer = row.at[1..].iter().zip(&map.dims[1..]).all(|(&x, &dim)| x >= 0 && (x as u64) < dim);
    let (start, end) = (row.at[0], row.at[0] + i64::from(map.box_dims[0]));
    let (first, last) = (start.max(0), end.min(map.dims[0] as i64));
    if !outer || first >= last {
        return None;
    }
    let strides = row.at[1..].iter().zip(&map.strides_bytes).map(|(&x, &stride)| x as u64 * stride).sum::<u64>();
    let address = map.address + first as u64 * map.element_bytes() as u64 + strides;
    Some(((first - start) as usize, (last - first) as usize, address))
}

/// Where the unit at the offset `at` of shared memory really stands: 16-byte units change places within eight rows of the
/// swizzle's width, by the address (PTX ISA, "Swizzling Modes").
pub(super) fn swizzled(at: usize, swizzle: u32) -> usize {
    let address = at + SHARED_BASE as usize;
    let bits = (1 << swizzle) - 1;
    (address ^ ((address >> 7 & bits) << 4)) - SHARED_BASE as usize
}

fn broken<T>(what: String) -> Result<T, FaultKind> {
    Err(FaultKind::Asynchronous(what))
}

impl Machine<'_> {
    pub(super) fn bulk(&mut self, warp: &mut Warp, on: u32, bulk: &Bulk) -> Result<(), Trouble> {
        for lane in lanes(on) {
            self.one_bulk(warp, lane, bulk).map_err(|kind| Trouble::new(lane, kind))?;
        }
        Ok(())
    }

    fn one_bulk(&mut self, warp: &mut Warp, lane: usize, bulk: &Bulk) -> Result<(), FaultKind> {
        if !matches!(bulk, Bulk::Commit | Bulk::Wait { .. }) {
            self.after_grid(warp.rank)?;
        }
        match *bulk {
            Bulk::LoadTensor { to, map, ref at, ref offsets, barrier, blocks } => {
                let (map, at) = self.tensor(warp, lane, map, at)?;
                let offsets: Vec<u16> = offsets.iter().map(|&slot| warp.regs.row::<u16>(slot)[lane]).collect();
                let rows = match &map.pixels {
                    None if offsets.is_empty() => rows(&map, &at),
                    Some(walk) if offsets.len() == 2 => pixels(&map, walk, &at, &offsets)?,
                    _ => return broken("a copy by a tensor map of the other mode (tile, im2col)".to_owned()),
                };
                let units = self.load_box(&map, rows)?;
                let to = self.destination(warp, lane_address(warp, to, lane), map.swizzle)?;
                let place = |(i, unit): (usize, [u8; UNIT])| (swizzled(to.1 + i * UNIT, map.swizzle) as u32, unit);
                let units = units.into_iter().enumerate().map(place).collect();
                self.land(warp, lane, to.0, barrier, blocks, units, map.box_bytes())
            }
            Bulk::Load { to, from, bytes, barrier, blocks } => {
                let bytes = warp.regs.row::<u32>(bytes)[lane] as usize;
                let from = lane_address(warp, from, lane);
                if !from.is_multiple_of(UNIT as u64) || !bytes.is_multiple_of(UNIT) {
                    return broken(format!("a bulk copy of {bytes} bytes from {from:#x}: both are multiples of 16"));
                }
                let data = self.memory.load(from, bytes, false)?.to_vec();
                let (rank, start) = self.destination(warp, lane_address(warp, to, lane), 0)?;
                let unit =
                    |(i, unit): (usize, &[u8])| ((start + i * UNIT) as u32, std::array::from_fn(|byte| unit[byte]));
                let units = data.chunks_exact(UNIT).enumerate().map(unit).collect();
                self.land(warp, lane, rank, barrier, blocks, units, bytes)
            }
            Bulk::StoreTensor { map, ref at, from } => {
                let (map, at) = self.tensor(warp, lane, map, at)?;
                if map.pixels.is_some() {
                    return broken("a store by a tensor map of pixels is not modelled".to_owned());
                }
                let from = self.own(warp, lane_address(warp, from, lane));
                self.store_box(warp, lane, &map, &at, from)
            }
            Bulk::Commit => {
                let groups = &mut warp.stores[lane];
                let group = std::mem::take(&mut groups.open);
                groups.committed.push_back(group);
                Ok(())
            }
            Bulk::Wait { pending, read } => {
                let count = warp.stores[lane].committed.len().saturating_sub(pending as usize);
                for i in 0..count {
                    let reads = std::mem::take(&mut warp.stores[lane].committed[i].reads);
                    self.finish_reads(warp.rank, &reads);
                }
                if !read {
                    for group in warp.stores[lane].committed.drain(..count).collect::<Vec<_>>() {
                        self.finish_writes(group)?;
                    }
                }
                self.progress += 1;
                Ok(())
            }
        }
    }

    /// The map at a generic address, and coordinates.
    fn tensor(&self, warp: &Warp, lane: usize, map: Slot, at: &[Slot]) -> Result<(TensorMap, Vec<i32>), FaultKind> {
        let address = warp.regs.row::<u64>(map)[lane];
        if !address.is_multiple_of(64) {
            return broken(format!("a tensor map at {address:#x}, which is no multiple of 64"));
        }
        let start = address.wrapping_sub(PARAM_BASE) as usize;
        let bytes = match start.checked_add(128).and_then(|end| self.params.get(start..end)) {
            Some(bytes) => bytes,
            None => self.memory.read(address, 128)?,
        };
        let Some(map) = TensorMap::decode(bytes) else {
            return broken(format!("there is no tensor map at {address:#x}"));
        };
        if map.dims.len() != at.len() {
            return broken(format!("{} coordinates for a tensor of {} dimensions", at.len(), map.dims.len()));
        }
        // Boxes with shorter rows leave holes, of which the documentation says nothing.
        let row = map.box_dims[0] as usize * map.element_bytes();
        if map.swizzle_bytes().is_some_and(|span| span != row) {
            return broken(format!("rows of {row} bytes in a wider swizzle are not modelled"));
        }
        Ok((map, at.iter().map(|&slot| warp.regs.row::<u32>(slot)[lane] as i32).collect()))
    }

    /// A box as it will stand in shared memory, but for the swizzle: zeros where the tensor has nothing.
    fn load_box(&mut self, map: &TensorMap, rows: Vec<Row>) -> Result<Vec<[u8; UNIT]>, FaultKind> {
        let size = map.element_bytes();
        let mut data = vec![0; map.box_bytes()];
        for row in rows {
            if let Some((skipped, count, address)) = inside(map, &row) {
                let from = self.memory.load(address, count * size, false)?;
                data[row.offset + skipped * size..][..count * size].copy_from_slice(from);
            }
        }
        match map.data_type {
            // CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: rounded as it is loaded.
            11 => data.chunks_exact_mut(4).for_each(|word| {
                let rounded = super::number::round_tf32(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                word.copy_from_slice(&rounded.to_le_bytes());
            }),
            10 | 12 => return broken("elements that are flushed as they are loaded are not modelled".to_owned()),
            _ => {}
        }
        Ok(data.chunks_exact(UNIT).map(|unit| std::array::from_fn(|byte| unit[byte])).collect())
    }

    /// Block and offset in its shared memory of a copy's destination, aligned as it must be.
    fn destination(&self, warp: &Warp, address: u64, swizzle: u32) -> Result<(usize, usize), FaultKind> {
        let (rank, address) = self.in_cluster(warp, address)?;
        let align = if swizzle > 0 { 128 } else { UNIT as u64 };
        if !address.is_multiple_of(align) {
            return broken(format!("a bulk copy at shared address {address:#x}, which is no multiple of {align}"));
        }
        Ok((rank, self.blocks[rank].place(address, 0)?))
    }

    /// Sends `units` to block `rank`, or to all of a multicast's blocks at the same place.
    #[expect(clippy::too_many_arguments, reason = "the parts of one instruction")]
    fn land(
        &mut self,
        warp: &Warp,
        lane: usize,
        rank: usize,
        barrier: Address,
        blocks: Slot,
        units: Units,
        bytes: usize,
    ) -> Result<(), FaultKind> {
        let (barrier_rank, barrier) = self.in_cluster(warp, lane_address(warp, barrier, lane))?;
        let size = self.blocks[rank].shared.len();
        if units.iter().any(|&(to, _)| to as usize + UNIT > size) {
            return broken(format!("a bulk copy of {bytes} bytes runs out of the {size} bytes of shared memory"));
        }
        if blocks == NONE {
            if barrier_rank != rank {
                return broken("a bulk copy and its barrier are in different blocks".to_owned());
            }
            return self.land_on(rank, barrier, units);
        }
        let mask = u32::from(warp.regs.row::<u16>(blocks)[lane]);
        if mask == 0 || mask >> self.blocks.len() != 0 {
            return broken(format!("a multicast to the blocks {mask:#b} of a cluster of {}", self.blocks.len()));
        }
        for to in lanes(mask) {
            self.alive(to)?;
            self.land_on(to, barrier, units.clone())?;
        }
        Ok(())
    }

    fn store_box(
        &mut self,
        warp: &mut Warp,
        lane: usize,
        map: &TensorMap,
        at: &[i32],
        from: u64,
    ) -> Result<(), FaultKind> {
        let align = if map.swizzle > 0 { 128 } else { UNIT as u64 };
        if !from.is_multiple_of(align) {
            return broken(format!("a bulk store from shared address {from:#x}, which is no multiple of {align}"));
        }
        let bytes = map.box_bytes();
        let block = &mut self.blocks[warp.rank];
        let start = block.place(from, bytes)?;
        let mut data = Vec::with_capacity(bytes);
        let readers = warp.threads();
        let stores = &mut warp.stores[lane].open;
        for unit in 0..bytes / UNIT {
            let at = swizzled(start + unit * UNIT, map.swizzle);
            data.extend(block.read_unit(at, &readers)?);
            stores.reads.push(at as u32);
        }
        let size = map.element_bytes();
        for row in rows(map, at) {
            if let Some((skipped, count, address)) = inside(map, &row) {
                let run = data[row.offset + skipped * size..][..count * size].to_vec();
                // Where nothing may be written, the instruction is to blame, not the wait.
                self.memory.store(address, run.len())?;
                stores.writes.push((address, run));
            }
        }
        Ok(())
    }

    fn finish_reads(&mut self, rank: usize, reads: &[u32]) {
        reads.iter().for_each(|&at| self.blocks[rank].claims.end(at as usize, UNIT, Use::Read));
    }

    fn finish_writes(&mut self, stores: Stores) -> Result<(), FaultKind> {
        for (address, data) in stores.writes {
            self.memory.store(address, data.len())?.copy_from_slice(&data);
        }
        Ok(())
    }

    /// The writes that nobody waited for, when a warp's block ends.
    pub(super) fn finish_stores(&mut self, warp: &mut Warp) -> Result<(), Trouble> {
        for lane in 0..32 {
            let groups = std::mem::take(&mut warp.stores[lane]);
            for group in groups.committed.into_iter().chain([groups.open]) {
                self.finish_writes(group).map_err(|kind| Trouble::new(lane, kind))?;
            }
        }
        Ok(())
    }
}
