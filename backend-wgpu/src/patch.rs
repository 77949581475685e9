//! Writing less than a word: wgpu copies words, WGSL stores words, so bytes are merged into theirs on the device.

use std::sync::Arc;

use polywarp_core::Result;
use polywarp_core::plan::{Access, Source};

use crate::fault::lock;
use crate::memory::Raw;
use crate::pipelines::{Pipeline, Trust};
use crate::state::WgpuBackend;

/// Parameters: index of the word, the bits to replace, their new value.
const PATCH_WGSL: &str = "
struct Params { word: u32, bits: u32, value: u32, pad: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(1)
fn main() {
    data[params.word] = (data[params.word] & ~params.bits) | (params.value & params.bits);
}
";

impl WgpuBackend {
    /// Records the replacement of `bytes` (at most 3, within one word) at `offset_bytes`.
    pub(crate) fn patch(&self, raw: &Arc<Raw>, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let pipeline = self.patch_pipeline()?;
        let shift = 8 * (offset_bytes % 4) as u32;
        let (mut bits, mut value) = (0u32, 0u32);
        for (index, &byte) in bytes.iter().enumerate().take(4) {
            bits |= 0xff << (8 * index);
            value |= u32::from(byte) << (8 * index);
        }
        // A binding spans at most 4 GiB on every API, so a word's index fits.
        let params = [(offset_bytes / 4) as u32, bits << shift, value << shift, 0];
        lock(&self.stream).launch(&pipeline, &[raw], &params, [1, 1, 1])
    }

    fn patch_pipeline(&self) -> Result<Arc<Pipeline>> {
        let mut made = lock(&self.patch_pipeline);
        if let Some(pipeline) = &*made {
            return Ok(Arc::clone(pipeline));
        }
        let source =
            Source { name: "patch_bytes".to_owned(), wgsl: PATCH_WGSL.to_owned(), bindings: vec![Access::ReadWrite] };
        let pipeline = self.pipelines.create(&source, 4, Trust::Own)?;
        *made = Some(Arc::clone(&pipeline));
        Ok(pipeline)
    }
}
