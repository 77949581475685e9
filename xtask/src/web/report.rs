//! What the page found, for the terminal, and whether it is good.

use serde_json::Value;

use crate::Result;

/// Prints the results, which are JSON of `tests/web/index.html`; an error unless everything ran and nothing failed.
pub fn judge(results: &str) -> Result {
    let results: Value = serde_json::from_str(results).map_err(|e| format!("the page sent no JSON: {e}"))?;
    if let Some(reason) = results["failed"].as_str() {
        return Err(format!("the page failed: {reason}"));
    }
    let device = &results["device"];
    println!("\n{} through {} ({})", text(&device["name"]), text(&device["api"]), text(&device["kind"]));
    let mut problems = Vec::new();
    problems.extend(kernels(&results["kernels"]));
    problems.extend(checks(&results["checks"]));
    for (stage, limits) in [("conformance", "the adapter's limits"), ("defaults", "WebGPU's default limits")] {
        problems.extend(conformance(&results[stage], limits));
    }
    match problems.as_slice() {
        [] => Ok(()),
        problems => Err(problems.join("; ")),
    }
}

fn kernels(kernels: &Value) -> Option<String> {
    let (tried, refused) = (count(&kernels["tried"]), list(&kernels["refused"]));
    for kernel in refused {
        println!("REFUSED {}: {}", text(&kernel["name"]), text(&kernel["message"]));
    }
    list(&kernels["warnings"]).iter().for_each(|warning| println!("{}", text(warning)));
    println!(
        "kernels: {} of {tried} accepted by the browser's compiler ({:.1} s)",
        tried.saturating_sub(refused.len() as u64),
        seconds(kernels)
    );
    match (tried, refused.len()) {
        (0, _) => Some("no kernel was tried".to_owned()),
        (_, 0) => None,
        (_, refused) => Some(format!("{refused} kernels were refused")),
    }
}

fn checks(checks: &Value) -> Option<String> {
    let rows = list(&checks["rows"]);
    let wrong: Vec<&Value> = rows.iter().filter(|row| !row["wrong"].is_null()).collect();
    for row in &wrong {
        println!("FAIL {}: {}", text(&row["name"]), text(&row["wrong"]));
    }
    println!("web checks: {} of {} passed ({:.1} s)", rows.len() - wrong.len(), rows.len(), seconds(checks));
    match (rows.len(), wrong.len()) {
        (0, _) => Some("no web check ran".to_owned()),
        (_, 0) => None,
        (_, wrong) => Some(format!("{wrong} web checks failed")),
    }
}

fn conformance(report: &Value, limits: &str) -> Option<String> {
    for failure in list(&report["failures"]) {
        println!("FAIL {}\n     {}", text(&failure["case"]), text(&failure["message"]));
        for miss in list(&failure["misses"]) {
            let (expected, allowed, got) = (text(&miss["expected"]), text(&miss["allowed"]), text(&miss["got"]));
            println!("     [{}] expected {expected} {allowed}, got {got}", miss["index"]);
        }
    }
    for group in list(&report["unsupported"]) {
        println!("unsupported: {} cases: {}", group["cases"], text(&group["reason"]));
    }
    let total = &report["total"];
    let (passed, failed) = (count(&total["passed"]), count(&total["failed"]));
    println!(
        "conformance with {limits}: {passed} passed, {failed} failed, {} unsupported, of {} ({:.1} s)",
        count(&total["unsupported"]),
        count(&report["selected"]),
        seconds(report)
    );
    match (passed, failed) {
        (0, 0) => Some(format!("nothing was computed with {limits}")),
        (_, 0) => None,
        (_, failed) => Some(format!("{failed} cases failed with {limits}")),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn seconds(stage: &Value) -> f64 {
    stage["seconds"].as_f64().unwrap_or(0.0)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(refused: &str, wrong: &str, failed: u32, passed: u32) -> String {
        let report = format!(r#"{{"selected":3,"total":{{"passed":{passed},"failed":{failed},"unsupported":1}}}}"#);
        format!(
            r#"{{"device":{{}},"kernels":{{"tried":2,"refused":[{refused}]}},
            "checks":{{"rows":[{{"name":"a","wrong":{wrong}}}]}},"conformance":{report},"defaults":{report}}}"#
        )
    }

    #[test]
    fn judge_accepts_only_what_ran_and_did_not_fail() {
        assert_eq!(judge(&results("", "null", 0, 2)), Ok(()));
        let refused = judge(&results(r#"{"name":"k","message":"m"}"#, "null", 0, 2));
        assert_eq!(refused, Err("1 kernels were refused".to_owned()));
        assert_eq!(judge(&results("", r#""bad""#, 0, 2)), Err("1 web checks failed".to_owned()));
        assert!(judge(&results("", "null", 1, 1)).is_err());
        assert!(judge(&results("", "null", 0, 0)).is_err());
        assert!(judge("{}").is_err() && judge("").is_err());
        assert_eq!(judge(r#"{"failed":"why"}"#), Err("the page failed: why".to_owned()));
    }
}
