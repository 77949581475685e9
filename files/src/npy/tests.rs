//! Tests of .npy files: what is read, what is written, and how broken files are refused.

use super::*;

/// A file with this header text and data.
fn file(text: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.extend(data);
    bytes
}

fn dict(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

fn parse(bytes: &[u8]) -> Result<(Form, Vec<u8>), String> {
    read_from(&mut &bytes[..], bytes.len() as u64)
}

#[test]
fn written_file_reads_back_for_every_dtype() {
    for dtype in DType::ALL {
        for shape in [vec![], vec![0], vec![5], vec![2, 3], vec![1, 2, 3, 4, 1, 1, 1, 1]] {
            let form = Form { kind: Kind::of(dtype), shape };
            let count = form.size_bytes().unwrap();
            let bytes: Vec<u8> = (0..count).map(|i| i as u8).collect();
            let mut whole = header(&form);
            assert_eq!(whole.len() % 64, 0);
            whole.extend(&bytes);
            assert_eq!(parse(&whole).unwrap(), (form, bytes), "{dtype}");
        }
    }
}

#[test]
fn header_is_what_numpy_writes() {
    let form = Form { kind: Kind::of(DType::F32), shape: vec![3] };
    assert!(header(&form)[10..].starts_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"));
    let form = Form { kind: Kind::of(DType::Bool), shape: vec![2, 4] };
    assert!(header(&form)[10..].starts_with(b"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 4), }"));
    let form = Form { kind: Kind::of(DType::F64), shape: vec![] };
    assert!(header(&form)[10..].starts_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (), }"));
}

#[test]
fn fortran_order_becomes_row_major() {
    // [[1, 2, 3], [4, 5, 6]] by columns.
    let (form, bytes) = parse(&file(&dict("|u1", "True", "(2, 3)"), &[1, 4, 2, 5, 3, 6])).unwrap();
    assert_eq!((form.shape, bytes), (vec![2, 3], vec![1, 2, 3, 4, 5, 6]));
    let (_, bytes) = parse(&file(&dict("<u2", "True", "(2, 2, 2)"), &(0..16).collect::<Vec<u8>>())).unwrap();
    let firsts: Vec<u8> = bytes.chunks(2).map(|pair| pair[0] / 2).collect();
    assert_eq!(firsts, [0, 4, 2, 6, 1, 5, 3, 7]);
    assert!(parse(&file(&dict("<u2", "True", "(0, 3)"), &[])).unwrap().1.is_empty());
}

#[test]
fn big_endian_is_converted() {
    let (form, bytes) = parse(&file(&dict(">f4", "False", "(2,)"), &[0x3f, 0x80, 0, 0, 0x40, 0, 0, 0])).unwrap();
    assert_eq!(form.kind, Kind::of(DType::F32));
    assert_eq!(bytes, [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    let (_, bytes) = parse(&file(&dict(">c8", "False", "()"), &[1, 2, 3, 4, 5, 6, 7, 8])).unwrap();
    assert_eq!(bytes, [4, 3, 2, 1, 8, 7, 6, 5]);
}

/// A header is read once, from left to right.
#[test]
fn brackets_within_brackets_take_no_time() {
    let start = std::time::Instant::now();
    for depth in 1..64 {
        for (open, close) in [("[", "]"), ("(", ",)"), ("{'a': ", "}")] {
            let header = format!("{}'<f4'{}\n", open.repeat(depth), close.repeat(depth));
            assert!(parse(&file(&header, &[])).is_err());
        }
    }
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn bad_files_are_refused_in_one_line() {
    let good = file(&dict("<f4", "False", "(2,)"), &[0; 8]);
    assert!(parse(&good).is_ok());
    let nested = format!("{}{}", "(".repeat(60_000), ")".repeat(5_000));
    let many_dims = format!("({})", "1, ".repeat(65));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "too short"),
        (b"PK\x03\x04 an .npz".to_vec(), "does not start with"),
        (good[..9].to_vec(), "truncated in its header"),
        (good[..40].to_vec(), "truncated in its header"),
        (good[..good.len() - 1].to_vec(), "truncated: f32 2 needs 8 bytes of data, the file has 7"),
        ([good.clone(), vec![0]].concat(), "1 bytes too many"),
        (b"\x93NUMPY\x09\x00\x00\x00".to_vec(), "unknown .npy version 9"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "a header of 4294967295 bytes"),
        (file("{}", &[]), "bad header"),
        (file("\u{0}\u{1}", &[]), "bad header"),
        (file(&nested, &[]), "bad header"),
        (file(&dict("<f4", "False", "((((((1,),),),),),)"), &[0; 4]), "bad header"),
        (file(&dict("<f4", "False", "(4294967296, 4294967296)"), &[0; 8]), ""),
        (file(&dict("<f4", "False", "(1152921504606846976,)"), &[0; 8]), "claims more"),
        (file(&dict("<f4", "False", "(1000000000000,)"), &[0; 8]), "truncated"),
        (file(&dict("<f4", "False", "(-1,)"), &[0; 8]), "bad header"),
        (file(&dict("<f4", "Maybe", "(2,)"), &[0; 8]), "bad header"),
        (file(&dict("<f4", "False", &many_dims), &[0; 4]), "65 dimensions"),
        (file(&dict("<U4", "False", "(1,)"), &[0; 16]), "numbers are expected"),
        (file(&dict("|O", "False", "(1,)"), &[0; 8]), "numbers are expected"),
        (file(&dict("<f16", "False", "(1,)"), &[0; 16]), ""),
        (file(&dict("<M8[ns]", "False", "(1,)"), &[0; 8]), "numbers are expected"),
        (
            file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", &[0; 4]),
            "plain numbers are expected",
        ),
    ];
    for (bytes, expected) in cases {
        let message = parse(&bytes).expect_err(expected);
        assert!(message.contains(expected), "`{message}` should say `{expected}`");
        assert!(!message.is_empty() && message.len() < 400, "{message}");
    }
}
