//! The words of a kernel's uniform `Params`, said once: what its WGSL declares and what a launch gives it come from one list, so that neither
//! can be put in another order.

/// Words with names, in the order in which they stand in `Params`. Made by [`params!`].
pub(crate) trait Words {
    /// Their names.
    const NAMES: &'static [&'static str];
    /// The members that WGSL declares.
    const WGSL: &'static str;
    /// What a launch gives.
    fn words(self) -> Vec<u32>;
}

/// `params! { struct Name { first, second; third } }`: a struct of u32 that is [`Words`]. In WGSL each group is a line.
macro_rules! params {
    ($(#[$doc:meta])* struct $name:ident { $($($word:ident),+);+ }) => {
        $(#[$doc])*
        struct $name {
            $($($word: u32,)+)+
        }

        impl $crate::wgsl::params::Words for $name {
            const NAMES: &'static [&'static str] = &[$($(stringify!($word),)+)+];
            const WGSL: &'static str = concat!($("   ", $(" ", stringify!($word), ": u32,",)+ "\n",)+);

            fn words(self) -> Vec<u32> {
                vec![$($(self.$word,)+)+]
            }
        }
    };
}
pub(crate) use params;

/// `Params` of u32 with these members, a line each, and the uniform that holds them.
pub(crate) fn uniform<M: std::fmt::Display>(members: impl IntoIterator<Item = M>) -> String {
    let members: String = members.into_iter().map(|member| format!("    {member}: u32,\n")).collect();
    uniform_of(&members)
}

/// The same with lines that are members already.
pub(crate) fn uniform_of(lines: &str) -> String {
    format!("struct Params {{\n{lines}}}\n@group(0) @binding(0) var<uniform> params: Params;\n")
}

/// A name for each of `axes` axes by each of `letters`: `e0`, `e1`, `s0`, `s1`.
pub(crate) fn axis_names(letters: &str, axes: usize) -> impl Iterator<Item = String> {
    letters.chars().flat_map(move |letter| (0..axes).map(move |axis| format!("{letter}{axis}")))
}

/// A member for each of `axes` axes by each of `letters`: ` e0: u32, e1: u32, s0: u32, s1: u32,`.
pub(crate) fn axis_members(letters: &str, axes: usize) -> String {
    axis_names(letters, axes).map(|name| format!(" {name}: u32,")).collect()
}

/// The words of members `e` and `s`: extents of all axes, then strides, which wrap as two's complement where they are negative.
pub(crate) fn axis_words(innermost_first: impl Iterator<Item = (u64, i64)> + Clone) -> impl Iterator<Item = u32> {
    let extents = innermost_first.clone().map(|(extent, _)| extent as u32);
    extents.chain(innermost_first.map(|(_, stride)| stride as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    params! {
        struct Example { rows, units; base }
    }

    #[test]
    fn params_declare_words_in_the_order_in_which_a_launch_has_them() {
        assert_eq!(Example::NAMES, ["rows", "units", "base"]);
        assert_eq!(Example::WGSL, "    rows: u32, units: u32,\n    base: u32,\n");
        assert_eq!(Example { base: 3, rows: 1, units: 2 }.words(), [1, 2, 3]);
        let declared =
            "struct Params {\n    a: u32,\n    b: u32,\n}\n@group(0) @binding(0) var<uniform> params: Params;\n";
        assert_eq!(uniform(["a", "b"]), declared);
        assert_eq!(axis_members("es", 2), " e0: u32, e1: u32, s0: u32, s1: u32,");
        assert_eq!(Vec::from_iter(axis_words([(5, 1), (7, -5)].into_iter())), [5, 7, 1, u32::MAX - 4]);
    }
}
