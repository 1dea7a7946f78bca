//! The system calls of another process, seen as the kernel sees them: nothing in the product has to tell of them.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A call that is about to be made, or has returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
}

/// The process.
pub(crate) struct Process {
    pub(crate) id: i32,
}

impl Process {
    /// Bytes of its memory.
    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        File::open(format!("/proc/{}/mem", self.id))?.read_exact_at(bytes, at)
    }
}

/// Who sees the calls.
pub(crate) trait Watcher {
    /// Whether the call is one to be told of. Of these one is made at a time, so what it changes is seen alone.
    fn is_told(&self, call: &Call) -> bool;
    /// It is about to be made.
    fn begins(&mut self, process: &Process, call: &Call);
    /// It has returned this.
    fn ends(&mut self, process: &Process, call: &Call, result: i64);
}

/// What `PTRACE_GET_SYSCALL_INFO` fills in, as words.
type Info = [u64; 11];
const ENTRY: u8 = 1;
const EXIT: u8 = 2;
/// Bit of the signal number that marks the stops at calls.
const AT_CALL: i32 = 0x80;

fn asked(request: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: requests that write to this process's memory get the address of a value that outlives the call.
    match unsafe { libc::ptrace(request, thread, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A change of one of this thread's processes, or of a thread of theirs: which one, and its status.
fn waited() -> io::Result<(i32, i32)> {
    loop {
        let mut status = 0;
        // Not of the processes that other tests have started.
        // SAFETY: `status` outlives the call.
        let thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
        if thread > 0 {
            return Ok((thread, status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Goes on to the next call, with a signal if that is not 0.
fn go_on(thread: i32, signal: i32) {
    // A thread that was killed meanwhile is told of by the next wait.
    let _ = asked(libc::PTRACE_SYSCALL, thread, 0, signal as usize);
}

struct Tracer<'a, W> {
    process: Process,
    watcher: &'a mut W,
    calls: HashMap<i32, Call>,
    /// The thread that is making a call that is told of.
    busy: Option<i32>,
    /// Those that are about to.
    waiting: VecDeque<(i32, Call)>,
}

impl<W: Watcher> Tracer<'_, W> {
    fn begin(&mut self, thread: i32, call: Call) {
        if !self.watcher.is_told(&call) {
            return go_on(thread, 0);
        }
        if self.busy.is_some() {
            return self.waiting.push_back((thread, call));
        }
        self.busy = Some(thread);
        self.calls.insert(thread, call);
        self.watcher.begins(&self.process, &call);
        go_on(thread, 0);
    }

    fn end(&mut self, thread: i32, result: i64) {
        if let Some(call) = self.calls.remove(&thread) {
            self.watcher.ends(&self.process, &call, result);
        }
        go_on(thread, 0);
        self.is_free(thread);
    }

    /// Lets the next one make its call, if this thread was making one.
    fn is_free(&mut self, thread: i32) {
        if self.busy == Some(thread) {
            self.busy = None;
            if let Some((next, call)) = self.waiting.pop_front() {
                self.begin(next, call);
            }
        }
    }

    /// Lets the process run to its end. Whether it ended well.
    fn follow(&mut self) -> io::Result<bool> {
        let id = self.process.id;
        go_on(id, 0);
        loop {
            let (thread, status) = waited()?;
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                if thread == id {
                    return Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
                }
                self.waiting.retain(|(waiting, _)| *waiting != thread);
                self.is_free(thread);
                continue;
            }
            let (signal, is_event) = (libc::WSTOPSIG(status), status >> 16 != 0);
            match signal {
                _ if signal == libc::SIGTRAP | AT_CALL => self.at_call(thread),
                // A new thread stops, and who made it.
                libc::SIGSTOP | libc::SIGTRAP if is_event || thread != id => go_on(thread, 0),
                signal => go_on(thread, signal),
            }
        }
    }

    fn at_call(&mut self, thread: i32) {
        let mut info: Info = [0; 11];
        let request = libc::PTRACE_GET_SYSCALL_INFO;
        if asked(request, thread, size_of::<Info>(), info.as_mut_ptr() as usize).is_err() {
            return;
        }
        match info[0].to_ne_bytes()[0] {
            ENTRY => {
                let arguments = [info[4], info[5], info[6], info[7], info[8], info[9]];
                self.begin(thread, Call { number: info[3].cast_signed(), arguments });
            }
            EXIT => self.end(thread, info[3].cast_signed()),
            _ => go_on(thread, 0),
        }
    }
}

/// Runs a process to its end, and shows its calls. Whether it ended well. An error if nobody may look at it.
pub(crate) fn run(mut command: Command, watcher: &mut impl Watcher) -> io::Result<bool> {
    // SAFETY: the new process makes one call that changes nothing but who traces it.
    unsafe { command.pre_exec(|| asked(libc::PTRACE_TRACEME, 0, 0, 0)) };
    let mut child = command.spawn()?;
    let id = child.id().cast_signed();
    // It stops when it has become the program.
    assert_eq!(waited()?.0, id);
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    asked(libc::PTRACE_SETOPTIONS, id, 0, options as usize)?;
    let process = Process { id };
    let mut tracer =
        Tracer { process, watcher, calls: HashMap::new(), busy: None, waiting: VecDeque::new() };
    let has_ended_well = tracer.follow()?;
    // The kernel has told of its end already, and remembers nothing of it.
    let _ = child.wait();
    Ok(has_ended_well)
}
