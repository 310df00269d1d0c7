//! Servers that come and go by command (management guide 9.3 `add server`, `del server`): what is asked of them, and what
//! a change brings with it. The words of the answers are HAProxy's.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sluice_config::model::{self, ServerTarget};
use sluice_expr::{ProxyId, ServerId};

use crate::state::{Runtime, admin, server_state};

/// Why a server is not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    #[error("Backend must use a dynamic load balancing to support dynamic servers.")]
    StaticBalance,
    #[error("Already exists a server with the same name in backend.")]
    NameTaken,
    #[error("'id' : custom id {0} already used at ({1}):{2} ('server {3}').")]
    IdTaken(u32, String, u32, String),
    #[error("unable to track {0} as it does not exist.")]
    NoSuchTracked(String),
    #[error("unable to use {0} for tracking as it is a dynamic server.")]
    TracksDynamic(String),
    #[error("unable to use {0} for tracking as it does not have any check nor agent enabled.")]
    TracksUnchecked(String),
    #[error("the backend has no room for another server: restart the process.")]
    Full,
}

/// Why a server is not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeleteError {
    #[error(
        "This server cannot be removed at runtime due to other configuration elements pointing to it."
    )]
    InUse,
    #[error("Only servers in maintenance mode can be deleted.")]
    NotInMaintenance,
    #[error("Server still has connections attached to it, cannot remove it.")]
    HasConnections,
}

impl Runtime {
    /// Whether servers can be added to a backend at all.
    pub fn takes_servers(&self, backend: ProxyId) -> Result<(), AddError> {
        match self.proxy(backend).balancer.is_fixed() {
            true => Err(AddError::StaticBalance),
            false => Ok(()),
        }
    }

    /// Adds a server, in maintenance unless it is `enabled`, with its checks paused. An id of 0 is for the first that is
    /// free.
    pub fn add_server(
        &self,
        backend: ProxyId,
        mut server: model::Server,
        enabled: bool,
        now_ms: u64,
    ) -> Result<ServerId, AddError> {
        self.takes_servers(backend)?;
        let p = self.proxy(backend);
        if p.servers.iter().any(|s| s.name == server.name) {
            return Err(AddError::NameTaken);
        }
        let with_id = |id: u32| p.servers.iter().find(|s| s.conf.id == id);
        if server.id == 0 {
            server.id = (1..).find(|id| with_id(*id).is_none()).unwrap_or(0);
        } else if let Some(other) = with_id(server.id) {
            let at = &other.conf.origin;
            let (file, name) = (at.file.to_string(), other.name.to_string());
            return Err(AddError::IdTaken(server.id, file, at.line, name));
        }
        if let Some(name) = &server.track {
            let name = match name.contains('/') {
                true => name.clone(),
                false => format!("{}/{name}", p.name),
            };
            self.check_tracked(&name)?;
            server.track = Some(name);
        }
        let server = Arc::new(server);
        let added = p.servers.add(|index| {
            let s = server_state((backend, index), &server, now_ms, self.workers, true);
            if !enabled {
                s.change_admin(admin::FORCED_MAINT, 0);
            }
            s.check_probe.paused.store(true, Relaxed);
            s.agent_probe.paused.store(true, Relaxed);
            s
        });
        let id = added.ok_or(AddError::Full)?.id;
        p.refresh_cookies();
        p.state_changed();
        Ok(id)
    }

    fn check_tracked(&self, name: &str) -> Result<(), AddError> {
        let missing = || AddError::NoSuchTracked(name.to_owned());
        let (backend, server) = name.split_once('/').ok_or_else(missing)?;
        let p = self.proxies.iter().find(|p| *p.name == *backend);
        let s = p.and_then(|p| p.servers.iter().find(|s| *s.name == *server));
        let s = s.ok_or_else(missing)?;
        if s.is_dynamic {
            return Err(AddError::TracksDynamic(name.to_owned()));
        }
        if !s.conf.check.enabled && !s.conf.agent.enabled && s.conf.track.is_none() {
            return Err(AddError::TracksUnchecked(name.to_owned()));
        }
        Ok(())
    }

