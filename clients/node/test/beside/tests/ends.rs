//! The program ends with its input, so a run of the Node client's tests leaves no server behind.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn the_server_ends_with_the_input_of_its_program() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mongo-lease-node-beside"))
        .arg("server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let input = program.stdin.take();
    let mut uri = String::new();
    let mut output = BufReader::new(program.stdout.take().expect("its output"));
    output.read_line(&mut uri).expect("a line");
    let address = uri.trim().strip_prefix("mongodb://").expect("a server's URI");
    let address = address.split(['/', ',']).next().expect("its first address").to_owned();
    drop(TcpStream::connect(&address).expect("the server runs"));

    drop(input);
    assert!(program.wait().expect("an end").success());
    assert!(TcpStream::connect(&address).is_err(), "{address} still answers");
}
