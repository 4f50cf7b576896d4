// SPDX-License-Identifier: GPL-2.0-only
//! A disk that is as slow as the scenario says, made of memory, by a network block device whose
//! server is a process of weir's own.
//!
//! No target of device-mapper bounds bandwidth (`dm-delay` holds every bio back for a while,
//! however many there are), and `io.max` bounds cgroups: the filesystem's journal, which belongs to
//! none, would go past it. So the disk is nbd: each request is done at once in memory, and answered
//! when a disk of this bandwidth would have done it, reads and writes by clocks of their own, as
//! QEMU does for guests. Example, 256 KiB/s: four writes of 4 KiB that come together are answered
//! after 16, 31, 47 and 62 ms.
//!
//! The process is the disk: when it ends the kernel lets the device go. It is slow only while the
//! worker holds its standard input, so that once the worker is dead what is still dirty is written
//! back in a moment, and a filesystem can be unmounted without errors. Its memory is that of a file
//! without a name, which takes what was written to the disk and adds nothing to the host's dirty
//! pages.

use crate::{ledger, modules};
use anyhow::{Context, Result, anyhow, bail};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use runner::disks::shape_queue;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The module that makes the devices.
pub const DRIVER: &str = "nbd";
/// The program's name, which weir is started by.
pub const PROGRAM: &str = "weir-disk";
/// Exit status: the device has another user.
const TAKEN: i32 = 3;
/// Of linux/prctl.h; the libc crate has it for some C libraries only.
const PR_SET_IO_FLUSHER: i32 = 57;
/// A device appears within this time or not at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// A disk that was made.
pub struct Made {
    /// The block device.
    pub device: PathBuf,
    /// Its end makes the disk fast.
    hold: ChildStdin,
}

impl Made {
    /// Makes a disk of `size` bytes, fast for now; it will have this bandwidth.
    pub fn new(size: u64, write: Option<u64>, read: Option<u64>) -> Result<Made> {
        modules::load_with_dependencies(DRIVER)?;
        for number in 0.. {
            let name = format!("nbd{number}");
            let block = Path::new("/sys/block").join(&name);
            if !block.exists() {
                break;
            }
            let in_use =
                fs::read_to_string(block.join("size")).is_ok_and(|size| size.trim() != "0");
            if in_use || block.join("pid").exists() {
                continue;
            }
            let device = Path::new("/dev").join(&name);
            if let Some(hold) = start_server(&device, &block, size, write, read)? {
                if let Some(bandwidth) = write {
                    for file in ["queue/max_sectors_kb", "queue/nr_requests"] {
                        ledger::remember_value(&block.join(file))?;
                    }
                    shape_queue(&device, bandwidth)?;
                }
                return Ok(Made { device, hold });
            }
        }
        bail!("all network block devices are in use: load nbd with a larger nbds_max")
    }

    /// Gives it its bandwidth, for as long as this process lives.
    pub fn start_throttling(&mut self) -> Result<()> {
        self.hold
            .write_all(b"slow\n")
            .with_context(|| format!("{PROGRAM} has ended"))
    }
}

