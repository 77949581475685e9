//! What a fuzzer calls with an archive's bytes (`fuzz/`), and the tests with the corpus of it: nothing may panic or take memory
//! beyond a block's limit.

use super::*;

/// Reads all that `bytes` hold, as they are and once more with digests that are right: a fuzzer finds no SHA-256.
pub fn fuzz(bytes: &[u8]) {
    read(bytes);
    if let Some(repaired) = repaired(bytes) {
        read(&repaired);
    }
}

/// Everything that can be had from an archive.
fn read(bytes: &[u8]) {
    let Ok(archive) = Archive::parse(bytes) else { return };
    let digests = archive.digests.as_chunks().0;
    for target in 0..archive.targets().count().min(4) {
        for digest in digests.iter().take(16) {
            let Some(place) = archive.find(digest, target) else { continue };
            let Ok(block) = archive.unpack(place.block) else { continue };
            assert!(block.len() <= MAX_BLOCK_BYTES as usize);
            let found = kernel(&block, place);
            assert!(found.is_err() || found.is_ok_and(|bytes| bytes.len() == place.length as usize));
        }
    }
}

/// `bytes` with the digests that their numbers ask for.
fn repaired(bytes: &[u8]) -> Option<Vec<u8>> {
    let index = bytes.get(MAGIC.len() + SHA_BYTES..)?;
    let count = |i| usize::try_from(number(index, i)?).ok();
    let (targets, blocks, kernels) = (count(0)?, count(1)?, count(2)?);
    let records = targets.checked_mul(4)?.checked_add(12)?;
    let places = kernels.checked_mul(targets)?.checked_mul(PLACE_BYTES)?;
    let end = records
        .checked_add(blocks.checked_mul(BLOCK_RECORD_BYTES)?)?
        .checked_add(kernels.checked_mul(size_of::<KernelDigest>())?)?
        .checked_add(places)?;
    let (mut index, payload) = (index.get(..end)?.to_vec(), &index[end..]);
    let mut start = 0;
    for record in index[records..].chunks_exact_mut(BLOCK_RECORD_BYTES).take(blocks) {
        let end = usize::try_from(number(record, 0)?).ok()?;
        if let Some(packed) = payload.get(start..end) {
            record[8..].copy_from_slice(&Sha256::digest(packed));
        }
        start = end;
    }
    Some([MAGIC.as_slice(), &Sha256::digest(&index), &index, payload].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_archives_is_read_or_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/archive");
        let files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        files.iter().for_each(|bytes| fuzz(bytes));
        // Changed numbers reach what stands behind the digests.
        let sound = files.iter().filter_map(|bytes| repaired(bytes)).filter(|bytes| Archive::parse(bytes).is_ok());
        assert!(sound.count() > 0);
    }
}
