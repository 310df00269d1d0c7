//! The values of persistence cookies: a server's own word, or with `cookie ... dynamic` a hash of its address and of the
//! backend's `dynamic-cookie-key` (manual 4.2), which any instance with the same key computes alike.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use sluice_config::model::{self, PeerAddr, PortSpec};
use xxhash_rust::xxh64::xxh64;

use crate::state::{ProxyState, ServerState};

/// A backend's dynamic cookies, as commands change them.
#[derive(Debug, Default)]
pub struct DynamicCookies(Mutex<Settings>);

#[derive(Debug, Default, Clone)]
struct Settings {
    on: bool,
    key: Option<String>,
}

impl DynamicCookies {
    pub fn new(p: &model::Proxy) -> Self {
        DynamicCookies(Mutex::new(Settings {
            on: p.cookie.as_ref().is_some_and(|c| c.dynamic),
            key: p.dynamic_cookie_key.clone(),
        }))
    }
    /// `enable`/`disable dynamic-cookie`
    pub fn turn(&self, on: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).on = on;
    }
    /// `set dynamic-cookie-key`
    pub fn set_key(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).key = Some(key.to_owned());
    }
    fn settings(&self) -> Settings {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ProxyState {
    /// Gives every server its cookie's value: after a change of an address, of the key, or of the switch.
    pub fn refresh_cookies(&self) {
        let settings = self.dynamic_cookies.settings();
        for s in &self.servers {
            let value = s.conf.cookie.clone().or_else(|| {
                let key = settings.key.as_deref().filter(|_| settings.on)?;
                dynamic(s, key)
            });
            s.cookie.store(value.map(Arc::new));
        }
    }
}

/// XXH64 of the key, the address and the port, the port in four bytes in network order.
fn dynamic(s: &ServerState, key: &str) -> Option<String> {
    let PeerAddr::Ip { ip, port } = &**s.addr.load() else {
        return None;
    };
    let port = match port {
        PortSpec::Fixed(port) => u32::from(*port),
        _ => 0,
    };
    let mut text = key.as_bytes().to_vec();
    match ip {
        IpAddr::V4(ip) => text.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => text.extend_from_slice(&ip.octets()),
    }
    text.extend_from_slice(&port.to_be_bytes());
    Some(format!("{:016x}", xxh64(&text, 0)))
}

#[cfg(test)]
mod tests {
    use crate::testing::backend;

    #[test]
    fn values_are_haproxys() {
        let rt = backend(
            " cookie SRV insert dynamic\n dynamic-cookie-key secret\n server a 127.0.0.1:23050\n \
             server b 127.0.0.1:1 cookie mine\n server c [::1]:23052",
        );
        let p = &rt.proxies[0];
        let values = || -> Vec<Option<String>> {
            let value = |s: &std::sync::Arc<crate::ServerState>| {
                s.cookie.load_full().map(|c| c.to_string())
            };
            p.servers.iter().map(value).collect()
        };
        let some = |v: &str| Some(v.to_owned());
        assert_eq!(
            values(),
            [
                some("826462c65c7a1dd4"),
                some("mine"),
                some("2927147e8cea9833")
            ]
        );
        p.dynamic_cookies.turn(false);
        p.refresh_cookies();
        assert_eq!(values(), [None, some("mine"), None]);
    }
}
