//! polywarp under criterion: see `benches/suites.rs`. The results files of measured machines are in `results/`.
