//! Kernels of the family gemv: products with at most 16 rows or columns, as streams of the large operand.
//! Sources: `cuda/gemv.cuh`, `cuda/gemv_mma.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++ and threads follow from it, and the planner (`plans/gemv.rs`) walks over
//! the same list. Kernels of 16-bit operands write f32 or the operands' type, as they are told.

use std::sync::LazyLock;

use super::KernelInfo;
use crate::{Param, Target};

/// What is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operands {
    F32,
    F16,
    BF16,
    F64,
    I8,
    U8,
}

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
    pub operands: Operands,
    pub method: Method,
    /// Most vectors that it takes.
    pub vectors: u32,
    warps: u32,
    /// Both operands lie on a 16-byte grid.
    pub aligned: bool,
    pub symbol: String,
}

impl Operands {
    const ALL: [Operands; 6] =
        [Operands::F32, Operands::F16, Operands::BF16, Operands::F64, Operands::I8, Operands::U8];

    /// Bytes per element.
    pub fn element_bytes(self) -> u32 {
        match self {
            Operands::I8 | Operands::U8 => 1,
            Operands::F16 | Operands::BF16 => 2,
            Operands::F32 => 4,
            Operands::F64 => 8,
        }
    }

    /// Bytes of a sum.
    pub fn sum_bytes(self) -> u64 {
        if self == Operands::F64 { 8 } else { 4 }
    }

    /// In symbols, and in C++: operands, result, scalars.
    fn names(self) -> (&'static str, [&'static str; 3]) {
        match self {
            Operands::F32 => ("f32", ["float", "float", "float"]),
            Operands::F16 => ("f16", ["__half", "__half", "float"]),
            Operands::BF16 => ("bf16", ["__nv_bfloat16", "__nv_bfloat16", "float"]),
            Operands::F64 => ("f64", ["double", "double", "double"]),
            Operands::I8 => ("i8_i32", ["int8_t", "int32_t", "float"]),
            Operands::U8 => ("u8_i32", ["uint8_t", "int32_t", "float"]),
        }
    }

    /// Methods with the vectors and warps they are made for.
    fn methods(self) -> Vec<(Method, u32, u32)> {
        // Four columns of sums in f64 need more registers than 512 threads leave to each.
        let warps = if self == Operands::F64 { 8 } else { 16 };
        let mut list = vec![
            (Method::Dot { rows: 2 }, 1, 8),
            (Method::Columns { lanes: 4 }, 1, 16),
            (Method::Columns { lanes: 8 }, 1, 16),
            (Method::Dot { rows: 4 }, 4, 4),
            (Method::Columns { lanes: 8 }, 4, warps),
        ];
        match self {
            Operands::F16 | Operands::BF16 => list.extend([
                (Method::DotMma { tiles: 2 }, 8, 8),
                (Method::DotMma { tiles: 2 }, 16, 8),
                (Method::ColumnsMma { columns: 8 }, 8, 16),
                // 8 warps: their sums take 32 KiB, and 48 are the most that need not be asked for.
                (Method::ColumnsMma { columns: 8 }, 16, 8),
            ]),
            Operands::F32 => list.extend([
                (Method::Dot { rows: 4 }, 8, 4),
                (Method::Columns { lanes: 4 }, 8, 8),
                (Method::Dot { rows: 2 }, 16, 4),
                (Method::Columns { lanes: 4 }, 16, 8),
            ]),
            Operands::F64 | Operands::I8 | Operands::U8 => {}
        }
        list
    }
}

impl Instance {
    fn new(operands: Operands, (method, vectors, warps): (Method, u32, u32), aligned: bool) -> Instance {
        let (name, _) = operands.names();
        let method_name = match method {
            Method::Dot { rows } => format!("dot{rows}"),
            Method::Columns { lanes } => format!("columns{lanes}"),
            Method::DotMma { tiles } => format!("dot_mma{tiles}"),
            Method::ColumnsMma { columns } => format!("columns_mma{columns}"),
        };
        let any = if aligned { "" } else { "_any" };
        let symbol = format!("gemv_{name}_{method_name}_x{vectors}{any}");
        Instance { operands, method, vectors, warps, aligned, symbol }
    }

    /// Rows of the large operand that a block takes.
    pub fn rows_per_block(&self) -> u64 {
        u64::from(match self.method {
            Method::Dot { rows } => rows * self.warps,
            Method::Columns { lanes } => lanes * 16 / self.operands.element_bytes(),
            Method::DotMma { tiles } => 16 * tiles,
            Method::ColumnsMma { columns } => 8 * columns,
        })
    }

    /// Whether it wants the large operand's neighbours along K.
    pub fn along_k(&self) -> bool {
        matches!(self.method, Method::Dot { .. } | Method::DotMma { .. })
    }

    fn info(&self) -> KernelInfo {
        let (Instance { symbol, vectors, warps, aligned, .. }, (_, [t, out, scalar])) = (self, self.operands.names());
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
        let tensor = matches!(self.method, Method::DotMma { .. } | Method::ColumnsMma { .. });
        let scalar = if self.operands == Operands::F64 { Param::F64 } else { Param::F32 };
        use Param::{Address, I64, U32};
        KernelInfo {
            symbol: symbol.clone(),
            source: if tensor { "gemv_mma.cuh" } else { "gemv.cuh" },
            instance,
            targets: &[Target::SM_80, Target::SM_90, Target::PTX_80],
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
    for operands in Operands::ALL {
        for method in operands.methods() {
            list.extend([true, false].map(|aligned| Instance::new(operands, method, aligned)));
        }
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
