// Runs of `width` pairs of keys and places, a power of two up to TILE, each in order: a bitonic sort (Batcher, 1968). Places break ties, so that no
// two pairs are equal and the order is stable.
var<workgroup> keys: array<Key, TILE>;
var<workgroup> places: array<u32, TILE>;

fn order(thread: u32, width: u32) {
    for (var size = 2u; size <= width; size *= 2u) {
        for (var half = size / 2u; half > 0u; half /= 2u) {
            workgroupBarrier(); // the pairs of the step before are there
            for (var i = thread; i < TILE / 2u; i += THREADS) {
                let low = 2u * i - (i & (half - 1u));
                let high = low + half;
                let is_greater = keys[low] > keys[high] || (keys[low] == keys[high] && places[low] > places[high]);
                // Runs of the whole width ascend; of shorter ones every second descends.
                let ascends = ((low % width) & size) == 0u;
                if is_greater == ascends {
                    let key = keys[low];
                    keys[low] = keys[high];
                    keys[high] = key;
                    let place = places[low];
                    places[low] = places[high];
                    places[high] = place;
                }
            }
        }
    }
    workgroupBarrier(); // all are in order
}

