//! A web server for one page: hands out the files of one folder, and takes what the page posts.
//!
//! HTTP/1.1 as far as a browser on this machine needs it: one request per connection, no ranges, no caching. A thread
//! answers; what was posted arrives through a channel.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::Result;

/// How often a silent page is looked after.
const LOOK: Duration = Duration::from_secs(1);
/// Longest header and body that are read.
const MOST_BYTES: u64 = 64 << 20;

/// A server that runs until the program ends.
pub struct Server {
    port: u16,
    posts: Receiver<Post>,
}

/// What the page sent to where.
struct Post {
    path: String,
    body: String,
}

impl Server {
    /// Serves `folder` on a free port of this machine.
    pub fn start(folder: PathBuf) -> Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("no port to serve from: {e}"))?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let (sender, posts) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (folder, sender) = (folder.clone(), sender.clone());
                // Browsers open connections ahead of need: a silent one must not hold up the others.
                std::thread::spawn(move || answer(stream, &folder, &sender));
            }
        });
        Ok(Server { port, posts })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the results, printing progress; an error when nothing is heard for `patience`, or as `alive` says.
    pub fn results(&self, patience: Option<Duration>, alive: &mut dyn FnMut() -> Result) -> Result<String> {
        let mut heard = Instant::now();
        let mut last = "nothing".to_owned();
        loop {
            match self.posts.recv_timeout(LOOK) {
                Ok(Post { path, body }) if path == "/results" => return Ok(body),
                Ok(Post { body, .. }) => {
                    println!("{body}");
                    (heard, last) = (Instant::now(), body);
                }
                Err(RecvTimeoutError::Timeout) => {
                    alive().map_err(|why| format!("{why}; last heard: {last}"))?;
                    if patience.is_some_and(|patience| heard.elapsed() > patience) {
                        return Err(format!("the page fell silent; last heard: {last}"));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err("the server ended".to_owned()),
            }
        }
    }
}

/// Answers one request; one that cannot be read is dropped.
fn answer(mut stream: TcpStream, folder: &Path, posts: &Sender<Post>) {
    let Some((method, path, body)) = request(&stream) else { return };
    let path = path.split('?').next().unwrap_or_default().to_owned();
    let reply = match method.as_str() {
        "POST" => {
            // The receiver is gone only once the results are in.
            let _ = posts.send(Post { path, body });
            response("204 No Content", "text/plain", &[])
        }
        "GET" => match file(folder, &path) {
            Some((kind, bytes)) => response("200 OK", kind, &bytes),
            None => response("404 Not Found", "text/plain", b"no such file"),
        },
        _ => response("405 Method Not Allowed", "text/plain", &[]),
    };
    let _ = stream.write_all(&reply);
}

/// Method, path and body.
fn request(stream: &TcpStream) -> Option<(String, String, String)> {
    let mut reader = BufReader::new(stream).take(MOST_BYTES);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0u64;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).ok()? == 0 {
            return None;
        }
        let header = header.trim_end().to_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    Some((method, path, String::from_utf8_lossy(&body).into_owned()))
}

/// A file directly in `folder`, and what it is; nothing else is reachable.
fn file(folder: &Path, path: &str) -> Option<(&'static str, Vec<u8>)> {
    let name = path.strip_prefix('/').filter(|name| !name.contains(['/', '\\']) && *name != "..")?;
    let name = if name.is_empty() { "index.html" } else { name };
    let kind = match name.rsplit_once('.')?.1 {
        "html" => "text/html",
        "js" => "text/javascript",
        "wasm" => "application/wasm",
        _ => return None,
    };
    Some((kind, fs::read(folder.join(name)).ok()?))
}

fn response(status: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn server_gives_the_page_takes_results_and_nothing_else() {
        let server = Server::start(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/web"))).unwrap();
        let page = ask(server.port(), "GET /?level=quick HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("<!doctype html>"), "{page}");
        for path in ["/Cargo.toml", "/src/lib.rs", "/../Cargo.toml", "/none.js"] {
            let reply = ask(server.port(), &format!("GET {path} HTTP/1.1\r\n\r\n"));
            assert!(reply.starts_with("HTTP/1.1 404"), "{path}: {reply}");
        }
        let _ = ask(server.port(), "POST /results HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
        assert_eq!(server.results(None, &mut || Ok(())).unwrap(), "{}");
    }

    #[test]
    fn results_end_when_the_page_is_gone_or_silent() {
        let server = Server::start(PathBuf::from(".")).unwrap();
        let gone = server.results(None, &mut || Err("gone".to_owned())).unwrap_err();
        assert!(gone.contains("gone"), "{gone}");
        assert!(server.results(Some(Duration::ZERO), &mut || Ok(())).unwrap_err().contains("silent"));
    }
}
