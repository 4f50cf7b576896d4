// SPDX-License-Identifier: GPL-2.0-only
//! BTF of a kernel that has what is needed and nothing else, then changed in one place at a time.
//! Real kernels are judged in `bench/weir-bench/tests/guest/oracle.rs`.

use super::*;
use proptest::prelude::*;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const TYPEDEF: u32 = 8;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;

/// Writes BTF. Type 1, 2 and 3 are integers of 1, 4 and 8 bytes, type 4 a pointer to nothing.
struct Writer {
    types: Vec<u32>,
    strings: Vec<u8>,
    count: u32,
}

impl Writer {
    fn new() -> Writer {
        let mut writer = Writer {
            types: Vec::new(),
            strings: vec![0],
            count: 0,
        };
        for bytes in [1, 4, 8] {
            writer.add("int", INT, 0, bytes, &[bytes * 8]);
        }
        writer.add("", PTR, 0, 0, &[]);
        writer
    }

    fn name(&mut self, name: &str) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    fn add(&mut self, name: &str, kind: u32, count: u32, last: u32, extra: &[u32]) -> u32 {
        let name = self.name(name);
        self.types.extend([name, (kind << 24) | count, last]);
        self.types.extend(extra);
        self.count += 1;
        self.count
    }

    /// A struct of words, or of arrays of so many words.
    fn structure(&mut self, name: &str, members: &[(&str, u32)]) -> u32 {
        let (mut extra, mut bits) = (Vec::new(), 0);
        for (member, words) in members {
            let kind = match words {
                1 => 4,
                _ => self.add("", ARRAY, 0, 0, &[3, 2, *words]),
            };
            extra.extend([self.name(member), kind, bits]);
            bits += words * 64;
        }
        self.add(name, STRUCT, members.len() as u32, bits / 8, &extra)
    }

    fn proto(&mut self, params: &[&str], structs: &[(&str, u32)]) -> u32 {
        let mut extra = Vec::new();
        for param in params {
            let id = match *param {
                "1" => 1,
                "4" => 2,
                "8" => 3,
                "*" => 4,
                name => {
                    let (_, id) = structs.iter().find(|(of, _)| *of == name).expect(name);
                    self.add("", PTR, 0, *id, &[])
                }
            };
            extra.extend([0, id]);
        }
        self.add("", FUNC_PROTO, params.len() as u32, 0, &extra)
    }

    fn bytes(&self) -> Vec<u8> {
        let types = self.types.len() as u32 * 4;
        let header = [24, 0, types, types, self.strings.len() as u32];
        let words = [0x0001_eb9f].into_iter().chain(header);
        let words = words.chain(self.types.iter().copied());
        let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        bytes.extend(&self.strings);
        bytes
    }
}

/// Parameters of all functions, and of the tracepoint's callback in its two forms.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("kallsyms_lookup_name", &["*"]),
    ("cgroup_add_dfl_cftypes", &["cgroup_subsys", "cftype"]),
    ("cgroup_rm_cftypes", &["cftype"]),
    ("wb_start_background_writeback", &["bdi_writeback"]),
    ("memcg_page_state", &["mem_cgroup", "4"]),
    ("global_dirty_limits", &["*", "*"]),
    ("ftrace_location", &["8"]),
    ("bdi_get_by_id", &["8"]),
    (
        "wb_get_lookup",
        &["backing_dev_info", "cgroup_subsys_state"],
    ),
    ("current_is_workqueue_rescuer", &[]),
    ("do_writepages", &["address_space", "writeback_control"]),
    ("balance_dirty_pages", &["bdi_writeback", "8", "4"]),
    ("domain_dirty_limits", &["dirty_throttle_control"]),
];
const NUMBERS: &[&str] = &[
    "*",
    "bdi_writeback",
    "8",
    "8",
    "8",
    "8",
    "8",
    "8",
    "8",
    "8",
    "8",
    "8",
    "8",
];
const DTC: &[&str] = &[
    "*",
    "bdi_writeback",
    "dirty_throttle_control",
    "8",
    "8",
    "8",
    "8",
    "8",
    "8",
];

/// A kernel: the counters each memcg has of its own, its functions, its tracepoint.
fn kernel(own: &[(&str, u32)], functions: &[(&str, &[&str])], callback: &[&str]) -> Vec<u8> {
    let mut writer = Writer::new();
    let dtc = ["dom", "gdtc", "wb", "avail", "dirty", "thresh", "bg_thresh"].map(|name| (name, 1));
    let mut structs = vec![(
        "dirty_throttle_control",
        writer.structure("dirty_throttle_control", &dtc),
    )];
    for name in [
        "bdi_writeback",
        "backing_dev_info",
        "mem_cgroup",
        "wb_domain",
        "cftype",
        "writeback_control",
        "task_struct",
        "cgroup_subsys",
        "cgroup_subsys_state",
        "address_space",
    ] {
        structs.push((name, writer.structure(name, &[("a", 1)])));
    }
    writer.structure("memcg_vmstats", own);
    writer.structure("memcg_vmstats_percpu", &[("b", 1), ("state", 9)]);
    for (name, params) in functions {
        let proto = writer.proto(params, &structs);
        writer.add(name, FUNC, 1, proto, &[]);
    }
    let proto = writer.proto(callback, &structs);
    let pointer = writer.add("", PTR, 0, proto, &[]);
    writer.add("btf_trace_balance_dirty_pages", TYPEDEF, 0, pointer, &[]);
    writer.bytes()
}

