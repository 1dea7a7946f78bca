//! Traces: what is read, and what malformed lines are told.

use std::io::{BufReader, Read};
use workload::trace::{Action, Format, LONGEST_LINE_BYTES, Malformed, Request, Trace, TraceError};

fn read(text: &[u8], format: Format) -> Vec<Result<Request, String>> {
    Trace::new(text, format).map(|request| request.map_err(|error| error.to_string())).collect()
}

fn request(key: &[u8], action: Action) -> Result<Request, String> {
    Ok(Request { key: key.into(), action })
}

#[test]
fn plain_requests_are_read() {
    let text = b"put a 120\r\nget  \xff\xfe\tz\n\n get a\ndel a\nput b 0\nput c 4294967295";
    let read = read(text, Format::Plain);
    assert_eq!(read[0], request(b"a", Action::Put { value_bytes: 120 }));
    assert!(read[1].as_ref().is_err_and(|error| error.starts_with("line 2: \"z\" follows")));
    assert_eq!(read[2], request(b"a", Action::Get));
    assert_eq!(read[3], request(b"a", Action::Delete));
    assert_eq!(read[4], request(b"b", Action::Put { value_bytes: 0 }));
    assert_eq!(read[5], request(b"c", Action::Put { value_bytes: u32::MAX }));
    assert_eq!(read.len(), 6);
}

#[test]
fn malformed_plain_lines_are_explained() {
    let any = "`get KEY`, `put KEY BYTES` or `del KEY`";
    let get = "`get KEY`";
    let put = "`put KEY BYTES`, the size of the value below 2^32";
    for (line, expected) in [
        ("   ", format!("there is no operation; expected {any}")),
        ("GET a", format!("the operation is \"GET\"; expected {any}")),
        ("get", format!("there is no key; expected {get}")),
        ("get a b", format!("\"b\" follows the last field; expected {get}")),
        ("put a", format!("there is no size; expected {put}")),
        ("put a 1k", format!("the size is \"1k\"; expected {put}")),
        ("put a +1", format!("the size is \"+1\"; expected {put}")),
        ("put a 4294967296", format!("the size is \"4294967296\"; expected {put}")),
        ("del", "there is no key; expected `del KEY`".to_owned()),
    ] {
        let text = format!("\nget a\n{line}\nget b\n");
        let read = read(text.as_bytes(), Format::Plain);
        assert_eq!(read[1], Err(format!("line 3: {expected}")));
        assert_eq!(read[2], request(b"b", Action::Get), "reading goes on");
    }
}

#[test]
fn cache_requests_are_read() {
    let text = b"0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n\
        1,yDqF,4,52,94,set,86400\n2,x,1,0,94,delete,0\n3,a,b,c,5,9,1,incr,7\n4,k,1,8,2,gets,0";
    let read = read(text, Format::Cache);
    let expected = [
        request(b"q:q:1:8WTfjZU14ee", Action::Get),
        request(b"yDqF", Action::Put { value_bytes: 52 }),
        request(b"x", Action::Delete),
        request(b"a,b,c", Action::Put { value_bytes: 9 }),
        request(b"k", Action::Get),
    ];
    assert_eq!(read, expected);
    for operation in ["set", "add", "replace", "cas", "append", "prepend", "incr", "decr"] {
        let line = format!("0,k,1,3,0,{operation},0");
        let read = self::read(line.as_bytes(), Format::Cache);
        assert_eq!(read, [request(b"k", Action::Put { value_bytes: 3 })], "{operation}");
    }
}

#[test]
fn malformed_cache_lines_are_explained() {
    let columns = "timestamp,key,keysize,valuesize,client,op,ttl";
    let number = format!("a decimal number (the columns are {columns})");
    let operations = "get, gets, set, add, replace, cas, append, prepend, incr, decr or delete";
    for (line, expected) in [
        ("0", format!("there is no key; expected {columns}")),
        ("0,a", format!("there is no ttl; expected {columns}")),
        ("0,a,1,2,get,0", format!("there is no keysize; expected {columns}")),
        ("0,,1,2,3,get,0", format!("there is no key; expected {columns}")),
        ("x,a,1,2,3,get,0", format!("the timestamp is \"x\"; expected {number}")),
        ("0,a,,2,3,get,0", format!("the keysize is \"\"; expected {number}")),
        ("0,a,1,-2,3,get,0", format!("the valuesize is \"-2\"; expected {number}")),
        ("0,a,1,2,c,get,0", format!("the client is \"c\"; expected {number}")),
        ("0,a,1,2,3,get,1.5", format!("the ttl is \"1.5\"; expected {number}")),
        ("0,a,1,2,3,touch,0", format!("the operation is \"touch\"; expected {operations}")),
    ] {
        let text = format!("{line}\n7,b,1,2,3,get,0\n");
        let read = read(text.as_bytes(), Format::Cache);
        assert_eq!(read[0], Err(format!("line 1: {expected}")), "{line}");
        assert_eq!(read[1], request(b"b", Action::Get), "reading goes on");
    }
}

#[test]
fn endless_lines_are_passed_over() {
    let limit = LONGEST_LINE_BYTES as usize;
    let longest = [b"get ".as_slice(), &vec![b'k'; limit - 5], b"\n"].concat();
    assert_eq!(longest.len(), limit);
    let too_long = vec![b'x'; 3 * limit];
    let text = [&longest, too_long.as_slice(), b"\nget a\n"].concat();
    let mut trace = Trace::new(text.as_slice(), Format::Plain);
    assert_eq!(trace.next().unwrap().unwrap().key.len(), limit - 5);
    let error = trace.next().unwrap().unwrap_err();
    assert!(matches!(error, TraceError::Malformed { line: 2, found: Malformed::TooLong, .. }));
    assert_eq!(&*trace.next().unwrap().unwrap().key, b"a");
    assert!(trace.next().is_none());
}

#[test]
fn errors_show_little_of_a_line() {
    let line = "z".repeat(10_000);
    let error = read(line.as_bytes(), Format::Plain)[0].clone().unwrap_err();
    assert!(error.len() < 200, "{error}");
}

#[test]
fn a_failing_source_ends_the_trace() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let source = BufReader::new(b"get a\nge".chain(Failing));
    let mut trace = Trace::new(source, Format::Plain);
    assert!(trace.next().unwrap().is_ok());
    let error = trace.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "line 2: the trace cannot be read: the disk is gone");
    assert!(trace.next().is_none());
}

#[test]
fn files_are_replayed() {
    let path = std::env::temp_dir().join(format!("workload-trace-{}", std::process::id()));
    std::fs::write(&path, "put a 3\nget a\n").unwrap();
    let requests: Result<Vec<Request>, _> = Trace::open(&path, Format::Plain).unwrap().collect();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(requests.unwrap().len(), 2);
    assert!(Trace::open(&path, Format::Plain).is_err());
}
