//! Whether bytes can be handed to the driver as machine code: it reads headers and sections without being told a length.
//!
//! A cubin is an ELF file of 64 bits for the machine 190 (`EM_CUDA`); a fatbin begins with a header that has its length. Whether the
//! code inside is good is for the driver, and the caller, to answer for.

/// What a file of machine code begins with.
const ELF: &[u8] = b"\x7fELF\x02\x01";
const FATBIN: u32 = 0xba55_ed50;
const EM_CUDA: u16 = 190;
/// A section with a size and no bytes in the file, and the first kind that is a machine's own.
const SHT_NOBITS: u64 = 8;
const SHT_LOPROC: u64 = 0x7000_0000;

/// Why `bytes` are no whole cubin or fatbin.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    if bytes.starts_with(ELF) {
        return cubin(bytes).ok_or("the cubin is cut short, or its headers point outside of it")?;
    }
    if u32_at(bytes, 0) == Some(u64::from(FATBIN)) {
        let (header, body) = (u16_at(bytes, 6), u64_at(bytes, 8));
        let end = header.zip(body).and_then(|(header, body)| header.checked_add(body));
        return match end {
            Some(end) if end <= bytes.len() as u64 => Ok(()),
            _ => Err("the fatbin is cut short".to_owned()),
        };
    }
    Err("it is neither a cubin (an ELF file) nor a fatbin".to_owned())
}

/// `None` where something lies outside of the file.
fn cubin(bytes: &[u8]) -> Option<Result<(), String>> {
    let machine = u16_at(bytes, 18)?;
    if machine != u64::from(EM_CUDA) {
        return Some(Err(format!("it is an ELF file for machine {machine}, not for CUDA ({EM_CUDA})")));
    }
    let inside = |start: u64, len: u64| start.checked_add(len).filter(|&end| end <= bytes.len() as u64);
    // Program headers, then section headers: where, how large each, how many.
    for (start, size, count) in [(32, 54, 56), (40, 58, 60)] {
        let (start, size, count) = (u64_at(bytes, start)?, u16_at(bytes, size)?, u16_at(bytes, count)?);
        inside(start, size.checked_mul(count)?)?;
    }
    let (start, size, count) = (u64_at(bytes, 40)?, u16_at(bytes, 58)?, u16_at(bytes, 60)?);
    for index in 0..count {
        let at = usize::try_from(start.checked_add(index.checked_mul(size)?)?).ok()?;
        let kind = u32_at(bytes, at.checked_add(4)?)?;
        // CUDA's own kinds are not documented; some have a size and no bytes.
        if kind != SHT_NOBITS && kind < SHT_LOPROC {
            inside(u64_at(bytes, at.checked_add(24)?)?, u64_at(bytes, at.checked_add(32)?)?)?;
        }
    }
    Some(Ok(()))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?).into())
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cubin with one section of four bytes.
    fn cubin() -> Vec<u8> {
        let mut bytes = vec![0; 64 + 64 + 4];
        bytes[..6].copy_from_slice(ELF);
        bytes[18] = 190;
        bytes[40] = 64;
        bytes[58] = 64;
        bytes[60] = 1;
        bytes[64 + 4] = 1;
        bytes[64 + 24] = 128;
        bytes[64 + 32] = 4;
        bytes
    }

    #[test]
    fn whole_images_are_taken() {
        check(&cubin()).unwrap();
        let mut fatbin = [0u8; 24];
        fatbin[..4].copy_from_slice(&FATBIN.to_le_bytes());
        (fatbin[6], fatbin[8]) = (16, 8);
        check(&fatbin).unwrap();
        assert!(check(&fatbin[..23]).unwrap_err().contains("cut short"));
    }

    #[test]
    fn images_that_are_cut_short_are_refused_wherever() {
        let whole = cubin();
        for len in 6..whole.len() {
            assert!(check(&whole[..len]).unwrap_err().contains("cut short"), "{len}");
        }
        let mut far = whole.clone();
        far[64 + 31] = 0xff;
        assert!(check(&far).is_err());
        let mut many = whole;
        many[60] = 2;
        assert!(check(&many).is_err());
    }

    #[test]
    fn other_files_are_told_apart() {
        assert!(check(b"").unwrap_err().contains("neither"));
        assert!(check(b".version 8.0").unwrap_err().contains("neither"));
        let mut program = cubin();
        program[18] = 62;
        assert!(check(&program).unwrap_err().contains("machine 62"));
    }
}
