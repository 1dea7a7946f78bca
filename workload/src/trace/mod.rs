//! Requests recorded elsewhere, replayed from a file.
//!
//! A trace is read line by line, never as a whole. Values are not in traces, their sizes are:
//! fill and check them with [`fill_value`](crate::records::fill_value) under the
//! [`digest`](crate::records::digest) of the key.
//!
//! [`Format::Plain`], one request a line, with a value's size in bytes:
//!
//! ```text
//! put user:7 120
//! get user:7
//! del user:7
//! ```
//!
//! [`Format::Cache`], the columns `timestamp,key,keysize,valuesize,client,op,ttl` of the traces
//! that Twitter published of its caches (Yang, Yue and Rashmi, OSDI 2020):
//!
//! ```text
//! 0,user:7,6,120,4,set,3600
//! 1,user:7,6,0,4,get,0
//! ```
//!
//! Empty lines are passed over. A malformed line is an error that says where and what was
//! expected; reading may go on behind it.
//!
//! ```
//! use workload::trace::{Action, Format, Trace};
//!
//! let text = "put user:7 120\nget user:7\nget\n";
//! let mut trace = Trace::new(text.as_bytes(), Format::Plain);
//! let put = trace.next().unwrap()?;
//! assert_eq!((put.action, &*put.key), (Action::Put { value_bytes: 120 }, &b"user:7"[..]));
//! assert_eq!(trace.next().unwrap()?.action, Action::Get);
//!
//! let error = trace.next().unwrap().unwrap_err();
//! assert_eq!(error.to_string(), "line 3: there is no key; expected `get KEY`");
//! assert!(trace.next().is_none());
//! # Ok::<(), workload::trace::TraceError>(())
//! ```

mod cache;
mod error;
mod plain;
mod reader;
mod request;

pub use error::{Malformed, TraceError};
pub use reader::{Format, LONGEST_LINE_BYTES, Trace};
pub use request::{Action, Request};
