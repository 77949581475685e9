// Pieces: several sums down the columns side by side, for the loops of reduce_columns.wgsl; which sum it is comes first.

//# state
alias Wide = $wide;
fn wide_identity() -> Wide { return Wide(); }
fn combine_wide(a: Wide, b: Wide) -> Wide { return a + b; }

//# reads
fn read_of(sum: u32, at: u32, place: u32) -> Wide {
    switch sum {
        $reads
    }
}

//# writes
fn write_of(sum: u32, index: u32, v: Wide) {
    switch sum {
        $writes
    }
}

//# read
        $case { return ${load}x$sum(at); }

//# write
        $case {
            $stores
        }
