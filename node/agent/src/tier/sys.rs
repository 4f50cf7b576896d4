// SPDX-License-Identifier: GPL-2.0-only
//! move_pages(2), which no crate in use wraps.

use nix::errno::Errno;
use nix::libc;

/// Move pages that only this process maps; what several share stays.
const MPOL_MF_MOVE: libc::c_int = 1 << 1;

/// The node of each page, or a negative error number for each that has none.
///
/// # Errors
/// The process is gone, or is not ours to ask.
pub fn nodes_of(pid: i32, pages: &[u64]) -> nix::Result<Vec<i32>> {
    let mut status = vec![-libc::ENOENT; pages.len()];
    call_move_pages(pid, pages, std::ptr::null(), &mut status, 0)?;
    Ok(status)
}

/// Moves pages to a node. How many it did not try or could not move is told by [`nodes_of`] better
/// than by what the call returns, which counts differently on each kernel.
///
/// # Errors
/// The process is gone, or is not ours to move; it may not use the node; the node has no memory, or
/// none left.
pub fn move_to(pid: i32, pages: &[u64], node: u32) -> nix::Result<()> {
    let nodes = vec![node as libc::c_int; pages.len()];
    let mut status = vec![0; pages.len()];
    call_move_pages(pid, pages, nodes.as_ptr(), &mut status, MPOL_MF_MOVE)
}

fn call_move_pages(
    pid: i32,
    pages: &[u64],
    nodes: *const libc::c_int,
    status: &mut [libc::c_int],
    flags: libc::c_int,
) -> nix::Result<()> {
    debug_assert_eq!(pages.len(), status.len());
    // SAFETY: `pages` and `status` have this many entries, and so has `nodes` unless it is null.
    // Addresses in `pages` are of the other process; they are not read as pointers here.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            libc::c_long::from(pid),
            pages.len() as libc::c_ulong,
            pages.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            libc::c_long::from(flags),
        )
    };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_its_own_have_a_node_and_others_have_none() {
        let memory = vec![1_u8; 4 * 4096];
        let first = (memory.as_ptr() as u64 + 4095) & !4095;
        let me = std::process::id() as i32;
        let nodes = nodes_of(me, &[first, first + 4096, 0]);
        // Sandboxes forbid the call.
        if let Ok(nodes) = nodes {
            assert!(nodes[0] >= 0 && nodes[1] >= 0 && nodes[2] < 0, "{nodes:?}");
            assert_eq!(move_to(me, &[first], nodes[0] as u32), Ok(()));
        }
        assert!(nodes_of(-1, &[first]).is_err());
    }
}
