// Pieces of the kernels of products: how elements are got, and what becomes of a sum.

//# get
fn get_$name(at: u32) -> $ty { return $value; }

//# end_of: the end of a group of rows
fn end_of(group: u32) -> u32 { return $end; }

//# epilogue
fn epilogue(sum: $acc, batch: u32, row: u32, col: u32) -> $value {
    var x = $sum;
    $steps
    return x;
}

//# no group
    if batch >= params.groups { return $value(); } // a row of no group

//# scale a
    x = x * load_row_scale(batch_of_rows(batch) + row * params.rows_step);

//# scale b
    x = x * load_col_scale(batch_of_cols(batch) + col * params.cols_step);

//# alpha
    x = params.alpha * x;

//# add c
    x += params.beta * load_c(batch_of_c(batch) + row * params.c_row + col * params.c_col);

//# bias
    x += load_bias(params.bias_base$group + col * params.bias_step);

//# activation
    x = $activated;
