//! What connections share: the content of all threads, and a thread's buffer and known requests.

use crate::http;
use crate::origin::plan::{self, Found, Plan};
use crate::pattern;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Read buffer of a thread: more than a socket gives at once under load.
const SCRATCH_BYTES: usize = 256 * 1024;
/// The incompressible content that large objects repeat.
pub(super) const BLOCK_BYTES: u64 = 4 << 20;
/// How many distinct request heads a thread remembers the answers of.
const PLANS_MAX: usize = 64;

/// What all threads read from.
#[derive(Debug)]
pub struct Shared {
    pub(super) block: Vec<u8>,
    /// The same bytes as a memory file, for `sendfile`.
    pub(super) block_file: OwnedFd,
    root: Option<PathBuf>,
}

impl Shared {
    /// Makes the content block.
    ///
    /// # Errors
    /// When the kernel gives no memory file.
    pub fn new(root: Option<PathBuf>) -> std::io::Result<Self> {
        let block_file =
            rustix::fs::memfd_create("origin-content", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut block = vec![0; BLOCK_BYTES as usize];
        pattern::fill(0, 0, &mut block);
        std::io::Write::write_all(&mut std::fs::File::from(block_file.try_clone()?), &block)?;
        Ok(Self {
            block,
            block_file,
            root,
        })
    }

    fn open(&self, path: &[u8]) -> Found {
        let Some(root) = &self.root else {
            return Found::NoRoot;
        };
        Self::open_below(root, path).map_or(Found::Missing, |(file, len)| Found::File(file, len))
    }

    fn open_below(root: &Path, path: &[u8]) -> Option<(std::fs::File, u64)> {
        let path = Path::new(std::str::from_utf8(path).ok()?.trim_start_matches('/'));
        if !path
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            return None;
        }
        let file = std::fs::File::open(root.join(path)).ok()?;
        let meta = file.metadata().ok()?;
        meta.is_file().then_some((file, meta.len()))
    }
}

/// What a thread's connections share.
pub struct Context {
    pub(super) shared: Arc<Shared>,
    pub(super) scratch: Vec<u8>,
    plans: HashMap<Vec<u8>, Rc<Plan>>,
    last: Option<(Vec<u8>, Option<u16>, Rc<Plan>)>,
    /// Requests answered since the thread last took this.
    pub requests: u64,
    /// Requests refused since the thread last took this.
    pub bad: u64,
}

impl Context {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            scratch: vec![0; SCRATCH_BYTES],
            plans: HashMap::new(),
            last: None,
            requests: 0,
            bad: 0,
        }
    }

    /// The plan for a request head. Load generators repeat themselves: a head that equals the last one, or one
    /// that was seen lately, is not parsed again.
    pub(super) fn plan(
        &mut self,
        head: &[u8],
        server: Option<u16>,
    ) -> Result<Rc<Plan>, http::BadMessage> {
        if let Some((last, name, plan)) = &self.last
            && last == head
            && *name == server
        {
            return Ok(Rc::clone(plan));
        }
        let known = if server.is_none() {
            self.plans.get(head)
        } else {
            None
        };
        let plan = match known {
            Some(plan) => Rc::clone(plan),
            None => {
                let shared = &self.shared;
                let plan = Rc::new(plan::plan(
                    &http::request_head(head)?,
                    head,
                    server,
                    |path| shared.open(path),
                ));
                if self.plans.len() >= PLANS_MAX {
                    self.plans.clear();
                }
                if server.is_none() {
                    self.plans.insert(head.to_vec(), Rc::clone(&plan));
                }
                plan
            }
        };
        self.last = Some((head.to_vec(), server, Rc::clone(&plan)));
        Ok(plan)
    }
}
