//! The kernels of `polywarp-kernels`, loaded: machine code from its archive, kernel by kernel when first used.
//!
//! Nothing is compiled here, but where the archive has only PTX for a card, its driver assembles that. What a driver does not
//! take (one older than the code, or none that runs machine code at all) is left out, and ops are computed another way.
//!
//! `POLYWARP_KERNELS=off` leaves all of them unused. For work on kernels it names an archive's file, as `cargo xtask kernels
//! --to` writes it, that is used instead of the embedded one. A file that others can write or replace is not: it is code.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use polywarp_core::Result;
use polywarp_kernels::archive::{Archive, LastBlock};
use polywarp_kernels::{Form, KernelInfo, prepared};

use crate::fault::lock;
use crate::kernels::Kernel;
use crate::native::{self, Context, Start};
use crate::params::Metadata;
use crate::status::{Code, code};

/// The environment variable that leaves these kernels unused (`off`) or names another archive.
const VARIABLE: &str = "POLYWARP_KERNELS";

/// Far above any archive: that of all kernels for all architectures has some megabytes.
const MAX_ARCHIVE_BYTES: u64 = 256 << 20;

/// The kernels of one card.
#[derive(Debug)]
pub(crate) struct Machine {
    context: Arc<Context>,
    sm: u32,
    archive: Option<Archive<'static>>,
    last: LastBlock,
    /// By symbol's address: the catalogue's entries live as long as the process.
    kernels: RwLock<HashMap<usize, Option<Arc<Kernel>>>>,
    /// One is loaded at a time.
    loading: Mutex<()>,
    /// The driver takes no machine code, or no PTX, of this archive.
    refused: [OnceLock<()>; 2],
    loaded: AtomicUsize,
}

impl Machine {
    pub(crate) fn new(context: &Arc<Context>, sm: u32) -> Machine {
        Machine {
            context: Arc::clone(context),
            sm,
            archive: archive(),
            last: LastBlock::default(),
            kernels: RwLock::default(),
            loading: Mutex::default(),
            refused: [OnceLock::new(), OnceLock::new()],
            loaded: AtomicUsize::new(0),
        }
    }

    /// Whether there is anything to plan with.
    pub(crate) fn any(&self) -> bool {
        self.archive.is_some() && self.refused(Form::Machine).get().is_none()
    }

    /// Whether there is code of `kernel` for this card, and the driver has not refused it. Nothing is loaded.
    pub(crate) fn may_have(&self, kernel: &'static KernelInfo) -> bool {
        if let Some(known) = self.known(std::ptr::from_ref(kernel).addr()) {
            return known.is_some();
        }
        let target = self.archive.as_ref().and_then(|archive| prepared::target(archive, kernel, self.sm));
        target.is_some_and(|target| self.refused(target.form).get().is_none())
    }

    /// Whether the driver would have to assemble `kernel`.
    pub(crate) fn assembles(&self, kernel: &'static KernelInfo) -> bool {
        let target = self.archive.as_ref().and_then(|archive| prepared::target(archive, kernel, self.sm));
        target.is_some_and(|target| target.form == Form::Ptx) && self.known(std::ptr::from_ref(kernel).addr()).is_none()
    }

    /// How many are loaded.
    pub(crate) fn loaded(&self) -> usize {
        self.loaded.load(Ordering::Relaxed)
    }

    /// `kernel`, loaded; `None` when there is no code of it that this card and driver take.
    ///
    /// # Errors
    /// The device has a fault, or no memory for the code.
    pub(crate) fn get(&self, kernel: &'static KernelInfo) -> Result<Option<Arc<Kernel>>> {
        let key = std::ptr::from_ref(kernel).addr();
        if let Some(known) = self.known(key) {
            return Ok(known);
        }
        let _loading = lock(&self.loading);
        if let Some(known) = self.known(key) {
            return Ok(known);
        }
        let (start, symbol) = (Instant::now(), &kernel.symbol);
        let kernel = match self.load(kernel)? {
            Ok(kernel) => kernel.map(Arc::new),
            Err(failed) => {
                log::info!("kernel `{symbol}` is not used: {}", self.context.api.words(failed));
                None
            }
        };
        log::debug!("kernel {symbol}: loaded in {:?}", start.elapsed());
        self.loaded.fetch_add(usize::from(kernel.is_some()), Ordering::Relaxed);
        self.kernels.write().unwrap_or_else(PoisonError::into_inner).insert(key, kernel.clone());
        Ok(kernel)
    }

