// Which group owns which rows: group g those from the largest end before it up to its own. `end_of(g)` reads an end.

struct Part {
    group: u32, // params.groups where no group owns the rows
    row: u32, // the first row of the tile
    end: u32, // the row after the last one of the group
}

// Tile number `tile` of `height` rows. Every group is cut into tiles by itself, as are, at the end, the rows that none owns.
// Beyond the last tile, `row` is params.m. Uniform where `tile` is.
fn part_of(tile: u32, height: u32) -> Part {
    var first = 0u;
    var left = tile;
    for (var group = 0u; group <= params.groups; group++) {
        var end = params.m;
        if group < params.groups {
            end = clamp(end_of(group), first, params.m);
        }
        let tiles = (end - first + height - 1u) / height;
        if left < tiles {
            return Part(group, first + left * height, end);
        }
        left -= tiles;
        first = end;
    }
    return Part(params.groups, params.m, params.m);
}

// The group that owns `row`.
fn group_of(row: u32) -> u32 {
    for (var group = 0u; group < params.groups; group++) {
        if row < end_of(group) {
            return group;
        }
    }
    return params.groups;
}
