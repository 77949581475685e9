// $tile = ROWS rows of $left times COLUMNS rows of $right, DEPTH quads of their $length at a time.
    for (var first = 0u; first < params.$length; first += 4u * DEPTH) {
        workgroupBarrier(); // what was staged before has been read
        for (var n = thread; n < (ROWS + COLUMNS) * DEPTH; n += THREADS) {
            let line = n / DEPTH;
            let at = first / 4u + n % DEPTH;
            if line < ROWS {
                staged[line * PITCH + n % DEPTH] = vector_$left(${left}_at, row0 + line, at);
            } else {
                // Lines of neighbouring threads lie side by side: they own four neighbours each.
                let c = line - ROWS;
                staged[(ROWS + c % 4u * ACROSS + c / 4u) * PITCH + n % DEPTH] = vector_$right(${right}_at, column0 + c, at);
            }
        }
        workgroupBarrier(); // all is staged
        for (var d = 0u; d < DEPTH; d++) {
            let b0 = staged[(ROWS + tx) * PITCH + d];
            let b1 = staged[(ROWS + ACROSS + tx) * PITCH + d];
            let b2 = staged[(ROWS + 2u * ACROSS + tx) * PITCH + d];
            let b3 = staged[(ROWS + 3u * ACROSS + tx) * PITCH + d];
            let bx = V(b0.x, b1.x, b2.x, b3.x);
            let by = V(b0.y, b1.y, b2.y, b3.y);
            let bz = V(b0.z, b1.z, b2.z, b3.z);
            let bw = V(b0.w, b1.w, b2.w, b3.w);
            let a0 = staged[(4u * ty) * PITCH + d];
            ${tile}0 = fma(V(a0.x), bx, fma(V(a0.y), by, fma(V(a0.z), bz, fma(V(a0.w), bw, ${tile}0))));
            let a1 = staged[(4u * ty + 1u) * PITCH + d];
            ${tile}1 = fma(V(a1.x), bx, fma(V(a1.y), by, fma(V(a1.z), bz, fma(V(a1.w), bw, ${tile}1))));
            let a2 = staged[(4u * ty + 2u) * PITCH + d];
            ${tile}2 = fma(V(a2.x), bx, fma(V(a2.y), by, fma(V(a2.z), bz, fma(V(a2.w), bw, ${tile}2))));
            let a3 = staged[(4u * ty + 3u) * PITCH + d];
            ${tile}3 = fma(V(a3.x), bx, fma(V(a3.y), by, fma(V(a3.z), bz, fma(V(a3.w), bw, ${tile}3))));
        }
    }
