//! Names of kernels in PTX: those of the shader where PTX can spell them (PTX ISA 4.4: ASCII letters, digits, `_` and
//! `$`, and no instruction's name).

use std::collections::HashSet;

/// Words that PTX keeps for itself (table 2 of 4.4).
const RESERVED: &[&str] = &[
    "abs",
    "activemask",
    "add",
    "addc",
    "and",
    "atom",
    "bar",
    "barrier",
    "bfe",
    "bfi",
    "bfind",
    "bmsk",
    "bra",
    "brev",
    "brkpt",
    "brx",
    "call",
    "clz",
    "cnot",
    "copysign",
    "cos",
    "cvt",
    "cvta",
    "discard",
    "div",
    "dp2a",
    "dp4a",
    "ex2",
    "exit",
    "fence",
    "fma",
    "fns",
    "getctarank",
    "griddepcontrol",
    "isspacep",
    "istypep",
    "ld",
    "ldmatrix",
    "ldu",
    "lg2",
    "lop3",
    "mad",
    "mad24",
    "madc",
    "mapa",
    "match",
    "max",
    "mbarrier",
    "membar",
    "min",
    "mma",
    "mov",
    "mul",
    "mul24",
    "multimem",
    "nanosleep",
    "neg",
    "not",
    "or",
    "pmevent",
    "popc",
    "prefetch",
    "prefetchu",
    "prmt",
    "rcp",
    "red",
    "redux",
    "rem",
    "ret",
    "rsqrt",
    "sad",
    "selp",
    "set",
    "setmaxnreg",
    "setp",
    "shf",
    "shfl",
    "shl",
    "shr",
    "sin",
    "slct",
    "sqrt",
    "st",
    "stackrestore",
    "stacksave",
    "stmatrix",
    "sub",
    "subc",
    "suld",
    "suq",
    "sured",
    "sust",
    "szext",
    "tanh",
    "tcgen05",
    "tensormap",
    "testp",
    "tex",
    "tld4",
    "trap",
    "txq",
    "vabsdiff",
    "vadd",
    "vmad",
    "vmax",
    "vmin",
    "vote",
    "vset",
    "vshl",
    "vshr",
    "vsub",
    "wgmma",
    "wmma",
    "xor",
];

/// Hands out names, none of them twice.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    taken: HashSet<String>,
}

impl Symbols {
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let mut symbol: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let first = symbol.chars().next().unwrap_or('0');
        // A lone underscore is no identifier either.
        if first.is_ascii_digit() || first == '_' {
            symbol.insert(0, 'k');
        }
        while RESERVED.contains(&symbol.as_str()) || self.taken.contains(&symbol) {
            symbol.push('_');
        }
        self.taken.insert(symbol.clone());
        symbol
    }
}
