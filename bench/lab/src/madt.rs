// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that a guest's kernel takes for present, and that are not there.
//!
//! Linux makes per-CPU data for each possible CPU, so a module's sums over them cost as on a
//! machine of that size. Emulating 256 CPUs that sleep takes minutes to boot, and counting their
//! instructions longer. So QEMU adds a second table of interrupt controllers (MADT) to the guest's,
//! with an entry for each possible CPU; `acpi_apic_instance=2` makes Linux read that one, and
//! `maxcpus` keeps it from starting more CPUs than there are.
//!
//! An empty slot would be marked as such and need no `maxcpus`, but Linux 6.12 believes in those
//! only where FADT is of ACPI 6.3 or newer, or a hypervisor it knows runs it. QEMU emulating a
//! machine is neither.

/// Addresses of a PC's interrupt controllers.
const LOCAL_APIC: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
/// Local APICs have eight bits for their number; the last is a broadcast.
const MOST_LOCAL_APICS: u32 = 255;
/// Legacy interrupts that PCI uses: level-triggered, active high.
const PCI_INTERRUPTS: [u8; 4] = [5, 9, 10, 11];
const LEVEL_HIGH: u8 = 0b1101;

/// Options that Linux is told beside the table.
pub fn kernel_options(cpus: u32) -> String {
    format!("acpi_apic_instance=2 maxcpus={cpus}")
}

/// The table, without ACPI's common header, which QEMU adds.
pub fn build_table(possible_cpus: u32) -> Vec<u8> {
    let mut table = Vec::new();
    table.extend(LOCAL_APIC.to_le_bytes());
    // There are two 8259s as well.
    table.extend(1u32.to_le_bytes());
    for id in 0..possible_cpus {
        match u8::try_from(id) {
            Ok(id) if u32::from(id) < MOST_LOCAL_APICS => {
                table.extend([0, 8, id, id, 1, 0, 0, 0]);
            }
            // x2APIC: number, enabled, ACPI's number.
            _ => {
                table.extend([9, 16, 0, 0]);
                for word in [id, 1, id] {
                    table.extend(word.to_le_bytes());
                }
            }
        }
    }
    table.extend([1, 12, 0, 0]);
    table.extend(IO_APIC.to_le_bytes());
    table.extend(0u32.to_le_bytes());
    // The timer's interrupt is the second pin.
    table.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
    for irq in PCI_INTERRUPTS {
        table.extend([2, 10, 0, irq, irq, 0, 0, 0, LEVEL_HIGH, 0]);
    }
    // NMI at the second pin of each local APIC.
    table.extend([4, 6, 0xff, 0, 0, 1]);
    table
}

#[cfg(test)]
mod tests {
    use super::build_table;

    /// Kinds of entries by walking along their lengths.
    fn kinds(table: &[u8]) -> Vec<u8> {
        let mut rest = &table[8..];
        let mut kinds = Vec::new();
        while let [kind, length, ..] = rest {
            kinds.push(*kind);
            rest = &rest[usize::from(*length)..];
        }
        kinds
    }

    #[test]
    fn each_possible_cpu_has_an_entry() {
        for possible in [1, 8, 255, 256, 300] {
            let kinds = kinds(&build_table(possible));
            let cpus = kinds.iter().filter(|kind| matches!(kind, 0 | 9)).count();
            assert_eq!(cpus, possible as usize);
            assert_eq!(kinds[cpus..], [1, 2, 2, 2, 2, 2, 4]);
        }
    }
}
