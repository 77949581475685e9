//! WGSL's types, their spelling, and their layout in memory (WGSL specification, 14.4 "Memory layout").

use crate::random::Random;

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    /// `bool`, which no buffer holds.
    Bool,
    /// `i32`
    I32,
    /// `u32`
    U32,
    /// `f32`
    F32,
    /// `f16`
    F16,
    /// `f64`, of naga
    F64,
    /// `i64`, of naga
    I64,
    /// `u64`, of naga
    U64,
}

impl Scalar {
    /// Its WGSL name.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I32 => "i32",
            Scalar::U32 => "u32",
            Scalar::F32 => "f32",
            Scalar::F16 => "f16",
            Scalar::F64 => "f64",
            Scalar::I64 => "i64",
            Scalar::U64 => "u64",
        }
    }

    /// Its size.
    pub fn bytes(self) -> usize {
        match self {
            Scalar::F16 => 2,
            Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::F64 | Scalar::I64 | Scalar::U64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F16 | Scalar::F64)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64)
    }

    pub(crate) fn is_signed(self) -> bool {
        !matches!(self, Scalar::Bool | Scalar::U32 | Scalar::U64)
    }

    /// Largest magnitude of a float that a variable holds, and the number of bits after its binary point: products and
    /// sums of products of two such numbers are exact in the type.
    pub(crate) fn resting(self) -> (f64, u32) {
        if self == Scalar::F16 { (8.0, 1) } else { (32.0, 2) }
    }

    /// Bits of the significand.
    pub(crate) fn precision(self) -> u32 {
        match self {
            Scalar::F16 => 11,
            Scalar::F64 => 53,
            _ => 24,
        }
    }
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Scalar(Scalar),
    Vector(usize, Scalar),
    /// Columns, rows.
    Matrix(usize, usize, Scalar),
    Array(Box<Ty>, usize),
    /// Index into [`Types::structs`].
    Struct(usize),
}

impl Ty {
    /// A scalar for one component, else a vector.
    pub(crate) fn of(components: usize, scalar: Scalar) -> Ty {
        if components == 1 { Ty::Scalar(scalar) } else { Ty::Vector(components, scalar) }
    }

    /// The type of an element, for what `[]` applies to.
    pub(crate) fn element(&self) -> Option<(Ty, usize)> {
        match self {
            Ty::Scalar(_) | Ty::Struct(_) => None,
            Ty::Vector(n, scalar) => Some((Ty::Scalar(*scalar), *n)),
            Ty::Matrix(columns, rows, scalar) => Some((Ty::Vector(*rows, *scalar), *columns)),
            Ty::Array(element, n) => Some(((**element).clone(), *n)),
        }
    }
}

/// The struct types of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    /// Their members.
    pub(crate) structs: Vec<Vec<Ty>>,
}

/// A scalar in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start.
    pub offset: usize,
    /// Its type.
    pub scalar: Scalar,
}

fn round_up(x: usize, align: usize) -> usize {
    x.div_ceil(align) * align
}

impl Types {
    pub(crate) fn name(&self, ty: &Ty) -> String {
        match ty {
            Ty::Scalar(scalar) => scalar.name().to_owned(),
            Ty::Vector(n, scalar) => format!("vec{n}<{}>", scalar.name()),
            Ty::Matrix(columns, rows, scalar) => format!("mat{columns}x{rows}<{}>", scalar.name()),
            Ty::Array(element, n) => format!("array<{}, {n}>", self.name(element)),
            Ty::Struct(index) => format!("S{index}"),
        }
    }

    /// The declarations of all structs.
    pub(crate) fn declarations(&self) -> String {
        let mut text = String::new();
        for (index, members) in self.structs.iter().enumerate() {
            let members: Vec<String> =
                members.iter().enumerate().map(|(i, ty)| format!("m{i}: {}", self.name(ty))).collect();
            text += &format!("struct S{index} {{ {} }}\n", members.join(", "));
        }
        text
    }

    /// Alignment and size in bytes.
    pub(crate) fn layout(&self, ty: &Ty) -> (usize, usize) {
        match ty {
            Ty::Scalar(scalar) => (scalar.bytes(), scalar.bytes()),
            Ty::Vector(n, scalar) => (scalar.bytes() * if *n == 2 { 2 } else { 4 }, n * scalar.bytes()),
            Ty::Matrix(columns, rows, scalar) => {
                let (align, size) = self.layout(&Ty::Vector(*rows, *scalar));
                (align, columns * round_up(size, align))
            }
            Ty::Array(element, n) => (self.layout(element).0, n * self.stride(element)),
            Ty::Struct(index) => {
                let (mut align, mut end) = (1, 0);
                for member in &self.structs[*index] {
                    let (a, size) = self.layout(member);
                    align = align.max(a);
                    end = round_up(end, a) + size;
                }
                (align, round_up(end, align))
            }
        }
    }

