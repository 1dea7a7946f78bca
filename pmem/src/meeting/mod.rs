//! Where processes meet that use one pool: its *owner*, who has the pool's lock and changes it, and its *guests*, who
//! ask the owner.
//!
//! ```text
//!   guest                                              owner
//!   connects to the socket beside the pool  ────────>  accepts, and makes a room of lanes for this guest
//!   maps the room, the view   <──── hello, two or three descriptors
//!   writes a request into a lane            ────────>  a serving thread finds it, and writes the answer there
//!   hangs up, or dies                       ────────>  sees the hang-up; the room ends with the last who maps it
//! ```
//!
//! Why a socket and memory without a name, not files in /dev/shm:
//!
//! * The kernel tells each side of the other's end, whatever ends it, in whatever namespace.
//! * A room is sealed: it cannot become shorter. A file that guests may write they may also truncate, and then the
//!   owner would die of SIGBUS.
//! * A guest sees no room but its own.
//! * Nothing is left of either. /dev/shm may be small, full or missing. Containers that share the pool's directory
//!   share its socket.
//! * Who may connect is a matter of the socket's permissions, which are the pool's.
//!
//! With a [view](crate::view) of the pool guests look keys up by themselves. It is sealed, too, and nobody but the
//! owner can map it to write.
//!
//! The owner trusts nothing that it reads in a room. It copies a request before it looks at it, and keeps no state of
//! its own there.

#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod door;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod hello;
mod lane;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod nap;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod room;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod socket;
#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
mod tests;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod visit;
mod words;

#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub use door::{Bell, Door, Visitor};
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub use hello::Hello;
pub use lane::{Asked, Doze, Lane, Part};
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub use nap::{sleep_on, wake};
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub use room::{LANE_WORDS, LANES, RoomLane};
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub use socket::remove;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub use visit::{Visit, VisitError};
pub use words::{as_bytes, push_bytes};
