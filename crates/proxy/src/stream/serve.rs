//! Finding a stream its server connection: assign a server, reuse or make a connection, retry. One loop for HTTP and TCP.

use std::io;

use sluice_config::model::{
    Balance, ConnMode, HttpReuse, LogStep, Options, Proxy, RetryOn, Source, UseSrc,
};

use super::Stream;
use super::reply::Local;
use crate::backend::assign::{self, Attempts, NoServer};
use crate::backend::connect::{self, ConnectFail};
use crate::backend::pool::is_alive;
use crate::backend::takeover;
use crate::backend::{ServerConn, Slot};
use crate::net::{Timer, after_ms};
use crate::session::Client;

/// Why a stream got no connection to a server.
pub enum Unserved {
    /// No server, or none in time.
    NoServer(NoServer),
    /// The last attempt to connect failed.
    NotConnected(ConnectFail),
    /// The server's `redir` answers instead.
    Redirect(Local),
}

impl Unserved {
    /// The client did not wait for it (`option abortonclose`): nobody is there to answer.
    pub fn client_left(&self) -> bool {
        matches!(
            self,
            Unserved::NoServer(NoServer::ClientGone)
                | Unserved::NotConnected(ConnectFail::ClientGone)
        )
    }
}

/// What a stream finds when it looks for an idle connection.
enum Reusable {
    None,
    Mine(Box<ServerConn>),
    /// Another worker may have one.
    Others {
        proven: bool,
    },
}

impl Stream {
    /// A connection to a server: assigned, then reused or made, with retries.
    pub async fn server_connection(
        &mut self,
        client: &mut Client,
        be: &Proxy,
        attempts: &mut Attempts,
        left: &mut u32,
    ) -> Result<(Option<Slot>, Box<ServerConn>), Unserved> {
        let w = self.w.clone();
        let watch = be.options.contains(Options::ABORTONCLOSE);
        loop {
            let direct = be.unbalanced && attempts.wanted.is_none();
            let nobody = be.servers.is_empty() && self.be_state().usable_servers() == 0;
            let slot = if direct || nobody {
                None
            } else {
                match assign::assign(self, client, attempts).await {
                    Ok(slot) => Some(slot),
                    Err(why) => return Err(Unserved::NoServer(why)),
                }
            };
            self.tick();
            self.note_redispatch(attempts);
            // the time of an exchange that is repeated counts as connecting
            if !attempts.again {
                self.info.tw_ms = self.elapsed_ms() - self.info.tr_ms.max(0);
            }
            if let Some(local) = self.server_redirect() {
                return Err(Unserved::Redirect(local));
            }
            let key = self.connection_key(be);
            if let Some(slot_of) = &slot {
                match self.reusable(client, slot_of, key) {
                    Reusable::Mine(conn) => {
                        self.connected(&conn);
                        return Ok((slot, conn));
                    }
                    Reusable::Others { proven } => {
                        let taking = takeover::take_over(&w, slot_of.server, key, proven);
                        if let Some(conn) = Box::pin(taking).await {
                            self.tick();
                            self.connected(&conn);
                            return Ok((slot, conn));
                        }
                    }
                    Reusable::None => {}
                }
            }
            let made = match &slot {
                Some(slot) => {
                    let server = w.runtime().server(slot.server);
                    let addr = server.addr.load_full();
                    match connect::target(&addr, self) {
                        Some(t) => {
                            let conf = Some(&*server.conf);
                            let Client {
                                io,
                                timer,
                                read_closed,
                                ..
                            } = &mut *client;
                            let connecting = connect::connect(self, timer, t, conf);
                            let watched = assign::while_there(watch, io, read_closed, connecting);
                            Box::pin(watched)
                                .await
                                .unwrap_or(Err(ConnectFail::ClientGone))
                        }
                        None => Err(ConnectFail::Refused(io::ErrorKind::AddrNotAvailable.into())),
                    }
                }
                None => match super::forward::direct_target(self, be) {
                    Some(t) => Box::pin(connect::connect(self, &mut client.timer, t, None)).await,
                    None => return Err(Unserved::NoServer(NoServer::NoneUsable)),
                },
            };
            self.tick();
            match made {
                Ok(mut conn) => {
                    conn.server = slot.as_ref().map(|s| s.server);
                    conn.key = key;
                    self.count_connect();
                    self.connected(&conn);
                    return Ok((slot, conn));
                }
                Err(ConnectFail::ClientGone) => {
                    return Err(Unserved::NotConnected(ConnectFail::ClientGone));
                }
                Err(fail) => {
                    drop(slot);
                    if *left == 0 || !be.retry_on.contains(RetryOn::CONN_FAILURE) {
                        return Err(Unserved::NotConnected(fail));
                    }
                    *left -= 1;
                    let Client {
                        io,
                        timer,
                        read_closed,
                        ..
                    } = &mut *client;
                    let retrying = self.retry_connect(timer, attempts, *left);
                    let watched = assign::while_there(watch, io, read_closed, retrying);
                    if Box::pin(watched).await.is_none() {
                        return Err(Unserved::NotConnected(ConnectFail::ClientGone));
                    }
                }
            }
        }
    }