    /// Bytes from one element of an array to the next.
    pub(crate) fn stride(&self, element: &Ty) -> usize {
        let (align, size) = self.layout(element);
        round_up(size, align)
    }

    /// Every scalar of a `ty` that starts at `offset`.
    pub(crate) fn fields(&self, ty: &Ty, offset: usize, fields: &mut Vec<Field>) {
        match ty {
            Ty::Scalar(scalar) => fields.push(Field { offset, scalar: *scalar }),
            Ty::Vector(n, scalar) => {
                fields.extend((0..*n).map(|i| Field { offset: offset + i * scalar.bytes(), scalar: *scalar }));
            }
            Ty::Matrix(columns, rows, scalar) => {
                let stride = self.stride(&Ty::Vector(*rows, *scalar));
                for column in 0..*columns {
                    self.fields(&Ty::Vector(*rows, *scalar), offset + column * stride, fields);
                }
            }
            Ty::Array(element, n) => {
                for i in 0..*n {
                    self.fields(element, offset + i * self.stride(element), fields);
                }
            }
            Ty::Struct(index) => {
                let mut end = offset;
                for member in &self.structs[*index] {
                    let (align, size) = self.layout(member);
                    end = round_up(end, align);
                    self.fields(member, end, fields);
                    end += size;
                }
            }
        }
    }

    /// Whether a `bool` is in it.
    pub(crate) fn has_bool(&self, ty: &Ty) -> bool {
        match ty {
            Ty::Scalar(scalar) | Ty::Vector(_, scalar) | Ty::Matrix(_, _, scalar) => *scalar == Scalar::Bool,
            Ty::Array(element, _) => self.has_bool(element),
            Ty::Struct(index) => self.structs[*index].iter().any(|member| self.has_bool(member)),
        }
    }

    /// Number of scalars in it.
    pub(crate) fn scalars(&self, ty: &Ty) -> usize {
        let mut fields = Vec::new();
        self.fields(ty, 0, &mut fields);
        fields.len()
    }
}

/// Writes a random value of the field's type: any integer, small ones more often; a float that variables hold.
pub(crate) fn fill(random: &mut Random, field: Field, bytes: &mut [u8]) {
    let (most, fraction) = field.scalar.resting();
    let steps = most as i64 * (1 << fraction);
    let float = random.between(-steps, steps) as f64 / f64::from(1 << fraction);
    let integer = if random.chance(50) { random.between(-20, 40) as u64 } else { random.bits() };
    let value = match field.scalar {
        Scalar::F32 => u64::from((float as f32).to_bits()),
        Scalar::F16 => u64::from(half_bits(float)),
        Scalar::F64 => float.to_bits(),
        _ => integer,
    };
    let width = field.scalar.bytes();
    bytes[field.offset..field.offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

/// The bits of a normal f16 that holds `x` exactly.
fn half_bits(x: f64) -> u16 {
    if x == 0.0 {
        return 0;
    }
    let exponent = x.abs().log2().floor() as i32;
    let fraction = x.abs() / 2f64.powi(exponent) - 1.0;
    let sign = if x < 0.0 { 0x8000 } else { 0 };
    sign | (((exponent + 15) as u16) << 10) | (fraction * 1024.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_that_of_the_specification() {
        // WGSL specification, 14.4.1: a vec3 aligns to 16 and takes 12; what follows uses the hole.
        let vec3 = Ty::Vector(3, Scalar::F32);
        let types = Types { structs: vec![vec![vec3.clone(), Ty::Scalar(Scalar::F32), Ty::Matrix(2, 3, Scalar::F16)]] };
        assert_eq!(types.layout(&vec3), (16, 12));
        assert_eq!(types.layout(&Ty::Matrix(2, 3, Scalar::F32)), (16, 32));
        assert_eq!(types.layout(&Ty::Struct(0)), (16, 32));
        assert_eq!(types.stride(&vec3), 16);
        let mut fields = Vec::new();
        types.fields(&Ty::Struct(0), 0, &mut fields);
        let offsets: Vec<usize> = fields.iter().map(|f| f.offset).collect();
        assert_eq!(offsets, [0, 4, 8, 12, 16, 18, 20, 24, 26, 28]);
    }

    #[test]
    fn half_precision_bits_are_right() {
        assert_eq!([1.0, -2.0, 0.5, 7.5].map(half_bits), [0x3C00, 0xC000, 0x3800, 0x4780]);
    }
}
