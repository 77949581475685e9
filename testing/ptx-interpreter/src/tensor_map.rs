//! Tensor maps: what `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` make and bulk copies read. NVIDIA's 128 bytes are its own secret; these hold
//! the same facts in an order of this crate's, so that kernels pass them on as they pass on the real ones.

use thiserror::Error;

/// What the 128 bytes begin with.
const MAGIC: [u8; 8] = *b"ptx-tmap";
/// Most dimensions of a tensor.
pub(crate) const MOST_DIMS: usize = 5;
/// Most elements of a box along one dimension, and most pixels of a copy.
const MOST_BOX: u32 = 256;
const MOST_PIXELS: u32 = 1024;

/// Why a map is not made: what the driver's documentation demands.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a tensor map with {0}")]
pub struct MapError(String);

/// A tensor in global memory, innermost dimension first, and the box that one copy takes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Where it starts.
    pub address: u64,
    /// `CUtensorMapDataType`.
    pub data_type: u32,
    /// Elements along each dimension; 1 to 5 of them.
    pub dims: Vec<u64>,
    /// Bytes from one element to the next along each dimension but the first.
    pub strides_bytes: Vec<u64>,
    /// Elements of the box along each dimension; of pixels, channels and pixels.
    pub box_dims: Vec<u32>,
    /// How pixels are walked over, of images [channels, width, height, images].
    pub pixels: Option<Pixels>,
    /// `CUtensorMapSwizzle`: 0 is none, 1 to 3 swizzle rows of 32, 64 and 128 bytes.
    pub swizzle: u32,
}

/// The bounding box of pixels that copies walk over (PTX ISA, "Im2col mode"): width first, then height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// The first pixel.
    pub lower: [i32; 2],
    /// The last one, from an image's last.
    pub upper: [i32; 2],
    /// From one to the next.
    pub steps: [u32; 2],
}

impl Pixels {
    /// The last pixel along an axis of images of these dimensions.
    pub(crate) fn last(&self, dims: &[u64], axis: usize) -> i64 {
        dims[axis + 1] as i64 - 1 + i64::from(self.upper[axis])
    }
}

impl TensorMap {
    /// Bytes of an element.
    pub(crate) fn element_bytes(&self) -> usize {
        match self.data_type {
            0 => 1,
            1 | 6 | 9 => 2,
            2 | 3 | 7 | 10..=12 => 4,
            _ => 8,
        }
    }

    /// Bytes of a swizzled row; `None` without a swizzle.
    pub(crate) fn swizzle_bytes(&self) -> Option<usize> {
        (self.swizzle > 0).then(|| 16 << self.swizzle)
    }

    /// Bytes of a box.
    pub(crate) fn box_bytes(&self) -> usize {
        self.box_dims.iter().map(|&n| n as usize).product::<usize>() * self.element_bytes()
    }

    /// The rules of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object Management"), without interleaving.
    fn check(&self) -> Result<(), MapError> {
        let refuse = |what: String| Err(MapError(what));
        let rank = self.dims.len();
        let boxes = if self.pixels.is_some() { 2 } else { rank };
        if rank == 0 || rank > MOST_DIMS || self.strides_bytes.len() + 1 != rank || self.box_dims.len() != boxes {
            return refuse(format!("{rank} dimensions, {} strides", self.strides_bytes.len()));
        }
        if self.data_type > 12 || self.swizzle > 3 {
            return refuse(format!("elements of type {} and swizzle {}", self.data_type, self.swizzle));
        }
        if !self.address.is_multiple_of(16) {
            return refuse(format!("an address that is no multiple of 16: {:#x}", self.address));
        }
        if let Some(dim) = self.dims.iter().find(|&&dim| dim == 0 || dim > 1 << 32) {
            return refuse(format!("{dim} elements along a dimension"));
        }
        if let Some(stride) = self.strides_bytes.iter().find(|&&stride| !stride.is_multiple_of(16) || stride >= 1 << 40)
        {
            return refuse(format!("a stride of {stride} bytes, which must be a multiple of 16 below 2^40"));
        }
        if let Some(pixels) = &self.pixels {
            // Images of one and three axes are in nobody's use.
            let corners = pixels.lower.iter().chain(&pixels.upper).all(|corner| (-128..=127).contains(corner));
            let steps = pixels.steps.iter().all(|step| (1..=8).contains(step));
            let some = rank == 4 && (0..2).all(|axis| i64::from(pixels.lower[axis]) <= pixels.last(&self.dims, axis));
            if !corners || !steps || !some {
                return refuse(format!("{pixels:?} of {:?}", self.dims));
            }
        }
        let most = if self.pixels.is_some() { MOST_PIXELS } else { MOST_BOX };
        if let Some(n) = self.box_dims.iter().find(|&&n| n == 0 || n > most) {
            return refuse(format!("a box of {n} elements along a dimension: 1 to {most} are possible"));
        }
        if self.box_dims[0] > MOST_BOX {
            return refuse(format!("{} channels: 1 to {MOST_BOX} are possible", self.box_dims[0]));
        }
        let row = self.box_dims[0] as usize * self.element_bytes();
        if !row.is_multiple_of(16) {
            return refuse(format!("boxes with rows of {row} bytes, which must be a multiple of 16"));
        }
        match self.swizzle_bytes() {
            Some(span) if row > span => refuse(format!("boxes with rows of {row} bytes and a swizzle of {span}")),
            _ => Ok(()),
        }
    }

