//! The table, as Markdown or JSON.

use super::builtins::Measure;
use super::float::Type;
use super::measure::{Line, Place};

/// The table's head.
pub const HEAD: &str = "| builtin | type | inputs | largest error | at | WGSL's limit | used | verdict |\n\
                        |---|---|---:|---:|---|---|---:|---|";

fn number(ty: Type, value: f64) -> String {
    match ty {
        _ if value == value.trunc() && value.abs() < 1e6 => format!("{value}"),
        Type::F32 => format!("{:e}", value as f32),
        _ => format!("{value:e}"),
    }
}

fn operands(line: &Line, place: &Place) -> String {
    place.operands.iter().map(|&x| number(line.ty, x)).collect::<Vec<_>>().join(", ")
}

fn limit(line: &Line) -> &'static str {
    line.row.words[usize::from(line.ty == Type::F16)]
}

fn name(line: &Line) -> String {
    line.name.replace("T(", &format!("{}(", line.ty.wgsl()))
}

fn title(line: &Line) -> String {
    if line.row.part.is_empty() { format!("`{}`", name(line)) } else { format!("`{}`, {}", name(line), line.row.part) }
}

fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Ulp => " ULP",
        Measure::UlpOfTerm => " ULP of the largest term",
        Measure::Absolute => "",
    }
}

fn verdict(line: &Line) -> String {
    let tally = &line.tally;
    if let Some(why) = &line.refused {
        return format!("refused: {}", why.lines().next().unwrap_or_default().replace('|', "\\|"));
    }
    let flushed = if tally.flushed > 0 { "; subnormals flushed" } else { "" };
    match &tally.first_over {
        Some(place) => format!(
            "**over** at {} of {}, first ({}): {} instead of {}{flushed}",
            tally.over,
            tally.inputs,
            operands(line, place),
            number(line.ty, place.got),
            number(Type::F64, place.want)
        ),
        None if tally.limited == 0 => format!("no limit{flushed}"),
        None => format!("within{flushed}"),
    }
}

/// One row of the table.
pub fn markdown(line: &Line) -> String {
    let tally = &line.tally;
    let error = match tally.error {
        0.0 => "0".to_owned(),
        error if line.row.measure == Measure::Absolute || error >= 1e5 => format!("{error:.2e}"),
        error => format!("{error:.3}"),
    };
    let at = tally.worst.as_ref().filter(|_| tally.error > 0.0).map(|place| operands(line, place)).unwrap_or_default();
    let at = if at.len() > 60 { format!("{}...", &at[..57]) } else { at };
    let used = match tally.share {
        share if tally.limited == 0 || tally.error == 0.0 || share.is_infinite() => String::new(),
        // The neighbours on both sides: always all of it.
        _ if limit(line).starts_with("correctly rounded") => String::new(),
        share => format!("{:.2} %", share * 100.0),
    };
    format!(
        "| {} | {} | {} | {error}{} | {at} | {} | {used} | {} |",
        title(line),
        line.ty.wgsl(),
        tally.inputs,
        unit(line.row.measure),
        limit(line),
        verdict(line)
    )
}

fn text(value: &str) -> String {
    let mut quoted = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn json_number(value: f64) -> String {
    if value.is_finite() { format!("{value:e}") } else { "null".to_owned() }
}

/// One object; numbers that are not finite are null.
pub fn json(line: &Line) -> String {
    let tally = &line.tally;
    let place = |place: &Option<Place>| match place {
        None => "null".to_owned(),
        Some(place) => {
            let operands: Vec<String> = place.operands.iter().map(|&x| json_number(x)).collect();
            let (got, want) = (json_number(place.got), json_number(place.want));
            format!("{{\"operands\":[{}],\"got\":{got},\"exact\":{want}}}", operands.join(","))
        }
    };
    format!(
        "{{\"builtin\":{},\"part\":{},\"type\":\"{}\",\"inputs\":{},\"error\":{},\"unit\":\"{}\",\"worst\":{},\"limit\":{},\
         \"limited\":{},\"used\":{},\"over\":{},\"first_over\":{},\"flushed\":{},\"refused\":{}}}",
        text(&name(line)),
        text(&line.row.part.replace('\\', "")),
        line.ty.wgsl(),
        tally.inputs,
        json_number(tally.error),
        if line.row.measure == Measure::Absolute { "absolute" } else { unit(line.row.measure).trim() },
        place(&tally.worst),
        text(&limit(line).replace('\\', "")),
        tally.limited,
        json_number(tally.share),
        tally.over,
        place(&tally.first_over),
        tally.flushed,
        line.refused.as_ref().map_or("null".to_owned(), |why| text(why))
    )
}
