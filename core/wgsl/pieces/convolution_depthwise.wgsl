// Pieces of convolution_depthwise_weights.wgsl: what is written out for every pixel, row of taps and tap.
// $p: pixel. $r: row of taps. $t: tap of a row. $s: input of a run.

//# sum
    var sum_${r}_$t = vec4<Acc>();

//# gradient
            let gradient_$p = load4_w(params.w_base + (pixels + min(first_z + ${p}u, params.to_z - 1u)) * params.w_pitch + quad);

//# row: of x
            let y_$r = first_y + ${r}u * params.dilation_y;
            let row_$r = (slice + min(y_$r, params.from_y - 1u)) * params.from_z;
            let end_$r = select(0u, params.from_z, y_$r < params.from_y);

//# input: $place behind the first one
            let input_${r}_$s = read_x(row_$r, first + $place, end_$r, quad);

//# pixel: $products are those of all taps
            if WHOLE | (first_z + ${p}u < params.to_z) {
                $products
            }

//# product
                sum_${r}_$t += input_${r}_$s * gradient_$p;

//# partial: row $row of partial
    partial[${row}u * THREADS + thread] = sum_${r}_$t;

//# fold: $count sums, from number $first on
    fold(thread, ${count}u);
    finish_folded(slab, quad, first_tap, thread, ${first}u, ${count}u);
