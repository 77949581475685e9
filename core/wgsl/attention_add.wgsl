// $sum += shares times rows of $right, quads $part * ACROSS .. of them; KEYS rows at a time.
    for (var first = 0u; first < COLUMNS; first += KEYS) {
        workgroupBarrier(); // what was staged before has been read, and shares are written
        for (var n = thread; n < KEYS * ACROSS; n += THREADS) {
            let x = vector_$right(${right}_at, column0 + first + n / ACROSS, ${part}u * ACROSS + n % ACROSS);
            staged[n] = x;
            if HIDES && !is_finite(x) { atomicStore(&wild, 1u); }
        }
        workgroupBarrier(); // all is staged
        // Zero times NaN is NaN: from where one was met, terms of nothing are left out by choice.
        let tame = !HIDES || atomicLoad(&wild) == 0u;
        for (var j = 0u; j < KEYS / 4u; j++) {
            let x0 = staged[4u * j * ACROSS + tx];
            let x1 = staged[(4u * j + 1u) * ACROSS + tx];
            let x2 = staged[(4u * j + 2u) * ACROSS + tx];
            let x3 = staged[(4u * j + 3u) * ACROSS + tx];
            let at = 4u * ty * ACROSS + first / 4u + j;
            let p0 = shares[at];
            let p1 = shares[at + ACROSS];
            let p2 = shares[at + 2u * ACROSS];
            let p3 = shares[at + 3u * ACROSS];
            if tame {
                ${sum}0 = fma(V(p0.x), x0, fma(V(p0.y), x1, fma(V(p0.z), x2, fma(V(p0.w), x3, ${sum}0))));
                ${sum}1 = fma(V(p1.x), x0, fma(V(p1.y), x1, fma(V(p1.z), x2, fma(V(p1.w), x3, ${sum}1))));
                ${sum}2 = fma(V(p2.x), x0, fma(V(p2.y), x1, fma(V(p2.z), x2, fma(V(p2.w), x3, ${sum}2))));
                ${sum}3 = fma(V(p3.x), x0, fma(V(p3.y), x1, fma(V(p3.z), x2, fma(V(p3.w), x3, ${sum}3))));
            } else {
                ${sum}0 += (term(p0.x, x0) + term(p0.y, x1)) + (term(p0.z, x2) + term(p0.w, x3));
                ${sum}1 += (term(p1.x, x0) + term(p1.y, x1)) + (term(p1.z, x2) + term(p1.w, x3));
                ${sum}2 += (term(p2.x, x0) + term(p2.y, x1)) + (term(p2.z, x2) + term(p2.w, x3));
                ${sum}3 += (term(p3.x, x0) + term(p3.y, x1)) + (term(p3.z, x2) + term(p3.w, x3));
            }
        }
    }
