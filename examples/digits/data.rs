//! The digits, as shipped: pictures and their labels.

/// Pixels of one picture, 8 by 8.
pub const PIXELS: usize = 64;

/// The data set on the host.
pub struct Digits {
    /// All pictures one after the other, each pixel 0 to 16.
    pub pixels: Vec<f32>,
    /// The digit that each picture shows, 0 to 9.
    pub labels: Vec<u32>,
}

/// The shipped file; it is part of the program, so it is well formed.
pub fn load() -> Digits {
    let mut digits = Digits { pixels: Vec::new(), labels: Vec::new() };
    for line in include_str!("../data/digits.csv").lines() {
        let numbers: Vec<u32> = line.split(',').map(|n| n.parse().expect("a whole number")).collect();
        let (&label, pixels) = numbers.split_last().expect("a line has numbers");
        assert_eq!(pixels.len(), PIXELS, "pixels in line {}", digits.labels.len() + 1);
        digits.pixels.extend(pixels.iter().map(|&p| p as f32));
        digits.labels.push(label);
    }
    digits
}
