//! Kernels of the family gemv: products with at most 16 rows or columns, as streams of the large operand.
//! Sources: `cuda/gemv.cuh`, `cuda/gemv_mma.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++ and threads follow from it, and the planner (`plans/gemv.rs`) walks over
//! the same list. Kernels of 16-bit operands write f32 or the operands' type, as they are told.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::KernelInfo;
use crate::{Param, Target};

/// The algorithm, by how the large operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Method {
    /// Neighbours along K; `rows` rows a warp.
    Dot { rows: u32 },
    /// Neighbours along the large dimension; `lanes` of 16 bytes side by side.
    Columns { lanes: u32 },
    /// As [`Method::Dot`], by tensor cores; `tiles` of 16 rows a block.
    DotMma { tiles: u32 },
    /// As [`Method::Columns`], by tensor cores; 8 times `columns` columns a block.
    ColumnsMma { columns: u32 },
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub operands: DType,
    pub method: Method,
    /// Most vectors that it takes.
    pub vectors: u32,
    warps: u32,
    /// Both operands lie on a 16-byte grid.
    pub aligned: bool,
    pub symbol: String,
}

/// Types of A and B.
const OPERANDS: [DType; 8] =
    [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::U8, DType::F8E4M3, DType::F8E5M2];

/// Methods with the vectors and warps they are made for, of operands of this type.
fn methods(operands: DType) -> Vec<(Method, u32, u32)> {
    if operands.is_float8() {
        return vec![(Method::Dot { rows: 2 }, 1, 8), (Method::Dot { rows: 4 }, 4, 4)];
    }
    // Four columns of sums in f64 need more registers than 512 threads leave to each.
    let warps = if operands == DType::F64 { 8 } else { 16 };
    let mut list = vec![
        (Method::Dot { rows: 2 }, 1, 8),
        (Method::Columns { lanes: 4 }, 1, 16),
        (Method::Columns { lanes: 8 }, 1, 16),
        (Method::Dot { rows: 4 }, 4, 4),
        (Method::Columns { lanes: 8 }, 4, warps),
    ];
    if operands.is_float() && operands.size_bytes() == 2 {
        list.extend([
            (Method::DotMma { tiles: 2 }, 8, 8),
            (Method::DotMma { tiles: 2 }, 16, 8),
            (Method::ColumnsMma { columns: 8 }, 8, 16),
            // 8 warps: their sums take 32 KiB, and 48 are the most that need not be asked for.
            (Method::ColumnsMma { columns: 8 }, 16, 8),
        ]);
    }
    if operands == DType::F32 {
        list.extend([
            (Method::Dot { rows: 4 }, 8, 4),
            (Method::Columns { lanes: 4 }, 8, 8),
            (Method::Dot { rows: 2 }, 16, 4),
            (Method::Columns { lanes: 4 }, 16, 8),
        ]);
    }
    list
}

impl Instance {
    fn new(operands: DType, (method, vectors, warps): (Method, u32, u32), aligned: bool) -> Instance {
        let result = if operands.is_float() { "" } else { "_i32" };
        let method_name = match method {
            Method::Dot { rows } => format!("dot{rows}"),
            Method::Columns { lanes } => format!("columns{lanes}"),
            Method::DotMma { tiles } => format!("dot_mma{tiles}"),
            Method::ColumnsMma { columns } => format!("columns_mma{columns}"),
        };
        let any = if aligned { "" } else { "_any" };
        let symbol = format!("gemv_{}{result}_{method_name}_x{vectors}{any}", operands.name());
        Instance { operands, method, vectors, warps, aligned, symbol }
    }

    /// Rows of the large operand that a block takes.
    pub fn rows_per_block(&self) -> u64 {
        u64::from(match self.method {
            Method::Dot { rows } => rows * self.warps,
            Method::Columns { lanes } => lanes * 16 / self.operands.size_bytes() as u32,
            Method::DotMma { tiles } => 16 * tiles,
            Method::ColumnsMma { columns } => 8 * columns,
        })
    }

    /// Whether it wants the large operand's neighbours along K.
    pub fn along_k(&self) -> bool {
        matches!(self.method, Method::Dot { .. } | Method::DotMma { .. })
    }

    fn info(&self) -> KernelInfo {
        let Instance { symbol, vectors, warps, aligned, operands, .. } = self;
        let t = super::cpp(*operands);
        let out = match operands {
            _ if !operands.is_float() => "int32_t",
            _ if operands.is_float8() => "__half",
            _ => t,
        };
        let scalar = if self.operands == DType::F64 { "double" } else { "float" };
        let sixteen = *vectors == 16;
        let instance = match self.method {
            Method::Dot { rows } => {
                format!("GEMV_DOT({symbol}, {t}, {out}, {scalar}, {vectors}, {rows}, {warps}, {aligned})")
            }
            Method::Columns { lanes } => {
                format!("GEMV_COLUMNS({symbol}, {t}, {out}, {scalar}, {vectors}, {lanes}, {warps}, {aligned})")
            }
            Method::DotMma { tiles } => {
                format!("GEMV_DOT_MMA({symbol}, {t}, {out}, {scalar}, {sixteen}, {tiles}, {warps}, {aligned})")
            }
            Method::ColumnsMma { columns } => {
                format!("GEMV_COLUMNS_MMA({symbol}, {t}, {out}, {scalar}, {sixteen}, {columns}, {warps}, {aligned})")
            }
        };
        let spills_on_sm_120 = matches!(symbol.as_str(), "gemv_f32_dot2_x16_any" | "gemv_f32_columns4_x16_any");
        let tensor = matches!(self.method, Method::DotMma { .. } | Method::ColumnsMma { .. });
        let scalar = super::scalar(self.operands);
        use Param::{Address, I64, U32};
        KernelInfo {
            symbol: symbol.clone(),
            source: if tensor { "gemv_mma.cuh" } else { "gemv.cuh" },
            instance,
            targets: match operands {
                _ if operands.is_float8() => Target::WITH_FLOAT8,
                _ if spills_on_sm_120 => Target::BUT_SM_120,
                _ => Target::EVERYWHERE,
            },
            block: [32 * warps, 1, 1],
            #[rustfmt::skip]
            params: vec![
                Address, Address, Address, // large operand, vectors, d
                U32, U32, U32,             // rows of the large one, vectors, k
                I64, I64, I64, I64,        // pitches, batch strides
                U32, U32, U32,             // whether the vectors are A, whether d is f32, elements of k in a slab
                scalar, scalar,            // alpha, beta
                Address, I64, I64,         // c, pitch, batch stride
                Address, U32,              // bias, activation
            ],
            tensor: if tensor { &["HMMA"] } else { &[] },
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for operands in OPERANDS {
        for method in methods(operands) {
            list.extend([true, false].map(|aligned| Instance::new(operands, method, aligned)));
        }
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
