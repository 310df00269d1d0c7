//! One TCP connection between two namespaces that is never left alone: an echo after the other, and the longest wait for one.

use crate::lab::Patience;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub struct Pulse {
    beats: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    client: JoinHandle<Duration>,
}

fn enter(namespace: &str) {
    let file =
        std::fs::File::open(format!("/run/netns/{namespace}")).expect("the namespace is there");
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&file),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )
    .expect("root may enter it");
}

impl Pulse {
    pub fn start(client: &str, server: &str, address: &str) -> Pulse {
        let to: SocketAddr = address.parse().expect("an address");
        let server = server.to_string();
        let (listening, ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            enter(&server);
            let listener = TcpListener::bind(to).expect("the address is the server's");
            let _ = listening.send(());
            let (mut stream, _) = listener.accept().expect("somebody connects");
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
        });
        ready.recv().expect("the server listens");
        let beats = Arc::new(AtomicU64::new(0));
        let ends = Arc::new(AtomicBool::new(false));
        let (count, stop, namespace) = (beats.clone(), ends.clone(), client.to_string());
        let client = std::thread::spawn(move || {
            enter(&namespace);
            let mut stream =
                TcpStream::connect_timeout(&to, Duration::from_secs(30)).expect("it connects");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .expect("a timeout");
            let mut longest = Duration::ZERO;
            let mut byte = [7];
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                stream.write_all(&byte).expect("the connection lives");
                stream.read_exact(&mut byte).expect("the connection lives");
                longest = longest.max(began.elapsed());
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
            longest
        });
        Pulse {
            beats,
            ends,
            client,
        }
    }

    /// Waits for so many more echoes.
    pub fn beats(&self, more: u64) {
        let goal = self.beats.load(Ordering::Relaxed) + more;
        let mut patience = Patience::new(Duration::from_secs(30));
        while self.beats.load(Ordering::Relaxed) < goal {
            assert!(!patience.ends(), "the connection is stuck");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it: echoes in all, and the longest wait for one.
    pub fn end(self) -> (u64, Duration) {
        self.ends.store(true, Ordering::Relaxed);
        let longest = self.client.join().expect("the connection lived to its end");
        (self.beats.load(Ordering::Relaxed), longest)
    }
}
