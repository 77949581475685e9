//! Kernels of the family quantise: matrices to i8 by their largest magnitudes, and sums of i8 products back. Source:
//! `cuda/quantise.cu`. No op of core asks for them yet: they are for quantised linear layers.

use super::KernelInfo;
use crate::{Param, Target};

/// `THREADS` in `cuda/quantise.cu`.
const THREADS: u32 = 256;

/// Types of sources and results, in symbols and in C++.
const TYPES: [[&str; 2]; 3] = [["f32", "float"], ["f16", "__half"], ["bf16", "__nv_bfloat16"]];
/// Threads of a row: of short ones, of long ones.
const LANES: [u32; 2] = [32, 256];

fn info(symbol: String, instance: String, params: Vec<Param>) -> KernelInfo {
    KernelInfo {
        symbol,
        source: "quantise.cu",
        instance,
        targets: Target::EVERYWHERE,
        block: [THREADS, 1, 1],
        params,
        ..KernelInfo::default()
    }
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    use Param::{Address, F32, I64, U32};
    let mut list = vec![info(
        "absmax_finish".to_owned(),
        "ABSMAX_FINISH(absmax_finish)".to_owned(),
        vec![Address, Address, U32, U32], // slabs' maxima, scales, slabs, count
    )];
    let mut add = |macro_name: &str, symbol: String, arguments: String, params: Vec<Param>| {
        let instance = format!("{macro_name}({symbol}, {arguments})");
        list.push(info(symbol, instance, params));
    };
    for [name, cpp] in TYPES {
        for lanes in LANES {
            // source, q, scales; rows, k; pitches of source and q
            let params = vec![Address, Address, Address, U32, U32, I64, I64];
            add("QUANTISE_ROWS", format!("quantise_rows{lanes}_{name}"), format!("{cpp}, {lanes}"), params);
        }
        // source, slabs' maxima; rows, columns; pitch; rows of a slab
        let params = vec![Address, Address, U32, U32, I64, U32];
        add("ABSMAX_COLUMNS", format!("absmax_columns_{name}"), cpp.to_owned(), params);
        // source, blocks' maxima; rows, k; pitch
        let params = vec![Address, Address, U32, U32, I64];
        add("ABSMAX_ALL", format!("absmax_all_{name}"), cpp.to_owned(), params);
        // source, q, scales; rows, k; pitches; whether scales change with the row, with the column
        let params = vec![Address, Address, Address, U32, U32, I64, I64, U32, U32];
        add("QUANTISE_SCALED", format!("quantise_scaled_{name}"), cpp.to_owned(), params);
        // sums, d; batches, m, n; alpha to activation; scales of rows and columns
        let mut params = vec![Address, Address, U32, U32, U32];
        params.extend([F32, F32, Address, I64, I64, Address, U32, Address, Address]);
        add("DEQUANTISE", format!("dequantise_i32_{name}"), cpp.to_owned(), params);
    }
    list
}
