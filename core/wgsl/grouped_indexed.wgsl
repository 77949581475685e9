// Which group owns which rows, from the table that grouped_index.wgsl made: for every group, and for the rows that none owns, the
// first tile and the first row, and behind those the number of tiles and of rows. Entries never fall.

struct Part {
    group: u32, // params.groups where no group owns the rows
    row: u32, // the first row of the tile
    end: u32, // the row after the last one of the group
}

// The last of the groups, and of what follows them, that begins at or before `place`: a tile (column 0) or a row (1). It owns the
// place, unless that lies beyond all.
fn last_from(place: u32, column: u32) -> u32 {
    var first = 0u;
    var beyond = params.groups + 1u;
    while beyond - first > 1u {
        let middle = first + (beyond - first) / 2u;
        let begin = index[middle];
        if select(begin.y, begin.x, column == 0u) <= place { first = middle; } else { beyond = middle; }
    }
    return first;
}

// Tile number `tile` of `height` rows. Beyond the last tile, `row` is params.m. Uniform where `tile` is.
fn part_of(tile: u32, height: u32) -> Part {
    let group = last_from(tile, 0u);
    let end = index[group + 1u].y;
    if tile >= index[group + 1u].x { return Part(params.groups, params.m, params.m); }
    return Part(group, index[group].y + (tile - index[group].x) * height, end);
}

// The group that owns `row`.
fn group_of(row: u32) -> u32 {
    return last_from(row, 1u);
}