/// Starts the server of a device; `None` if another program has taken that meanwhile.
fn start_server(
    device: &Path,
    block: &Path,
    size: u64,
    write: Option<u64>,
    read: Option<u64>,
) -> Result<Option<ChildStdin>> {
    let mut child: Child = Command::new("/proc/self/exe")
        .arg0(PROGRAM)
        .arg(device)
        .args([size, write.unwrap_or(0), read.unwrap_or(0)].map(|number| number.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {PROGRAM}"))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().context("waiting for a disk")? {
            return match status.code() {
                Some(TAKEN) => Ok(None),
                _ => Err(anyhow!("{PROGRAM} failed ({status})")),
            };
        }
        let pid = fs::read_to_string(block.join("pid")).unwrap_or_default();
        if pid.trim() == child.id().to_string() {
            return Ok(child.stdin.take());
        }
        if Instant::now() > deadline {
            bail!(
                "{} did not appear within {} s",
                device.display(),
                PATIENCE.as_secs()
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// True if this is the command line of such a process, as in /proc.
pub(crate) fn is_command_line(text: &[u8]) -> bool {
    text.split(|byte| *byte == 0).next() == Some(PROGRAM.as_bytes())
}

/// `weir-disk DEVICE SIZE WRITE_BANDWIDTH READ_BANDWIDTH`, bytes and bytes per second, 0 for no
/// bound: is the disk until the device is let go of. Standard input makes it slow, and its end fast
/// again.
pub fn serve_disk() -> ExitCode {
    match serve_device() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let taken =
                error.downcast_ref::<nix::errno::Errno>() == Some(&nix::errno::Errno::EBUSY);
            if taken {
                return ExitCode::from(TAKEN as u8);
            }
            let _ = writeln!(io::stderr(), "{PROGRAM}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

mod nbd {
    //! The kernel's `linux/nbd.h`.

    use nix::{ioctl_none_bad, ioctl_write_int_bad, request_code_none};

    ioctl_write_int_bad!(set_sock, request_code_none!(0xab, 0));
    ioctl_write_int_bad!(set_block_size, request_code_none!(0xab, 1));
    ioctl_none_bad!(do_it, request_code_none!(0xab, 3));
    ioctl_write_int_bad!(set_size_blocks, request_code_none!(0xab, 7));
    ioctl_write_int_bad!(set_flags, request_code_none!(0xab, 10));

    pub const BLOCK: u64 = 512;
    pub const HAS_FLAGS: i32 = 1 << 0;
    pub const SEND_FLUSH: i32 = 1 << 2;
    pub const REQUEST: u32 = 0x2560_9513;
    pub const REPLY: u32 = 0x6744_6698;
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const DISCONNECT: u32 = 2;
    pub const FLUSH: u32 = 3;
    /// The lower half of a request's type; above it are flags.
    pub const TYPE: u32 = 0xffff;
    pub const EINVAL: u32 = 22;
    pub const EIO: u32 = 5;
}

fn serve_device() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, numbers @ ..] = arguments.as_slice() else {
        bail!("no device");
    };
    let numbers: Vec<u64> = numbers
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let [size, write, read] = numbers[..] else {
        bail!("expected a size and two bandwidths");
    };
    // Dirty pages wait for this process, so it must not wait for them; nor should it be killed when
    // memory is short. Where that is not allowed it works most of the time. SAFETY: sets a flag of
    // this process.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let memory = File::from(memfd_create(PROGRAM, MFdFlags::MFD_CLOEXEC)?);
    memory.set_len(size)?;

    let device = OpenOptions::new().read(true).write(true).open(device)?;
    let (kernel, ours) = UnixStream::pair()?;
    let fd = device.as_raw_fd();
    // SAFETY: ioctls of nbd on a device of nbd; they take numbers, the first one that of an open
    // socket.
    unsafe {
        nbd::set_sock(fd, OwnedFd::from(kernel.try_clone()?).as_raw_fd())?;
        nbd::set_block_size(fd, nbd::BLOCK as i32)?;
        nbd::set_size_blocks(fd, i32::try_from(size / nbd::BLOCK)?)?;
        nbd::set_flags(fd, nbd::HAS_FLAGS | nbd::SEND_FLUSH)?;
    }
    drop(kernel);

    let slow = Arc::new(AtomicBool::new(false));
    let flag = slow.clone();
    std::thread::spawn(move || {
        let mut orders = [0; 16];
        while io::stdin().read(&mut orders).is_ok_and(|length| length > 0) {
            flag.store(true, Ordering::Relaxed);
        }
        flag.store(false, Ordering::Relaxed);
    });
    std::thread::spawn(move || {
        // Its end is the socket's, and with that the device's.
        let disk = ServedDisk {
            memory: Arc::new(memory),
            slow,
            bandwidth: [read, write],
        };
        if let Err(why) = disk.answer_requests(&ours) {
            let _ = writeln!(io::stderr(), "{PROGRAM}: {why}");
        }
        let _ = ours.shutdown(std::net::Shutdown::Both);
    });
    // SAFETY: as above. Returns when the device is let go of.
    unsafe { nbd::do_it(fd)? };
    Ok(())
}

struct ServedDisk {
    memory: Arc<File>,
    slow: Arc<AtomicBool>,
    /// Of reads and of writes, bytes per second; 0 for no bound.
    bandwidth: [u64; 2],
}

/// An answer to be given.
struct Reply {
    due: Instant,
    cookie: [u8; 8],
    error: u32,
    /// The bytes that were read: their place and number.
    read: Option<(u64, usize)>,
}

impl ServedDisk {
    /// Does what the kernel asks for until it asks for nothing more.
    fn answer_requests(&self, socket: &UnixStream) -> io::Result<()> {
        let out = Arc::new(Mutex::new(socket.try_clone()?));
        // One for reads, one for writes: the answers of each are due one after the other.
        let lines = [0, 1].map(|_| {
            let (line, replies) = channel::<Reply>();
            let (out, memory, slow) = (out.clone(), self.memory.clone(), self.slow.clone());
            std::thread::spawn(move || send_replies(&replies, &out, &memory, &slow));
            line
        });
        let mut free = [Instant::now(); 2];
        let mut socket = io::BufReader::new(socket);
        let mut data = Vec::new();
        loop {
            let mut header = [0; 28];
            socket.read_exact(&mut header)?;
            let word = |at: usize| {
                u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            if word(0) != nbd::REQUEST {
                return Err(io::Error::other("not a request of nbd"));
            }
            let kind = word(4) & nbd::TYPE;
            let offset = (u64::from(word(16)) << 32) | u64::from(word(20));
            let length = word(24) as usize;
            let mut cookie = [0; 8];
            cookie.copy_from_slice(&header[8..16]);
            let error = match kind {
                nbd::READ | nbd::FLUSH => 0,
                nbd::WRITE => {
                    data.resize(length, 0);
                    socket.read_exact(&mut data)?;
                    let written = self.memory.write_all_at(&data, offset);
                    written.map_or(nbd::EIO, |()| 0)
                }
                nbd::DISCONNECT => return Ok(()),
                _ => nbd::EINVAL,
            };
            let way = usize::from(kind != nbd::READ);
            let now = Instant::now();
            let bytes = if kind == nbd::FLUSH { 0 } else { length as u64 };
            if self.slow.load(Ordering::Relaxed) && self.bandwidth[way] > 0 {
                let takes = bytes as f64 / self.bandwidth[way] as f64;
                free[way] = free[way].max(now) + Duration::from_secs_f64(takes);
            } else {
                free[way] = now;
            }
            let reply = Reply {
                due: free[way],
                cookie,
                error,
                read: (kind == nbd::READ).then_some((offset, length)),
            };
            if lines[way].send(reply).is_err() {
                return Ok(());
            }
        }
    }
}

/// Gives answers when they are due, or at once when the disk is to be fast.
fn send_replies(
    replies: &Receiver<Reply>,
    out: &Mutex<UnixStream>,
    memory: &File,
    slow: &AtomicBool,
) {
    for mut reply in replies {
        while slow.load(Ordering::Relaxed) {
            let left = reply.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        let mut data = vec![0; reply.read.map_or(0, |(_, length)| length)];
        if let Some((offset, _)) = reply.read {
            if memory.read_exact_at(&mut data, offset).is_err() {
                reply.error = nbd::EIO;
            }
        }
        if reply.error != 0 {
            data.clear();
        }
        let mut message = Vec::with_capacity(16 + data.len());
        message.extend(nbd::REPLY.to_be_bytes());
        message.extend(reply.error.to_be_bytes());
        message.extend(reply.cookie);
        message.extend(data);
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.write_all(&message).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: u32, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = nbd::REQUEST.to_be_bytes().to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    }

    /// The other side's end, the disk's speed, and the disk.
    fn disk(write: u64) -> (UnixStream, Arc<AtomicBool>, std::thread::JoinHandle<bool>) {
        let (kernel, ours) = UnixStream::pair().expect("a pair");
        let memory = File::from(memfd_create(PROGRAM, MFdFlags::empty()).expect("memory"));
        memory.set_len(1 << 20).expect("1 MiB");
        let slow = Arc::new(AtomicBool::new(false));
        let disk = ServedDisk {
            memory: Arc::new(memory),
            slow: slow.clone(),
            bandwidth: [0, write],
        };
        let thread = std::thread::spawn(move || disk.answer_requests(&ours).is_ok());
        (kernel, slow, thread)
    }

    fn answer(kernel: &mut UnixStream, length: usize) -> (u32, u64, Vec<u8>) {
        let mut header = [0; 16];
        kernel.read_exact(&mut header).expect("an answer");
        let mut data = vec![0; length];
        kernel.read_exact(&mut data).expect("data");
        let error = u32::from_be_bytes(header[4..8].try_into().expect("4"));
        let cookie = u64::from_be_bytes(header[8..16].try_into().expect("8"));
        (error, cookie, data)
    }

    #[test]
    fn what_was_written_is_read() {
        let (mut kernel, _, thread) = disk(0);
        let mut bytes = request(nbd::WRITE, 1, 4096, 512);
        bytes.extend([7; 512]);
        kernel.write_all(&bytes).expect("sent");
        assert_eq!(answer(&mut kernel, 0), (0, 1, vec![]));
        kernel
            .write_all(&request(nbd::FLUSH, 2, 0, 0))
            .expect("sent");
        assert_eq!(answer(&mut kernel, 0), (0, 2, vec![]));
        kernel
            .write_all(&request(nbd::READ, 3, 4096, 512))
            .expect("sent");
        assert_eq!(answer(&mut kernel, 512), (0, 3, vec![7; 512]));
        kernel.write_all(&request(9, 4, 0, 0)).expect("sent");
        assert_eq!(answer(&mut kernel, 0), (nbd::EINVAL, 4, vec![]));
        kernel
            .write_all(&request(nbd::DISCONNECT, 5, 0, 0))
            .expect("sent");
        assert!(thread.join().expect("ended"));
    }

    #[test]
    fn writes_take_their_time_reads_none_and_all_are_fast_again() {
        let (mut kernel, slow, _) = disk(64 << 10);
        slow.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        // Each takes 62.5 ms.
        for cookie in 0..4 {
            let mut bytes = request(nbd::WRITE, cookie, 0, 4096);
            bytes.extend([1; 4096]);
            kernel.write_all(&bytes).expect("sent");
        }
        kernel
            .write_all(&request(nbd::READ, 9, 0, 512))
            .expect("sent");
        assert_eq!(answer(&mut kernel, 512).1, 9, "a read goes past them");
        for cookie in 0..4 {
            assert_eq!(answer(&mut kernel, 0).1, cookie);
        }
        assert!(begin.elapsed() >= Duration::from_millis(250));
        for cookie in 0..100 {
            let mut bytes = request(nbd::WRITE, cookie, 0, 4096);
            bytes.extend([1; 4096]);
            kernel.write_all(&bytes).expect("sent");
        }
        slow.store(false, Ordering::Relaxed);
        let begin = Instant::now();
        (0..100).for_each(|_| drop(answer(&mut kernel, 0)));
        assert!(begin.elapsed() < Duration::from_secs(3), "not 6 s");
    }
}
