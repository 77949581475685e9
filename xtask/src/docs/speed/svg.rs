//! The picture: one horizontal bar for each comparison, from 0, with a line where both are equally fast.
//!
//! Plain SVG without script, the same text for the same ratios, readable on dark pages too, since it paints its own ground.

use std::fmt::Write;

use super::{Found, Group, Route};

const WIDTH: f64 = 860.0;
/// Where bars begin, and where a ratio of `LARGEST` ends.
const LEFT: f64 = 300.0;
const RIGHT: f64 = 800.0;
const LARGEST: f64 = 1.4;
const TOP: f64 = 34.0;
const ROW: f64 = 19.0;
const BAR: f64 = 12.0;
const HEADING: f64 = 28.0;

const STYLE: &str = "text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #333 } .label { text-anchor: end } \
    .group { font-weight: 600 } .even { stroke: #333; stroke-width: 1.5 } .tick { text-anchor: middle; fill: #777 } .cuda { fill: #d9822b } \
    .vulkan { fill: #3a78b5 }";

/// The whole file.
pub fn draw(found: &[Found<'_>]) -> String {
    let mut rows = String::new();
    let mut y = TOP;
    for group in found.chunk_by(|a, b| a.group.what == b.group.what) {
        y += HEADING;
        let Group { what, beside, .. } = group[0].group;
        let text = y - 9.0;
        line(&mut rows, format_args!("<text x=\"8\" y=\"{text}\" class=\"group\">{what}, beside {beside}</text>"));
        for one in group {
            bar(&mut rows, one, y);
            y += ROW;
        }
    }
    let height = y + 10.0;
    let mut out = String::new();
    line(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"rates of polywarp over those of the vendor's libraries and of PyTorch\">"
        ),
    );
    line(&mut out, format_args!("<style>{STYLE}</style>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>"));
    for (x, class, name) in [(8.0, "cuda", "through CUDA"), (128.0, "vulkan", "through Vulkan")] {
        line(&mut out, format_args!("<rect x=\"{x}\" y=\"10\" width=\"11\" height=\"11\" class=\"{class}\"/>"));
        line(&mut out, format_args!("<text x=\"{}\" y=\"20\">{name}</text>", x + 17.0));
    }
    out.push_str(&rows);
    // Above the bars, so that it is seen through those that are longer.
    let even = format!("{:.1}", at(1.0));
    line(&mut out, format_args!("<text x=\"{even}\" y=\"20\" class=\"tick\">equally fast</text>"));
    line(&mut out, format_args!("<line x1=\"{even}\" y1=\"26\" x2=\"{even}\" y2=\"{y}\" class=\"even\"/>"));
    line(&mut out, format_args!("</svg>"));
    out
}

fn bar(out: &mut String, one: &Found<'_>, y: f64) {
    let class = match one.bar.route {
        Route::Cuda => "cuda",
        Route::Vulkan => "vulkan",
    };
    let (width, middle) = (at(one.times) - LEFT, y + 10.5);
    line(out, format_args!("<text x=\"{}\" y=\"{middle}\" class=\"label\">{}</text>", LEFT - 8.0, one.bar.label));
    line(out, format_args!("<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" class=\"{class}\"/>"));
    // Beside the bar, and beside the line of equal rates where that would cross it.
    let end = LEFT + width;
    let beside = if (0.0..36.0).contains(&(at(1.0) - end)) { at(1.0) } else { end };
    line(out, format_args!("<text x=\"{:.1}\" y=\"{middle}\">{:.2}</text>", beside + 5.0, one.times));
}

/// The place of a ratio.
fn at(times: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * times.min(LARGEST) / LARGEST
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::super::GROUPS;
    use super::*;

    #[test]
    fn picture_has_a_bar_and_a_value_for_each_ratio() {
        let group = &GROUPS[0];
        let found: Vec<Found<'_>> =
            group.bars.iter().zip([0.7, 0.95, 1.0, 2.0]).map(|(bar, times)| Found { group, bar, times }).collect();
        let svg = draw(&found);
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("class=\"label\"").count(), 4, "{svg}");
        assert!([">0.70<", ">0.95<", ">1.00<", ">2.00<"].iter().all(|value| svg.contains(value)), "{svg}");
        // What is beyond the axis ends where the axis does.
        assert!(svg.contains(&format!("width=\"{:.1}\"", RIGHT - LEFT)), "{svg}");
        assert_eq!(svg, draw(&found));
    }
}