    /// The 128 bytes of a parameter.
    ///
    /// # Errors
    /// [`MapError`]: a rule that it breaks.
    pub fn encode(&self) -> Result<[u8; 128], MapError> {
        self.check()?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.address.to_le_bytes());
        bytes.extend([self.data_type as u8, self.dims.len() as u8, self.swizzle as u8, self.pixels.is_some().into()]);
        let at = |list: &[u64], i: usize| list.get(i).copied().unwrap_or(0);
        (0..MOST_DIMS).for_each(|i| bytes.extend(at(&self.dims, i).to_le_bytes()));
        (0..MOST_DIMS - 1).for_each(|i| bytes.extend(at(&self.strides_bytes, i).to_le_bytes()));
        self.box_dims.iter().for_each(|&n| bytes.extend((n as u16).to_le_bytes()));
        if let Some(Pixels { lower, upper, steps }) = self.pixels {
            bytes.extend(lower.iter().chain(&upper).map(|&corner| corner as i8 as u8));
            bytes.extend(steps.map(|step| step as u8));
        }
        let mut encoded = [0; 128];
        encoded[..bytes.len()].copy_from_slice(&bytes);
        Ok(encoded)
    }

    /// The map in 128 bytes; `None` when they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<TensorMap> {
        let mut rest = bytes.strip_prefix(&MAGIC)?;
        let mut take = |count: usize| {
            let (taken, after) = rest.split_at_checked(count)?;
            rest = after;
            let mut word = [0; 8];
            word[..count].copy_from_slice(taken);
            Some(u64::from_le_bytes(word))
        };
        let address = take(8)?;
        let [data_type, rank, swizzle, walks] = [take(1)?, take(1)?, take(1)?, take(1)?];
        let dims: Vec<u64> = (0..MOST_DIMS).map(|_| take(8)).collect::<Option<_>>()?;
        let strides: Vec<u64> = (1..MOST_DIMS).map(|_| take(8)).collect::<Option<_>>()?;
        let boxes = if walks == 1 { 2 } else { rank };
        let box_dims = (0..boxes).map(|_| take(2).map(|n| n as u32)).collect::<Option<_>>()?;
        let mut two = || Some([take(1)? as u8, take(1)? as u8]);
        let pixels = if walks == 1 {
            let [lower, upper] = [two()?, two()?].map(|corner| corner.map(|n| i32::from(n as i8)));
            Some(Pixels { lower, upper, steps: two()?.map(u32::from) })
        } else {
            None
        };
        let map = TensorMap {
            address,
            data_type: data_type as u32,
            dims: dims.get(..rank as usize)?.to_vec(),
            strides_bytes: strides.get(..(rank as usize).checked_sub(1)?)?.to_vec(),
            box_dims,
            pixels,
            swizzle: swizzle as u32,
        };
        map.check().is_ok().then_some(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> TensorMap {
        let (dims, strides_bytes, box_dims) = (vec![90, 77], vec![400], vec![32, 8]);
        TensorMap { address: 1 << 41, data_type: 7, dims, strides_bytes, box_dims, pixels: None, swizzle: 3 }
    }

    /// Of 9 x 7 images with a row and two columns of padding around them.
    fn images() -> TensorMap {
        let pixels = Some(Pixels { lower: [-1, -2], upper: [-1, 0], steps: [2, 1] });
        let (dims, strides_bytes) = (vec![40, 7, 9, 3], vec![96, 7 * 96, 63 * 96]);
        TensorMap { address: 64, data_type: 6, dims, strides_bytes, box_dims: vec![64, 1000], pixels, swizzle: 3 }
    }

    #[test]
    fn encoded_map_is_read_back() {
        for map in [matrix(), images()] {
            assert_eq!(TensorMap::decode(&map.encode().expect("a map")), Some(map));
        }
        assert_eq!(TensorMap::decode(&[0; 128]), None);
    }

    #[test]
    fn maps_that_the_driver_refuses_are_refused() {
        let broken: [fn(&mut TensorMap); 8] = [
            |map| map.address += 8,
            |map| map.dims[0] = 0,
            |map| map.strides_bytes[0] = 404,
            |map| map.box_dims[1] = 257,
            |map| map.box_dims[0] = 3,
            |map| map.box_dims[0] = 64,
            |map| map.swizzle = 4,
            |map| map.dims.push(2),
        ];
        for (at, breaks) in broken.into_iter().enumerate() {
            let mut map = matrix();
            breaks(&mut map);
            assert!(map.encode().is_err(), "{at}");
        }
    }

    #[test]
    fn maps_of_pixels_that_the_driver_refuses_are_refused() {
        let broken: [fn(&mut TensorMap, &mut Pixels); 7] = [
            |_, pixels| pixels.lower[0] = -129,
            |_, pixels| pixels.upper[1] = 128,
            |_, pixels| pixels.steps[0] = 9,
            |_, pixels| pixels.steps[1] = 0,
            // No pixel is left.
            |_, pixels| pixels.upper[0] = -8,
            |map, _| map.box_dims[1] = 1025,
            |map, _| map.dims.push(2),
        ];
        for (at, breaks) in broken.into_iter().enumerate() {
            let mut map = images();
            let mut pixels = map.pixels.expect("pixels");
            breaks(&mut map, &mut pixels);
            map.pixels = Some(pixels);
            assert!(map.encode().is_err(), "{at}");
        }
    }
}
