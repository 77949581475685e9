//! The program `polywarp`. Everything is in `cli/`, one file per command.

mod cli;

fn main() -> std::process::ExitCode {
    quiet_wayland();
    cli::main()
}

/// Ends the process at once: no handler of a driver or of the C library runs, since it could wait for work that does not end.
fn end_now(code: u8) -> ! {
    unsafe extern "C" {
        fn _exit(code: std::ffi::c_int) -> !;
    }
    // SAFETY: `_exit` of the C library may be called at any time, and returns to nobody.
    unsafe { _exit(std::ffi::c_int::from(code)) }
}

/// Prevents an error message of libwayland where there is no desktop. wgpu's GL asks libwayland for a display, which
/// this program does not need.
#[cfg(target_os = "linux")]
fn quiet_wayland() {
    let unset = |name| std::env::var_os(name).is_none();
    if unset("XDG_RUNTIME_DIR") && unset("WAYLAND_DISPLAY") {
        // SAFETY: no other thread exists yet that could read or write the environment.
        unsafe { std::env::set_var("WAYLAND_DISPLAY", "/dev/null/no-display") };
    }
}

#[cfg(not(target_os = "linux"))]
fn quiet_wayland() {}