    /// Takes a server out for good, if that [may be](Runtime::may_delete).
    pub fn delete_server(&self, id: ServerId) -> Result<(), DeleteError> {
        self.may_delete(id)?;
        self.server(id).delete();
        self.proxy(id.backend).state_changed();
        Ok(())
    }

    /// Whether a server could be deleted now: one in maintenance that has no connection and that nothing else refers to.
    pub fn may_delete(&self, id: ServerId) -> Result<(), DeleteError> {
        let s = self.server(id);
        let rules = &self.model.proxy(id.backend).use_servers;
        let named = rules
            .iter()
            .any(|r| matches!(r.target, ServerTarget::Static(i) if i == id.index));
        if named || !self.followers(id).is_empty() {
            return Err(DeleteError::InUse);
        }
        if s.admin() & admin::MAINT == 0 {
            return Err(DeleteError::NotInMaintenance);
        }
        let busy = s.served.load(Relaxed) > 0
            || s.counters.sessions.now() > 0
            || s.idle.total() > 0
            || !s.queue.is_empty();
        if busy {
            return Err(DeleteError::HasConnections);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::AdminState;
    use crate::balance::Ask;
    use crate::testing::backend;

    fn named(rt: &Runtime, name: &str) -> model::Server {
        model::Server {
            name: name.into(),
            id: 0,
            ..(*rt.proxies[0].servers[0].conf).clone()
        }
    }

    #[test]
    fn a_server_comes_serves_and_goes() {
        let rt = backend("server a 127.0.0.1:1 weight 1\nserver b 127.0.0.1:2 weight 1");
        let p = rt.proxies[0].clone();
        let id = rt
            .add_server(p.id, named(&rt, "c"), false, 0)
            .expect("added");
        assert_eq!((id.index, p.servers.len(), p.usable_servers()), (2, 3, 2));
        assert_eq!(
            rt.add_server(p.id, named(&rt, "c"), false, 0),
            Err(AddError::NameTaken)
        );
        rt.end_maintenance(id, 0);
        let ask = Ask::default();
        let chosen: Vec<_> = (0..3)
            .filter_map(|_| p.balancer.choose(&p.servers, &ask))
            .collect();
        assert!(chosen.contains(&2), "{chosen:?}");
        assert_eq!(rt.delete_server(id), Err(DeleteError::NotInMaintenance));
        rt.set_admin(id, AdminState::Maint, 0);
        rt.server(id).counters.sessions.enter();
        assert_eq!(rt.delete_server(id), Err(DeleteError::HasConnections));
        rt.server(id).counters.sessions.leave();
        assert_eq!(rt.delete_server(id), Ok(()));
        assert_eq!((p.servers.len(), p.servers.get(2).is_none()), (2, true));
        // its id is free again, its place is not
        let again = rt
            .add_server(p.id, named(&rt, "c"), false, 0)
            .expect("added");
        assert_eq!((again.index, rt.server(again).conf.id), (3, 3));
    }

    #[test]
    fn fixed_balancing_takes_no_servers() {
        let rt = backend("balance static-rr\nserver a 127.0.0.1:1");
        let refused = rt.add_server(rt.proxies[0].id, named(&rt, "c"), false, 0);
        assert_eq!(refused, Err(AddError::StaticBalance));
    }

    #[test]
    fn many_servers_find_room() {
        let rt = backend("server a 127.0.0.1:1");
        let p = rt.proxies[0].clone();
        for n in 0..200 {
            let id = rt
                .add_server(p.id, named(&rt, &format!("d{n}")), true, 0)
                .expect("room");
            assert!(id.index > n);
        }
        assert_eq!((p.servers.len(), p.usable_servers()), (201, 201));
        assert_eq!(&*p.servers[150].name, "d149");
    }
}
