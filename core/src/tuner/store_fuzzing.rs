//! What a fuzzer calls with the bytes of a tuning file (`fuzz/`), and the tests with the corpora of it: nothing may panic, and what
//! is read is written as something that reads the same.

use super::*;

/// Reads `bytes` as a record of the store, as they are and behind a head whose digest is right.
pub fn record(bytes: &[u8]) {
    let head = format!("polywarp-tuning {VERSION} {}\n", hex(bytes));
    for record in [decode(bytes), decode(&[head.as_bytes(), bytes].concat())].into_iter().flatten() {
        let again = encode(&record).map(|file| decode(&file));
        assert_eq!(again, Some(Ok(record)));
    }
}

/// Reads `bytes` as a table that somebody exported.
pub fn table(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(table) = Table::from_json(text) {
        assert!(table.answers().all(|answer| answer.fault().is_none()));
        assert_eq!(Table::from_json(&table.to_json()).ok().as_ref(), Some(&table));
        assert_eq!(table.winners().len(), table.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
        std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn corpus_of_tuning_files_is_read_or_refused() {
        let files = corpus("tuning");
        files.iter().for_each(|bytes| record(bytes));
        let head = |body: &[u8]| [format!("polywarp-tuning {VERSION} {}\n", hex(body)).as_bytes(), body].concat();
        let sound = files.iter().filter(|body| decode(&head(body)).is_ok()).count();
        assert!(sound > 1, "{sound} records are sound");
    }

    #[test]
    fn corpus_of_tables_is_read_or_refused() {
        let files = corpus("table");
        files.iter().for_each(|bytes| table(bytes));
        let sound = files.iter().filter(|bytes| Table::from_json(&String::from_utf8_lossy(bytes)).is_ok()).count();
        assert!(sound > 0 && sound < files.len(), "{sound} tables are sound");
    }
}
