//! Runs programs as the kernel would.

use crate::oci::seccomp::Instruction;

/// A kernel's view of a call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub arch: u32,
    pub number: u32,
    pub args: [u64; 6],
}

/// Runs a program as the kernel would, including what it checks when one is loaded.
pub fn run(program: &[Instruction], call: Call) -> u32 {
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let holds = match code {
            0x20 => {
                accumulator = load(call, k);
                continue;
            }
            0x54 => {
                accumulator &= k;
                continue;
            }
            0x06 => return k,
            0x05 => {
                at += usize::try_from(k).unwrap();
                continue;
            }
            0x15 => accumulator == k,
            0x35 => accumulator >= k,
            0x25 => accumulator > k,
            _ => panic!("unexpected operation {code:#x}"),
        };
        at += usize::from(if holds { jt } else { jf });
    }
}

fn load(call: Call, offset: u32) -> u32 {
    match offset {
        0 => call.number,
        4 => call.arch,
        16..64 if offset.is_multiple_of(4) => {
            let argument = usize::try_from((offset - 16) / 8).unwrap();
            let half = call.args[argument] >> (offset % 8 * 8);
            u32::try_from(half & 0xFFFF_FFFF).unwrap()
        }
        _ => panic!("unexpected offset {offset}"),
    }
}
