//! The parts of messages that depend on what an error holds: what there is beside what was asked for, and the way on.

use crate::{DType, Largest};

pub(super) fn of_largest(largest: &Largest, in_use: u64) -> String {
    match (largest.0.is_empty(), in_use) {
        (false, _) => format!("; largest: {largest}"),
        (true, 0) => String::new(),
        (true, _) => "; tensors made after a call of Device::list_tensors are named here, the largest first".to_owned(),
    }
}

/// How to read a tensor whose dtype was not the one asked for, or have another.
pub(super) fn way_to(op: &str, got: DType) -> String {
    match op {
        "item" => format!("read it as {got}, or any dtype as f64 with item_f64()"),
        "to_vec" | "to_vec_async" => format!("read it as {got}, or any dtype as f64 with to_f64_vec()"),
        "write" => "give numbers of the tensor's dtype".to_owned(),
        _ => "convert with cast()".to_owned(),
    }
}

pub(super) fn of_axes(rank: usize) -> String {
    match rank {
        0 => "it has no axes".to_owned(),
        1 => "its only axis is 0, or -1".to_owned(),
        rank => format!("its axes are 0 to {}, or -1 to -{rank} from the last", rank - 1),
    }
}

pub(super) fn of_indices(len: u64) -> String {
    match len {
        0 => "it has no indices".to_owned(),
        1 => "its only index is 0, or -1".to_owned(),
        len => format!("its indices are 0 to {}, or -1 to -{len} from the last", len - 1),
    }
}

/// A shape that holds as many elements as were given belongs to a tensor whose only element a call wanted to read.
pub(super) fn of_length(shape: &[u64], expected: u64, got: u64) -> String {
    let holds = shape.iter().try_fold(1u64, |all, &extent| all.checked_mul(extent));
    if holds == Some(got) && expected == 1 {
        return format!(
            "a tensor of shape {shape:?} has {got} elements, and the call reads the only one: select() or reduce it to one, or read all \
             with to_vec()"
        );
    }
    let held = if expected == 1 { "1 element".to_owned() } else { format!("{expected} elements") };
    format!("shape {shape:?} holds {held} but the data has {got}; give {held}, or the shape of {got}")
}

pub(super) fn of_variable(variable: &Option<&str>) -> String {
    variable.map(|variable| format!(", which {variable} names")).unwrap_or_default()
}

pub(super) fn of_available(available: &[String]) -> String {
    match available {
        [] => "none is available; `polywarp doctor` says what is missing".to_owned(),
        names => format!("available are {}", names.join(", ")),
    }
}

pub(super) fn at_axis(axis: &Option<usize>) -> String {
    axis.map(|a| format!(" at axis {a}")).unwrap_or_default()
}

pub(super) fn of_dtype(dtype: &Option<DType>) -> String {
    dtype.map(|d| format!(" of {d}")).unwrap_or_default()
}

pub(super) fn beside(dtype: DType) -> String {
    if dtype.is_float() {
        return format!(", which is infinite or 0 in {}; choose another or cast the tensor to f64", dtype.compute());
    }
    let integers = dtype.integer_range().map(|(least, most)| format!("integers of {least} to {most}"));
    let held = integers.unwrap_or_else(|| "0 and 1".to_owned());
    format!(", only {held}; cast the tensor to a dtype that can, or convert the number with Expr::cast")
}

/// Two devices of one name are two all the same: each has memory of its own.
pub(super) fn of_devices(lhs: &str, rhs: &str) -> String {
    if lhs == rhs {
        return format!(
            "operands are on two devices that were opened separately as `{lhs}`; open it once and clone the handle \
             (`Device` is a handle), or move one operand with to_device()"
        );
    }
    format!("operands are on {lhs} and {rhs}; move one with to_device()")
}

pub(super) fn of_request(requested: u64) -> String {
    match requested {
        0 => "for the driver's own needs".to_owned(),
        bytes => format!("{bytes} bytes requested"),
    }
}

pub(super) fn of_tensor(tensor: &Option<String>) -> String {
    tensor.as_ref().map(|name| format!(", tensor `{name}`")).unwrap_or_default()
}

pub(super) fn of_limit(limit: &Option<u64>) -> String {
    limit.map(|l| format!(", limit {l}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::Error;

    #[test]
    fn devices_of_one_name_are_told_apart() {
        let said = |lhs: &str, rhs: &str| {
            Error::DeviceMismatch { op: "add", lhs: lhs.to_owned(), rhs: rhs.to_owned() }.to_string()
        };
        assert_eq!(said("cpu", "cuda:0"), "add: operands are on cpu and cuda:0; move one with to_device()");
        let same = said("cpu", "cpu");
        assert!(same.contains("opened separately as `cpu`") && same.contains("clone the handle"), "{same}");
        assert!(!same.contains("cpu and cpu"), "{same}");
    }

    #[test]
    fn ranges_are_told_beside_what_is_outside_of_them() {
        let axis = |axis, rank| Error::AxisOutOfRange { axis, rank }.to_string();
        assert_eq!(
            axis(2, 2),
            "axis 2 is out of range for a tensor of rank 2: its axes are 0 to 1, or -1 to -2 from the last"
        );
        assert!(axis(-2, 1).ends_with("its only axis is 0, or -1") && axis(0, 0).ends_with("it has no axes"));
        let index = |index, len| Error::IndexOutOfRange { axis: 1, index, len }.to_string();
        assert_eq!(
            index(3, 3),
            "index 3 is out of range on axis 1 of length 3: its indices are 0 to 2, or -1 to -3 from the last"
        );
        assert!(index(0, 0).ends_with("it has no indices") && index(1, 1).ends_with("its only index is 0, or -1"));
    }

    #[test]
    fn length_of_data_is_told_from_a_tensor_that_is_not_one_number() {
        let said =
            |shape: &[u64], expected, got| Error::DataLength { shape: shape.to_vec(), expected, got }.to_string();
        assert_eq!(
            said(&[2, 3], 6, 5),
            "shape [2, 3] holds 6 elements but the data has 5; give 6 elements, or the shape of 5"
        );
        assert!(
            said(&[2, 3], 1, 6).starts_with("a tensor of shape [2, 3] has 6 elements, and the call reads the only one")
        );
        assert!(said(&[], 1, 3).starts_with("shape [] holds 1 element but the data has 3; give 1 element, or"));
        assert!(said(&[0, 3], 1, 0).starts_with("a tensor of shape [0, 3] has 0 elements"));
    }

    #[test]
    fn devices_that_are_there_are_listed() {
        let said = |available: &[&str]| {
            let available = available.iter().map(|name| (*name).to_owned()).collect();
            Error::NoSuchDevice { name: "gpu".to_owned(), variable: None, available }.to_string()
        };
        assert_eq!(said(&["wgpu:0", "cpu"]), "no device `gpu`: available are wgpu:0, cpu");
        assert_eq!(said(&[]), "no device `gpu`: none is available; `polywarp doctor` says what is missing");
    }

    /// What made it lives in a browser only (`tests/web`); what it says is the same everywhere.
    #[test]
    fn would_block_names_the_call_and_the_way_out() {
        let said = Error::WouldBlock { what: "read_blocking" }.to_string();
        assert_eq!(said, "read_blocking would block, which a browser's main thread cannot; use the async form");
    }
}
