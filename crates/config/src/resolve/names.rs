//! How names in expressions are found.

use sluice_expr::compile::Names;
use sluice_expr::{ProxyId, ServerId};

use crate::model::Caps;
use crate::raw::Raw;

/// The names an expression in one proxy can use.
pub(super) struct ProxyNames<'a> {
    pub raw: &'a Raw,
    /// The proxy it stands in.
    pub current: Option<usize>,
}

/// The proxy of this name that has a capability.
pub(super) fn find(raw: &Raw, name: &str, caps: Caps) -> Option<usize> {
    // Each of these is one bit: any is all.
    raw.proxy_with_any(name, caps)
}

pub(super) fn id(index: usize) -> ProxyId {
    ProxyId(index as u32)
}

impl ProxyNames<'_> {
    fn with(&self, caps: Caps) -> Option<ProxyId> {
        self.current
            .filter(|i| self.raw.proxies[*i].caps.contains(caps))
            .map(id)
    }
}

impl Names for ProxyNames<'_> {
    fn frontend(&self, name: &str) -> Option<ProxyId> {
        find(self.raw, name, Caps::FRONTEND).map(id)
    }
    fn backend(&self, name: &str) -> Option<ProxyId> {
        find(self.raw, name, Caps::BACKEND).map(id)
    }
    fn current(&self) -> Option<ProxyId> {
        self.current.map(id)
    }
    fn current_frontend(&self) -> Option<ProxyId> {
        self.with(Caps::FRONTEND)
    }
    fn current_backend(&self) -> Option<ProxyId> {
        self.with(Caps::BACKEND)
    }
    fn server(&self, backend: &str, server: &str) -> Option<ServerId> {
        let backend = match backend {
            "" => self.current?,
            name => find(self.raw, name, Caps::BACKEND)?,
        };
        let index = self.raw.proxies[backend]
            .servers
            .iter()
            .position(|s| *s.server.name == *server)?;
        Some(ServerId {
            backend: id(backend),
            index: index as u32,
        })
    }
    fn table(&self, _name: &str) -> Option<ProxyId> {
        // Stick tables are not read yet: no name is one.
        None
    }
    fn userlist(&self, name: &str) -> Option<u32> {
        let found = self.raw.userlists.iter().position(|(u, _)| u.name == name);
        found.map(|i| i as u32)
    }
    fn has_group(&self, userlist: u32, group: &str) -> bool {
        let mut declared = self.raw.userlist_groups.iter();
        declared.any(|(list, name, _)| *list == userlist as usize && name == group)
    }
}