const STATE: &[(&str, u32)] = &[("state", 9)];

fn misfits(bytes: &[u8], reparents: bool) -> Vec<(Kind, Fit, &'static str)> {
    let btf = Btf::read(bytes).expect("BTF");
    let needs = list_needs(&btf, reparents).into_iter();
    needs
        .filter(|need| need.fit != Fit::Fits)
        .map(|need| (need.kind, need.fit, need.name))
        .collect()
}

fn with_counters(own: &[(&str, u32)], reparents: bool) -> Vec<(Kind, Fit, &'static str)> {
    misfits(&kernel(own, FUNCTIONS, DTC), reparents)
}

/// The same BTF with one name, wherever it occurs, called something else.
fn renamed(bytes: &[u8], name: &str) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
    let at = bytes.windows(wanted.len()).position(|it| it == wanted);
    bytes[at.unwrap_or_else(|| panic!("no {name}")) + 1] = b'?';
    bytes
}

#[test]
fn kernels_of_both_forms_fit() {
    for callback in [NUMBERS, DTC] {
        assert_eq!(misfits(&kernel(STATE, FUNCTIONS, callback), false), []);
    }
    assert!(
        Btf::read(&kernel(STATE, FUNCTIONS, DTC))
            .expect("BTF")
            .has_function("bdi_get_by_id")
    );
}

#[test]
fn each_name_that_is_missing_is_told() {
    let whole = kernel(STATE, FUNCTIONS, DTC);
    let needs = list_needs(&Btf::read(&whole).expect("BTF"), false);
    for need in needs
        .iter()
        .filter(|need| need.name != "state_pending" && need.name != "state_local")
    {
        let name = match need.kind {
            Kind::Tracepoint => "btf_trace_balance_dirty_pages",
            _ => need.name,
        };
        let found = misfits(&renamed(&whole, name), false);
        assert!(
            found.contains(&(need.kind, Fit::Missing, need.name)),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn other_parameters_are_told() {
    for (at, (name, params)) in FUNCTIONS.iter().enumerate() {
        let less = params.get(1..).unwrap_or(&["8"]);
        let more = [params, &["8"][..]].concat();
        let swapped: Vec<&str> = params
            .iter()
            .map(|of| if *of == "*" { "4" } else { "*" })
            .collect();
        for other in [less, &more, &swapped] {
            if other == *params {
                continue;
            }
            // "*" is every pointer, the right one among them
            if *name != "cgroup_rm_cftypes" && other.len() == params.len() && other.contains(&"8") {
                continue;
            }
            let mut functions = FUNCTIONS.to_vec();
            functions[at].1 = other;
            let found = misfits(&kernel(STATE, &functions, DTC), false);
            assert_eq!(found, [(Kind::Function, Fit::Other, *name)], "{other:?}");
        }
    }
    let found = misfits(&kernel(STATE, FUNCTIONS, &DTC[1..]), false);
    assert_eq!(
        found,
        [(Kind::Tracepoint, Fit::Other, "balance_dirty_pages")]
    );
}

#[test]
fn counters_must_be_arrays_of_one_length() {
    let found = with_counters(&[("state", 8)], false);
    assert_eq!(found, [(Kind::Member, Fit::Other, "state")]);
    assert_eq!(with_counters(&[("states", 9)], false).len(), 2);
}

#[test]
fn kernels_that_reparent_need_two_more() {
    assert_eq!(
        with_counters(STATE, true),
        [
            (Kind::Member, Fit::Missing, "state_pending"),
            (Kind::Member, Fit::Missing, "state_local")
        ]
    );
    let three = |words| [("state", 9), ("state_pending", 9), ("state_local", words)];
    assert_eq!(with_counters(&three(9), true), []);
    assert_eq!(
        with_counters(&three(8), true),
        [(Kind::Member, Fit::Other, "state_local")]
    );
}

#[test]
fn the_module_finds_one_function_and_hooks_three() {
    let of = |how| {
        needed_functions()
            .filter(move |function| function.how == how)
            .count()
    };
    assert_eq!((of(Use::Found), of(Use::Hooked)), (1, 3));
    assert_eq!(needed_functions().count(), FUNCTIONS.len());
}

proptest! {
    /// A debug build dies of a read beside the blob's words, and of undefined behaviour.
    #[test]
    fn any_bytes_are_read_or_refused(
        at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        len in any::<prop::sample::Index>(),
    ) {
        let mut bytes = kernel(STATE, FUNCTIONS, DTC);
        for (at, byte) in at {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let len = bytes.len() - len.index(9);
        if let Some(btf) = Btf::read(&bytes[..len]) {
            let needs = list_needs(&btf, true);
            prop_assert_eq!(needs.len(), needed_functions().count() + 1 + 7 + 7 + 4);
        }
    }
}
