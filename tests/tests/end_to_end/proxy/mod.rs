//! A proxy before a PostgreSQL server that cuts connections at the worst moment.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a client sends to ask for TLS.
const TLS_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();

pub struct Proxy {
    /// Where it listens.
    pub address: String,
    /// The server's place in URLs.
    pub target: String,
    cut: Arc<AtomicU32>,
}

impl Proxy {
    /// Cuts the connection of every `every`th COMMIT: before the server has seen it, or when the server has done it and before
    /// its answer is passed on.
    pub fn start(url: &str, after: bool, every: u32) -> Self {
        let target = url.split_once('@').expect("a user").1.split('/').next().expect("an address").to_owned();
        let listener = (20_000..32_000).find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let cut = Arc::new(AtomicU32::new(0));
        let (server, counted, commits) = (target.clone(), cut.clone(), Arc::new(AtomicU32::new(0)));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let (counted, commits) = (counted.clone(), commits.clone());
                std::thread::spawn(move || {
                    let _ = serve(&client, &server, after, every, &counted, &commits);
                    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
                });
            }
        });
        Self { address, target, cut }
    }

    /// How many connections it has cut.
    pub fn cut(&self) -> u32 {
        self.cut.load(Ordering::SeqCst)
    }
}

/// Passes messages on, one by one from the client, as they come from the server.
fn serve(client: &TcpStream, server: &TcpStream, after: bool, every: u32, cut: &AtomicU32, commits: &AtomicU32) -> std::io::Result<()> {
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    // answers pass until the answer to a COMMIT is to be lost
    let passing = Arc::new(AtomicU32::new(0));
    let lost = passing.clone();
    let back = std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(count @ 1..) = from_server.read(&mut buffer) {
            if lost.load(Ordering::SeqCst) > 0 {
                // the server has answered: it is done
                let _ = to_client.shutdown(Shutdown::Both);
                return;
            }
            if to_client.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let (mut from_client, mut to_server) = (client, server);
    // the first message has no type, nor has a question whether the server speaks TLS, which comes before it
    loop {
        let mut length = [0; 4];
        from_client.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        from_client.read_exact(&mut body)?;
        to_server.write_all(&[&length[..], &body].concat())?;
        if body != TLS_REQUEST {
            break;
        }
    }
    loop {
        let mut head = [0; 5];
        from_client.read_exact(&mut head)?;
        let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
        from_client.read_exact(&mut body)?;
        if head[0] == b'Q' && body.starts_with(b"COMMIT") && commits.fetch_add(1, Ordering::SeqCst) % every == every - 1 {
            cut.fetch_add(1, Ordering::SeqCst);
            if !after {
                return Ok(());
            }
            passing.store(1, Ordering::SeqCst);
            to_server.write_all(&[&head[..], &body].concat())?;
            let _ = back.join();
            return Ok(());
        }
        to_server.write_all(&[&head[..], &body].concat())?;
    }
}
