//! Where programs are, where their files go, and which ports are free.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A port of the loopback that nobody uses now.
///
/// # Errors
/// When there is none.
pub fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Finds a program: a path as it is, a name in PATH and in the system's own folders.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let dirs = path
        .split(':')
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"]);
    dirs.map(|dir| Path::new(dir).join(name))
        .find(|file| file.is_file())
}

/// A folder for one run's files, removed when dropped.
#[derive(Debug)]
pub struct WorkDir(PathBuf);

impl WorkDir {
    /// A fresh folder under the system's temporary one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self> {
        for n in 0..1000 {
            let dir = std::env::temp_dir().join(format!("sluice-lab.{}.{n}", std::process::id()));
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Self(dir)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make {}", dir.display()));
                }
            }
        }
        bail!(
            "cannot make a folder under {}",
            std::env::temp_dir().display()
        )
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
