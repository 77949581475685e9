//! The heads of the shaders here, which say how to run them; for tests of interpreted PTX and of devices.

/// `--grid X,Y,Z` and `--bind N=zeros:TYPE:COUNT` of a shader's head.
pub struct Head {
    pub grid: [u32; 3],
    /// Bytes of each binding, in order.
    pub bytes: Vec<usize>,
}

impl Head {
    /// The head of `source`.
    pub fn of(source: &str) -> Head {
        let words: Vec<&str> =
            source.lines().take_while(|line| line.starts_with("//")).flat_map(str::split_whitespace).collect();
        let after = |flag: &'static str| words.windows(2).filter(move |pair| pair[0] == flag).map(|pair| pair[1]);
        let grid: Vec<u32> = after("--grid").next().unwrap().split(',').map(|n| n.parse().unwrap()).collect();
        let bytes = after("--bind").map(|bind| {
            let [_, element, count] = bind.split(':').collect::<Vec<_>>()[..] else { panic!("{bind}") };
            let size = if element == "f16" { 2 } else { 4 };
            size * count.parse::<usize>().unwrap()
        });
        Head { grid: grid.try_into().unwrap(), bytes: bytes.collect() }
    }
}