    /// Prepares another attempt: another server where redispatching is due, else the same after a pause.
    async fn retry_connect(&mut self, timer: &mut Timer, attempts: &mut Attempts, left: u32) {
        let be = self.backend();
        let done = be.retries.saturating_sub(left);
        let due = match be.redispatch {
            0 => false,
            n if n > 0 => done.is_multiple_of(n as u32),
            n => done.is_multiple_of((be.retries as i32 + 1 + n).max(1) as u32),
        };
        let rotates =
            be.redispatch != 0 && attempts.wanted.is_none() && self.be_state().usable_servers() > 1;
        let turns = matches!(
            be.balance,
            Balance::RoundRobin | Balance::StaticRr | Balance::Random { .. }
        );
        self.count_retry();
        if (due || rotates) && !attempts.forced {
            attempts.avoid = self.info.server.map(|s| s.index);
            attempts.wanted = None;
            attempts.again = false;
            if turns && self.be_state().usable_by_kind().0 > 1 {
                return;
            }
        } else {
            attempts.wanted = self.info.server.map(|s| s.index);
            attempts.again = true;
        }
        // the same server again, or one that may be the same: give it a moment
        const TURN_AROUND_MS: u64 = 1000;
        let pause = self
            .connect_timeout_ms()
            .map_or(TURN_AROUND_MS, |t| t.min(TURN_AROUND_MS));
        timer.until(after_ms(Some(pause))).await;
    }

    pub fn count_retry(&mut self) {
        self.info.retries += 1;
        self.be_state().be.retries.inc();
        if let Some(server) = self.server_state() {
            server.counters.retries.inc();
        }
    }

    /// Another server than the one that failed: the log marks the retries with a plus sign.
    fn note_redispatch(&mut self, attempts: &Attempts) {
        let now = self.info.server.map(|s| s.index);
        if self.info.retries == 0 || attempts.avoid.is_none() || attempts.avoid == now {
            return;
        }
        self.info.redispatched = true;
        if self.info.cookie_req == b'V' {
            self.info.cookie_req = b'D';
        }
        self.be_state().be.redispatches.inc();
        if let Some(server) = self.server_state() {
            server.counters.redispatches.inc();
        }
    }

    /// Notes a connection that is there.
    fn connected(&mut self, conn: &ServerConn) {
        let since = self.info.tr_ms.max(0) + self.info.tw_ms.max(0);
        self.info.tc_ms = (self.elapsed_ms() - since).max(0);
        self.server_conn = Some(conn.info.clone());
        self.server_conn_from.take();
        self.sess.server_fd = Some(std::os::fd::AsRawFd::as_raw_fd(&conn.io));
        self.enter_server(conn.reused);
        self.log_step(LogStep::Connect);
    }

