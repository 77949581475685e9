//! Products of cooperative matrices of 8 x 8, which PTX does not have, spelt out: each lane of a subgroup of 32 holds two
//! elements and asks the others for the rest.
//!
//! It changes the text of kernels as `matmul/coop.rs` writes them, not any WGSL: one load, store or product a line or an
//! expression, arrays of scalars or vectors of four.

use std::collections::BTreeSet;

/// Element `lane + 32 r` of a matrix is component r of the lane's vector.
const PRODUCT: &str = "
var<private> lane: u32;
fn multiply_add(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>) -> vec2<f32> {
    var d = c;
    for (var k = 0u; k < 8u; k++) {
        let row = (lane & ~7u) + k;
        let at_a = vec2<f32>(subgroupShuffle(a.x, row), subgroupShuffle(a.y, row));
        let column = (k % 4u) * 8u + lane % 8u;
        let low = subgroupShuffle(b.x, column);
        let high = subgroupShuffle(b.y, column);
        d += at_a * select(high, low, k < 4u);
    }
    return d;
}
";

/// The array that `&name[` names.
fn array_of(reference: &str) -> &str {
    let name = reference.trim_start_matches('&');
    &name[..name.find('[').expect("a load from an array")]
}

/// The text with `wgpu_cooperative_matrix` spelt out; as it was where it does not use it.
pub fn spell_out(wgsl: String) -> String {
    if !wgsl.contains("enable wgpu_cooperative_matrix;") {
        return wgsl;
    }
    let mut arrays = BTreeSet::new();
    let mut lines: Vec<String> = Vec::new();
    for line in wgsl.replace("enable wgpu_cooperative_matrix;\n", "").lines() {
        if let Some((alias, _)) = line.split_once(" = coop_mat8x8<") {
            lines.push(format!("{alias} = vec2<f32>;"));
            continue;
        }
        let mut line = line.replace("coopMultiplyAdd(", "multiply_add(");
        for (word, rows) in [("coopLoadT<", true), ("coopLoad<", false)] {
            while let Some(start) = line.find(word) {
                // coopLoad<Type>(&name[at], stride)
                let open = start + line[start..].find(">(").expect("a type") + 2;
                let name = array_of(&line[open..]).to_owned();
                let at = open + 1 + name.len();
                let major = if rows { "rows" } else { "columns" };
                line = format!("{}load_{major}_{name}({}", &line[..start], line[at + 1..].replacen(']', "", 1));
                arrays.insert(name);
            }
        }
        if let Some(start) = line.find("coopStoreT(") {
            let reference = start + line.find('&').expect("a reference") - start;
            let name = array_of(&line[reference..]).to_owned();
            let value = line[start + 11..reference].to_owned();
            let rest = line[reference + 2 + name.len()..].replacen(']', "", 1);
            line = format!("{}store_rows_{name}({value}{rest}", &line[..start]);
            arrays.insert(name);
        }
        if line == ") {" {
            line = "    @builtin(subgroup_invocation_id) own_lane: u32,\n) {\n    lane = own_lane;".to_owned();
        }
        lines.push(line);
    }
    let mut text = lines.join("\n");
    text += PRODUCT;
    for name in arrays {
        let declared = text.find(&format!(" {name}: array<")).expect("a declaration");
        let item = text[declared..].lines().next().unwrap_or_default().split("array<").nth(1).unwrap_or_default();
        let vector = item.starts_with('V') || item.starts_with("vec4");
        let element = |i: &str| if vector { format!("{name}[({i}) / 4u][({i}) % 4u]") } else { format!("{name}[{i}]") };
        let scale = if vector { "4u * " } else { "" };
        for (major, row, column) in [("rows", "e / 8u", "e % 8u"), ("columns", "e % 8u", "e / 8u")] {
            text +=
                &format!("fn load_{major}_{name}(at: u32, stride: u32) -> vec2<f32> {{\n    var m = vec2<f32>();\n");
            for r in 0..2 {
                let index = format!("{scale}(at + ({row}) * stride) + ({column})");
                text += &format!("    {{ let e = lane + {}u; m[{r}] = f32({}); }}\n", 32 * r, element(&index));
            }
            text += "    return m;\n}\n";
        }
        if name == "sums" || name == "d" {
            text += &format!("fn store_rows_{name}(m: vec2<f32>, at: u32, stride: u32) {{\n");
            for r in 0..2 {
                let index = format!("{scale}(at + (e / 8u) * stride) + e % 8u");
                text += &format!("    {{ let e = lane + {}u; {} = m[{r}]; }}\n", 32 * r, element(&index));
            }
            text += "}\n";
        }
    }
    text
}