    fn known(&self, key: usize) -> Option<Option<Arc<Kernel>>> {
        self.kernels.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    fn refused(&self, form: Form) -> &OnceLock<()> {
        &self.refused[usize::from(form == Form::Ptx)]
    }

    fn load(&self, kernel: &'static KernelInfo) -> Result<Result<Option<Kernel>, Code>> {
        let Some(archive) = &self.archive else { return Ok(Ok(None)) };
        let Some(target) = prepared::target(archive, kernel, self.sm) else { return Ok(Ok(None)) };
        if self.refused(target.form).get().is_some() {
            return Ok(Ok(None));
        }
        let found = match prepared::code(archive, &self.last, kernel, target) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Ok(None)),
            Err(why) => {
                log::warn!("kernel `{}` is not used: {why}", kernel.symbol);
                return Ok(Ok(None));
            }
        };
        let (symbol, shared) = (&kernel.symbol, kernel.dynamic_shared_bytes);
        match native::load(&self.context, &found.bytes, symbol, shared)? {
            Ok(function) => {
                let metadata = Metadata {
                    symbol: symbol.clone(),
                    block: kernel.block,
                    dynamic_shared_bytes: shared,
                    params_bytes: 0,
                    fields: Vec::new(),
                };
                let offsets = kernel.param_offsets();
                let early = kernel.starts_early && target.may_start_early();
                let start = match (kernel.cooperative, early) {
                    (true, _) => Start::Together,
                    (false, true) => Start::Early,
                    (false, false) => Start::InTurn,
                };
                Ok(Ok(Some(Kernel { name: symbol.clone(), function, metadata, offsets, start })))
            }
            Err(failed) => {
                // One that asks for too much is its own fault; code that cannot be read is the driver's age.
                let all =
                    [code::INVALID_IMAGE, code::NO_BINARY_FOR_GPU, code::INVALID_PTX, code::UNSUPPORTED_PTX_VERSION];
                if all.contains(&failed) {
                    let _ = self.refused(target.form).set(());
                }
                Ok(Err(failed))
            }
        }
    }
}

/// What tells the archive in use from the embedded one: nothing when it is that.
pub(crate) fn chosen_archive() -> String {
    let changed = |path: &std::ffi::OsString| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    std::env::var_os(VARIABLE).map_or(String::new(), |path| format!("{} {:?}", path.display(), changed(&path)))
}

/// The archive in the file `path`: code, which like the cache of kernels only this user or root may be able to write. Its blocks are
/// checked against the index, and kernels found by a digest of what the catalogue says of them, as those of the embedded one.
fn chosen(path: &Path) -> Result<Archive<'static>, String> {
    let bytes = polywarp_core::read_trusted(path, MAX_ARCHIVE_BYTES)?;
    Archive::parse(&bytes).map_err(|why| format!("is not used: {why}"))?;
    // Read once for the process, as the embedded one is.
    Archive::parse(bytes.leak()).map_err(str::to_owned)
}

/// The archive in use; its index is checked once.
fn archive() -> Option<Archive<'static>> {
    static PARSED: OnceLock<Option<Archive<'static>>> = OnceLock::new();
    *PARSED.get_or_init(|| {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let parsed: Result<Archive<'static>, String> = match variable {
            Some(value) if value == "off" => return None,
            Some(path) => chosen(Path::new(&path)).map_err(|why| format!("{VARIABLE}: {} {why}", path.display())),
            None => Archive::parse(prepared::ARCHIVE).map_err(str::to_owned),
        };
        parsed.inspect_err(|why| log::warn!("the kernels in CUDA C++ are not used: {why}")).ok()
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn archive_that_others_can_write_or_that_is_none_is_not_used() {
        let folder = std::env::temp_dir().join(format!("polywarp-archive-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let file = folder.join("kernels.bin");
        write(&file, prepared::ARCHIVE).unwrap();
        set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(chosen(&file).is_ok());
        set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        assert!(chosen(&file).unwrap_err().contains("can be written by others (mode 0666)"));
        set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(chosen(&file).unwrap_err().contains("where others can replace it"));
        set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        write(&file, &prepared::ARCHIVE[..1000]).unwrap();
        assert!(chosen(&file).unwrap_err().contains("is not used"));
        assert!(chosen(&folder).unwrap_err().contains("not a regular file"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
