//! Every dtype, form and access gives WGSL that naga accepts with no more capabilities than the caps imply.

use super::*;
use crate::wgsl::validate::{full_caps, validate};

fn every_storage(caps: &Caps) -> Vec<(String, String)> {
    let mut kernels = Vec::new();
    for dtype in DType::ALL {
        let Ok(element) = Element::new(dtype, caps) else { continue };
        let kept = [element, element.kept()];
        let ways = if dtype == DType::F8E5M2 { &kept[..] } else { &kept[..1] };
        for (&element, form) in
            ways.iter().flat_map(|way| [Form::Scalar, Form::Pair, Form::Quad, Form::Oct].map(|form| (way, form)))
        {
            if form == Form::Pair && dtype.size_bytes() == 1 {
                continue;
            }
            if form == Form::Oct && !matches!(dtype, DType::F16 | DType::BF16) {
                continue;
            }
            let mut text = prelude(&[element, element]);
            text += &element.storage(1, "x", form, Access::Read);
            text += &element.storage(2, "y", form, Access::ReadWrite);
            text += "@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n";
            text += match form {
                Form::Scalar => "    store_y(id.x, load_x(id.x));\n",
                Form::Pair => "    store2_y(id.x, load2_x(id.x));\n",
                Form::Quad => "    store4_y(id.x, load4_x(id.x));\n    store_tail_y(id.x, load4_y(id.y), id.z);\n",
                Form::Oct => "    store8_y(id.x, unpack4_x(words_x(id.x).xy), unpack4_x(words_x(id.x).zw));\n",
            };
            let value = if form == Form::Pair { "load2_x(id.y).x" } else { "load_x(id.y)" };
            text += &format!("    let kept = {};\n}}\n", element.round(value));
            kernels.push((format!("{dtype} {form:?}"), text));
        }
    }
    kernels
}

#[test]
fn storage_of_every_dtype_validates() {
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        let kernels = every_storage(&caps);
        assert_eq!(kernels.len(), if caps.f64 { 44 } else { 35 });
        for (name, text) in kernels {
            if let Err(message) = validate(&text, &caps) {
                panic!("{name}: {message}\n{text}");
            }
        }
    }
}

#[test]
fn param_words_carry_the_computed_value() {
    let caps = full_caps();
    let words = |dtype, value: Scalar| Element::new(dtype, &caps).map(|e| e.param_words(value)).ok();
    assert_eq!(words(DType::F16, Scalar::F(0.1)), Some(vec![0.1f32.to_bits()]));
    assert_eq!(words(DType::F8E5M2, Scalar::F(1e9)), Some(vec![1e9f32.to_bits()]));
    assert_eq!(words(DType::I8, Scalar::I(-2)), Some(vec![-2i32 as u32]));
    assert_eq!(words(DType::Bool, Scalar::I(7)), Some(vec![1]));
    assert_eq!(words(DType::I64, Scalar::I(-1)), Some(vec![u32::MAX; 2]));
    assert_eq!(words(DType::F64, Scalar::F(1.0)), Some(vec![0, 0x3ff0_0000]));
}

#[test]
fn missing_features_are_typed_errors() {
    let caps = Caps::webgpu_defaults("test");
    for dtype in [DType::F64, DType::I64] {
        let err = Element::new(dtype, &caps).unwrap_err();
        assert!(matches!(err, crate::Error::UnsupportedDType { dtype: d, .. } if d == dtype), "{err}");
    }
}