    /// An idle connection this stream may use (`http-reuse`).
    fn reusable(&self, client: &mut Client, slot: &Slot, key: u64) -> Reusable {
        // a TCP stream's bytes have no end that would leave a connection over
        if !self.is_http || self.server_mode() != ConnMode::KeepAlive {
            return Reusable::None;
        }
        if let Some(mut own) = client.own.take()
            && own.server == Some(slot.server)
            && own.key == key
            && is_alive(&own)
        {
            own.mark_reused();
            return Reusable::Mine(own);
        }
        let be = self.backend();
        let first = self.sess.client.requests == 0;
        let mine = self.sess.last_server == Some(slot.server);
        let allowed = match be.http_reuse {
            HttpReuse::Never => false,
            HttpReuse::Safe => !first || mine,
            HttpReuse::Aggressive | HttpReuse::Always => true,
        };
        // a client's first request can only be trusted to a connection that did not close when it was used again
        let proven = first && !mine && be.http_reuse == HttpReuse::Aggressive;
        if !allowed {
            return Reusable::None;
        }
        if let Some(conn) = self.w.pools.take(&self.w, slot.server, key, proven) {
            return Reusable::Mine(conn);
        }
        let idle = &self.w.runtime().server(slot.server).idle;
        match idle.holder_after(self.w.id) {
            Some(_) if self.w.model().global.tune.idle_pool_shared => Reusable::Others { proven },
            _ => Reusable::None,
        }
    }

    /// What a new connection would tell the server of this client, as a number: the source address, the PROXY header,
    /// marks. 0 when it tells nothing.
    fn connection_key(&self, be: &Proxy) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let server = self.server_state().map(|s| &s.conf);
        let header = server.and_then(|s| s.send_proxy.as_ref().filter(|p| p.wanted));
        let source = server
            .and_then(|s| s.source.as_ref())
            .or(be.source.as_ref())
            .filter(|s: &&Source| s.usesrc.is_some());
        let (mark, tos) = (self.set.server_mark, self.set.server_tos);
        let name = server.and_then(|s| s.pool_conn_name.as_ref());
        if header.is_none() && source.is_none() && mark.is_none() && tos.is_none() && name.is_none()
        {
            return 0;
        }
        let mut key = DefaultHasher::new();
        if let Some(name) = name {
            let name = name.eval_as(self, sluice_expr::Type::Bin).ok();
            name.and_then(|n| Some(n.value.bytes()?.to_vec()))
                .hash(&mut key);
        }
        (mark, tos).hash(&mut key);
        if let Some(how) = header {
            crate::net::proxy_protocol::header(self, how).hash(&mut key);
        }
        let client = &self.sess.client.src;
        match source.and_then(|s| s.usesrc.as_ref()) {
            Some(UseSrc::Client) => (client.ip(), client.port()).hash(&mut key),
            Some(UseSrc::ClientIp) => client.ip().hash(&mut key),
            Some(UseSrc::Header { name, occurrence }) => self
                .req
                .headers
                .nth_value(name.as_bytes(), *occurrence)
                .hash(&mut key),
            Some(UseSrc::Addr(_)) | None => {}
        }
        key.finish() | 1
    }

    /// How the stream ends that found no server: counters, timers and termination flags.
    pub fn note_unserved(&mut self, why: &Unserved) {
        self.tick();
        let (cause, phase) = match why {
            Unserved::NoServer(NoServer::NoneUsable) => (b'S', b'C'),
            Unserved::NoServer(NoServer::QueueTimeout) => (b's', b'Q'),
            Unserved::NoServer(NoServer::QueueFull) => (b'S', b'Q'),
            Unserved::NoServer(NoServer::ClientGone) => (b'C', b'Q'),
            Unserved::NotConnected(ConnectFail::Timeout) => (b's', b'C'),
            Unserved::NotConnected(ConnectFail::ClientGone) => (b'C', b'C'),
            Unserved::NotConnected(_) => (b'S', b'C'),
            Unserved::Redirect(_) => (b'L', b'C'),
        };
        match why {
            Unserved::NoServer(NoServer::QueueTimeout | NoServer::QueueFull) => {
                self.be_state().be.failed_conns.inc();
            }
            Unserved::NotConnected(ConnectFail::ClientGone) => {}
            Unserved::NotConnected(_) => {
                self.be_state().be.failed_conns.inc();
                if let Some(server) = self.server_state() {
                    server.counters.failed_conns.inc();
                }
            }
            Unserved::NoServer(_) | Unserved::Redirect(_) => {}
        }
        if matches!(why, Unserved::NoServer(why) if *why != NoServer::NoneUsable) {
            self.info.tw_ms = self.elapsed_ms() - self.info.tr_ms.max(0);
        }
        self.terminate(cause, phase);
    }
}
