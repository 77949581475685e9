//! Tests in processes of their own, and the interpreted driver told to misbehave.

use std::ffi::{CString, c_char};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Names the test that a child process is for.
const CHILD: &str = "POLYWARP_TEST_CHILD";

/// Runs the test `name` of this program again in a child process with `variables`, which must print SURVIVED within a
/// minute; gives what it prints.
pub fn in_child(name: &str, variables: &[(&str, &str)]) -> String {
    in_child_within(Duration::from_secs(60), name, variables)
}

/// What this program calls the test `name`: in a program of several files its module stands before it.
fn path(name: &str) -> String {
    let said = Command::new(std::env::current_exe().unwrap()).args(["--list", "--format", "terse"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let mut paths = said.lines().filter_map(|line| line.strip_suffix(": test"));
    let path =
        paths.find(|path| path.strip_suffix(name).is_some_and(|module| module.is_empty() || module.ends_with("::")));
    path.unwrap_or_else(|| panic!("there is no test {name}")).to_owned()
}

/// [`in_child`] for what takes longer.
pub fn in_child_within(limit: Duration, name: &str, variables: &[(&str, &str)]) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &path(name)])
        .env(CHILD, name)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() && started.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(50));
    }
    let hung = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(!hung, "{name} hangs: {text}");
    // A child with an endless kernel ends itself by force, when all is said.
    assert!(text.contains("SURVIVED") && !text.contains("panicked"), "{name}: {:?}: {text}", out.status);
    text
}

/// Whether this process was started by [`in_child`] for the test `name`.
pub fn is_child(name: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|child| child == name)
}

/// [`in_child`] on the interpreted driver, whatever the machine has; `false` where that driver was not built, which is said.
pub fn on_interpreted(name: &str, variables: &[(&str, &str)]) -> bool {
    on_interpreted_within(Duration::from_secs(60), name, variables)
}

/// [`on_interpreted`] for what takes longer.
pub fn on_interpreted_within(limit: Duration, name: &str, variables: &[(&str, &str)]) -> bool {
    let library = std::env::current_exe().unwrap().with_file_name("libinterpreted_cuda.so");
    if !library.is_file() {
        println!("NOT RUN: only the interpreted driver can be told to, and there is no {}", library.display());
        return false;
    }
    in_child_within(limit, name, &[&[("POLYWARP_TEST_DRIVER", "interpreted")], variables].concat());
    true
}

/// The functions of the interpreted driver that no other driver has.
pub struct Control {
    fail: unsafe extern "system" fn(*const c_char, u32, u64),
    calls: extern "system" fn() -> u64,
    staged: extern "system" fn() -> u64,
    capture: extern "system" fn(u32) -> u32,
}

impl Control {
    pub fn new() -> Control {
        // SAFETY: loaded already, by `interpreted`; the signatures are those of `interpreted-driver/src/lib.rs`.
        unsafe {
            let library = libloading::Library::new("libcuda.so.1").unwrap();
            let control = Control {
                fail: *library.get(b"interpreted_fail\0").unwrap(),
                calls: *library.get(b"interpreted_calls\0").unwrap(),
                staged: *library.get(b"interpreted_staged\0").unwrap(),
                capture: *library.get(b"interpreted_capture\0").unwrap(),
            };
            std::mem::forget(library);
            control
        }
    }

    /// Lets the call number `at`, from now, of the function `name` return `code`.
    pub fn fail(&self, name: &str, code: u32, at: u64) {
        let name = CString::new(name).unwrap();
        // SAFETY: a string that ends in zero, read during the call.
        unsafe { (self.fail)(name.as_ptr(), code, at) };
    }

    /// Counts calls of the function `name` from now on, which all do what they do.
    pub fn count(&self, name: &str) {
        self.fail(name, 0, u64::MAX);
    }

    /// Calls of the function that fails or is counted.
    pub fn calls(&self) -> u64 {
        (self.calls)()
    }

    /// Does `work` while another library captures a stream in the default mode; whether that capture came to its end.
    pub fn beside_a_capture(&self, work: impl FnOnce()) -> bool {
        (self.capture)(1);
        work();
        (self.capture)(0) == 0
    }

    /// Copies from a card to the memory of another that it has no access to.
    pub fn staged(&self) -> u64 {
        (self.staged)()
    }
}
