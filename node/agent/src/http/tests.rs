// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use std::net::SocketAddr;

fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let answer = |asked: Result<Request, Response>| {
        asked.map_or_else(
            |refused| refused,
            |request| {
                Response::plain_text("200 OK", format!("{} for {}", request.path, request.accept))
            },
        )
    };
    serve_requests(listener, Arc::new(answer)).expect("threads");
    address
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(request).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn a_request_is_answered_and_the_connection_closed() {
    let address = server();
    let answer = ask(
        address,
        b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: text/plain\r\naccept: b\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    assert!(
        answer.ends_with("\r\n\r\n/metrics for text/plain,b"),
        "{answer}"
    );
    let head = ask(address, b"HEAD / HTTP/1.0\r\n\r\n");
    assert!(
        head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[test]
fn what_is_no_such_request_is_refused() {
    let address = server();
    let post = ask(
        address,
        b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert!(
        post.starts_with("HTTP/1.1 405 ") && post.contains("Allow: GET, HEAD"),
        "{post}"
    );
    let noise = ask(address, b"\x16\x03\x01\x02\x00\x01\x00 hello\r\n\r\n");
    assert!(noise.starts_with("HTTP/1.1 400 "), "{noise}");
    let long = [b"GET /".as_slice(), &[b'a'; 9000]].concat();
    assert!(ask(address, &long).starts_with("HTTP/1.1 431 "));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
    assert!(ask(address, many.as_bytes()).starts_with("HTTP/1.1 431 "));
}

#[test]
fn clients_that_dawdle_keep_nobody_waiting() {
    let address = server();
    let dawdlers: Vec<TcpStream> = (0..3 * CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("connected");
            stream.write_all(b"GET /metrics HT").expect("sent");
            stream
        })
        .collect();
    let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The first was sent away when there were too many, long before its time was over.
    let mut first = &dawdlers[0];
    let read = first.read(&mut [0; 16]);
    assert!(read.is_err() || read.is_ok_and(|length| length == 0));
}

#[test]
fn the_format_is_negotiated() {
    let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let prometheus_3 = "application/vnd.google.protobuf;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.2";
    for accept in [prometheus_2, prometheus_3, "Application/OpenMetrics-Text"] {
        assert!(wants_open_metrics(accept), "{accept}");
    }
    let plain = "text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.5";
    for accept in [
        "",
        "*/*",
        "text/html, */*;q=0.1",
        plain,
        "application/openmetrics-text;q=0",
    ] {
        assert!(!wants_open_metrics(accept), "{accept}");
    }
}
