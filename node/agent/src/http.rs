// SPDX-License-Identifier: GPL-2.0-only
//! As much of HTTP as a scrape takes: one GET a connection, answered and closed.
//!
//! A client has 5 s and 8 KiB for its request and 5 s to take the answer, and there are 16 at a
//! time: one more ends the oldest. So clients that dawdle, or are many, cost 16 threads at most and
//! keep no client else from being answered.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(5);
const REQUEST_BYTES: usize = 8 << 10;
const HEADERS: usize = 64;
const CONNECTIONS: usize = 16;
/// Pause before accepting is tried again after it failed (no descriptors left).
const PAUSE: Duration = Duration::from_millis(100);

/// A request that was parsed.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The path, without what follows a `?`.
    pub path: String,
    /// The `Accept` header; empty if there is none.
    pub accept: String,
}

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// Status line, as in `200 OK`.
    pub status: &'static str,
    /// Value of the header `Content-Type`.
    pub kind: &'static str,
    /// The whole body.
    pub body: String,
}

impl Response {
    /// Words for people.
    pub fn plain_text(status: &'static str, body: impl Into<String>) -> Response {
        Response {
            status,
            kind: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }
}

/// Answers requests, and takes note of those that were refused as they came, whose answer is there
/// already.
pub type Answer = dyn Fn(Result<Request, Response>) -> Response + Send + Sync;

/// Connections that are open, oldest first.
#[derive(Default)]
struct OpenConnections(Mutex<VecDeque<(u64, TcpStream)>>);

impl OpenConnections {
    fn admit_stream(&self, number: u64, stream: TcpStream) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= CONNECTIONS {
            if let Some((_, oldest)) = places.pop_front() {
                // Its thread fails at its next read or write, and ends.
                let _ = oldest.shutdown(Shutdown::Both);
            }
        }
        places.push_back((number, stream));
    }

    fn remove_stream(&self, number: u64) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|(other, _)| *other != number);
    }
}

/// Serves in threads of its own until the process ends.
///
/// # Errors
/// No thread can be had.
pub fn serve_requests(listener: TcpListener, answer: Arc<Answer>) -> io::Result<()> {
    let accept = move || {
        let places = Arc::new(OpenConnections::default());
        for number in 0.. {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(_) => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            let Ok(copy) = stream.try_clone() else {
                continue;
            };
            places.admit_stream(number, copy);
            let (here, answer) = (Arc::clone(&places), Arc::clone(&answer));
            let talk = move || {
                // A client that hangs up or dawdles gets no answer.
                let _ = answer_connection(&stream, &*answer);
                here.remove_stream(number);
            };
            if thread::Builder::new()
                .name("scrape".into())
                .spawn(talk)
                .is_err()
            {
                places.remove_stream(number);
            }
        }
    };
    thread::Builder::new().name("accept".into()).spawn(accept)?;
    Ok(())
}

fn answer_connection(stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    let asked = read_request(stream, Instant::now() + TIME)?;
    let head_only = asked.as_ref().is_ok_and(|(_, head)| *head);
    let response = answer(asked.map(|(request, _)| request));
    // However long it took to make.
    let end = Instant::now() + TIME;
    let length = response.body.len();
    let allow = if response.status.starts_with("405") {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let mut text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{allow}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        response.status, response.kind
    );
    if !head_only {
        text.push_str(&response.body);
    }
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(time_left(end)?))?;
        let written = (&*stream).write(rest)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = &rest[written..];
    }
    // What was not read of an overlong request would make the kernel throw the answer away.
    stream.shutdown(Shutdown::Write)?;
    let mut sink = [0; 1024];
    for _ in 0..64 {
        stream.set_read_timeout(Some(time_left(end)?))?;
        if (&*stream).read(&mut sink)? == 0 {
            break;
        }
    }
    Ok(())
}

/// The time that is left; an error if none is.
fn time_left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// The request and whether it wants no body; or how it is refused.
fn read_request(stream: &TcpStream, end: Instant) -> io::Result<Result<(Request, bool), Response>> {
    let mut buffer = [0; REQUEST_BYTES];
    let mut length = 0;
    loop {
        stream.set_read_timeout(Some(time_left(end)?))?;
        let read = (&*stream).read(&mut buffer[length..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        length += read;
        if let Some(request) = parse(&buffer[..length]) {
            return Ok(request);
        }
        if length == buffer.len() {
            let words = "this server takes requests of 8 KiB at most\n";
            return Ok(Err(Response::plain_text(
                "431 Request Header Fields Too Large",
                words,
            )));
        }
    }
}

/// Parses a request; nothing as long as there must be more to come.
fn parse(bytes: &[u8]) -> Option<Result<(Request, bool), Response>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            let words = "this server takes 64 headers at most\n";
            return Some(Err(Response::plain_text(
                "431 Request Header Fields Too Large",
                words,
            )));
        }
        Err(why) => {
            return Some(Err(Response::plain_text(
                "400 Bad Request",
                format!("{why}\n"),
            )));
        }
    }
    let head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            let words = "only GET and HEAD are accepted\n";
            return Some(Err(Response::plain_text("405 Method Not Allowed", words)));
        }
    };
    let path = parsed.path.unwrap_or("/");
    let accept: Vec<&str> = parsed
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("accept"))
        .filter_map(|header| std::str::from_utf8(header.value).ok())
        .collect();
    let request = Request {
        path: path.split('?').next().unwrap_or(path).into(),
        accept: accept.join(","),
    };
    Some(Ok((request, head)))
}

/// Returns whether OpenMetrics is what an `Accept` header likes best of the two formats there are.
pub fn wants_open_metrics(accept: &str) -> bool {
    let (mut open, mut plain) = (0.0_f64, 0.0_f64);
    for item in accept.split(',') {
        let mut parts = item.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let quality = parts
            .filter_map(|part| part.strip_prefix("q="))
            .find_map(|q| q.parse::<f64>().ok())
            .unwrap_or(1.0);
        match kind.to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => open = open.max(quality),
            "text/plain" | "text/*" | "*/*" => plain = plain.max(quality),
            _ => {}
        }
    }
    open > 0.0 && open >= plain
}

#[cfg(test)]
mod tests;
