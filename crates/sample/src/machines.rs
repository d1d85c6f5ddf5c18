//! An inventory of machines: the output of `lshw` and `lldpctl` for each, as one line of JSON per machine (about 19 kB), tags over them, and the
//! machines that carry each tag, which follow from how a machine was generated. Names and numbers are made up.

use crate::random::Random;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct Machines {
    /// Number of machines.
    pub records: u64,
    /// Equal seeds give equal bytes.
    pub seed: u64,
    /// Number of the first machine.
    pub first: u64,
}

/// The state of a machine's `lshw` output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LshwState {
    /// It is complete.
    Whole,
    /// It was not uploaded.
    Absent,
    /// It was cut off.
    Cut,
    /// It is an empty text.
    Empty,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its number.
    pub number: u64,
    /// The state of its `lshw` output.
    pub lshw: LshwState,
    /// Whether the root element is a list, as in later versions.
    pub listed: bool,
    /// Position in [`VENDORS`].
    pub vendor: usize,
    /// Whether it is a guest of QEMU.
    pub guest: bool,
    /// Whether its processors are Intel's, else AMD's.
    pub intel: bool,
    /// Number of processors.
    pub processors: u64,
    /// Cores per processor.
    pub cores: u64,
    /// Number of memory banks.
    pub banks: u64,
    /// GiB per bank.
    pub gib: u64,
    /// Whether its graphics card is NVIDIA's.
    pub nvidia: bool,
    /// Positions in [`NETWORKS`], one for each card.
    pub networks: Vec<usize>,
    /// Number of disks.
    pub disks: u64,
    /// Whether it boots with UEFI.
    pub uefi: bool,
    /// The switch it is connected to, if that is known.
    pub switch: Option<u64>,
    /// Whether its memory is in two arrays of banks, each with a node of its own.
    pub arrays: bool,
}

/// Vendors of machines; the last one is that of guests.
pub const VENDORS: [(&str, &str); 5] = [
    ("Dell Inc.", "PowerEdge R410"),
    ("HP", "ProLiant DL380 Gen9"),
    ("LENOVO", "ThinkSystem SR650"),
    ("Supermicro", "X10DRi"),
    ("QEMU", "Standard PC"),
];
/// Network cards.
pub const NETWORKS: [(&str, &str, &str); 3] = [
    ("Intel Corporation", "I350 Gigabit Network Connection", "igb"),
    ("Broadcom Corporation", "NetXtreme II BCM5716 Gigabit Ethernet", "bnx2"),
    ("Mellanox Technologies", "MT27800 Family [ConnectX-5]", "mlx5_core"),
];

const CAPABILITIES: [(&str, &str); 56] = [
    ("x86-64", "64bits extensions (x86-64)"),
    ("fpu", "mathematical co-processor"),
    ("fpu_exception", "FPU exceptions reporting"),
    ("wp", ""),
    ("vme", "virtual mode extensions"),
    ("de", "debugging extensions"),
    ("pse", "page size extensions"),
    ("tsc", "time stamp counter"),
    ("msr", "model-specific registers"),
    ("pae", "4GB+ memory addressing (Physical Address Extension)"),
    ("mce", "machine check exceptions"),
    ("cx8", "compare and exchange 8-byte"),
    ("apic", "on-chip advanced programmable interrupt controller (APIC)"),
    ("sep", "fast system calls"),
    ("mtrr", "memory type range registers"),
    ("pge", "page global enable"),
    ("mca", "machine check architecture"),
    ("cmov", "conditional move instruction"),
    ("pat", "page attribute table"),
    ("pse36", "36-bit page size extensions"),
    ("clflush", ""),
    ("dts", "debug trace and EMON store MSRs"),
    ("acpi", "thermal control (ACPI)"),
    ("mmx", "multimedia extensions (MMX)"),
    ("fxsr", "fast floating point save/restore"),
    ("sse", "streaming SIMD extensions (SSE)"),
    ("sse2", "streaming SIMD extensions (SSE2)"),
    ("ss", "self-snoop"),
    ("ht", "HyperThreading"),
    ("tm", "thermal interrupt and status"),
    ("pbe", "pending break event"),
    ("syscall", "fast system calls"),
    ("nx", "no-execute bit (NX)"),
    ("rdtscp", ""),
    ("constant_tsc", ""),
    ("arch_perfmon", ""),
    ("pebs", ""),
    ("bts", ""),
    ("rep_good", ""),
    ("nopl", ""),
    ("xtopology", ""),
    ("nonstop_tsc", ""),
    ("aperfmperf", ""),
    ("pni", ""),
    ("dtes64", ""),
    ("monitor", ""),
    ("ds_cpl", ""),
    ("est", ""),
    ("tm2", ""),
    ("ssse3", ""),
    ("cx16", ""),
    ("xtpr", ""),
    ("pdcm", ""),
    ("dca", ""),
    ("popcnt", ""),
    ("lahf_lm", ""),
];
const FIRMWARE: [(&str, &str); 17] = [
    ("pci", "PCI bus"),
    ("pnp", "Plug-and-Play"),
    ("upgrade", "BIOS EEPROM can be upgraded"),
    ("shadowing", "BIOS shadowing"),
    ("cdboot", "Booting from CD-ROM/DVD"),
    ("bootselect", "Selectable boot path"),
    ("edd", "Enhanced Disk Drive extensions"),
    ("int13floppy360", "5.25&quot; 360KB floppy"),
    ("int13floppy1200", "5.25&quot; 1.2MB floppy"),
    ("int13floppy720", "3.5&quot; 720KB floppy"),
    ("int5printscreen", "Print Screen key"),
    ("int9keyboard", "i8042 keyboard controller"),
    ("int14serial", "INT14 serial line control"),
    ("int17printer", "INT17 printer control"),
    ("acpi", "ACPI"),
    ("usb", "USB legacy emulation"),
    ("biosbootspecification", "BIOS boot specification"),
];

/// Makes the machine with this number.
pub fn machine(seed: u64, number: u64) -> Machine {
    let mut random = Random::of_item(seed, number);
    let lshw = match random.below(1_000) {
        0..10 => LshwState::Absent,
        10..15 => LshwState::Cut,
        15..20 => LshwState::Empty,
        _ => LshwState::Whole,
    };
    let guest = random.per_mille(200);
    let networks = (0..1 + random.run(250, 3)).map(|_| random.below(NETWORKS.len() as u64) as usize).collect();
    Machine {
        number,
        lshw,
        listed: random.per_mille(500),
        vendor: if guest { 4 } else { random.below(4) as usize },
        guest,
        intel: random.per_mille(700),
        processors: 1 + random.run(120, 3),
        cores: *random.one(&[2, 4, 8, 16, 20, 40, 64]),
        banks: *random.one(&[2, 4, 4, 4, 8]),
        gib: 1 << random.run(700, 7),
        nvidia: random.per_mille(100),
        networks,
        disks: 1 + random.run(300, 7),
        uefi: random.per_mille(600),
        switch: random.per_mille(850).then(|| random.below(40)),
        arrays: random.per_mille(150),
    }
}

impl Machine {
    /// Returns its key.
    pub fn id(&self) -> String {
        format!("node-{:08}", self.number)
    }

    /// Returns its memory in bytes.
    pub fn memory(&self) -> u64 {
        (self.banks * self.gib) << 30
    }

    /// Returns the name of its switch's port, as an address.
    fn switch_address(&self) -> Option<String> {
        self.switch.map(|switch| format!("20:4e:7f:94:2e:{switch:02x}"))
    }

    /// Returns the output of `lshw -xml`.
    pub fn lshw(&self) -> String {
        let mut out = LshwWriter { text: String::with_capacity(20_000), depth: 0 };
        out.text.push_str(
            "<?xml version=\"1.0\" standalone=\"yes\" ?>\n<!-- generated by lshw-B.02.16 -->\n<!-- GCC 4.7.2 -->\n<!-- Linux 3.5.0-17-generic -->\n",
        );
        if self.listed {
            out.text.push_str("<list>\n");
        }
        let (vendor, product) = VENDORS[self.vendor];
        out.open("node", &format!(r#"id="{}" claimed="true" class="system" handle="DMI:0100""#, self.id()));
        out.texts(&[("description", "Rack Mount Chassis"), ("product", product), ("vendor", vendor), ("serial", &format!("S{:07}", self.number))]);
        out.unit("width", "bits", 64);
        out.settings(&[("boot", "normal"), ("chassis", "rackmount"), ("uuid", &format!("44454C4C-3000-1044-8054-{:012X}", self.number))]);
        out.capabilities(&[("smbios-2.6", "SMBIOS version 2.6"), ("dmi-2.6", "DMI version 2.6"), ("vsyscall32", "32-bit processes")]);
        out.open("node", r#"id="core" claimed="true" class="bus" handle="DMI:0200""#);
        out.texts(&[("description", "Motherboard"), ("product", &format!("0N83VF{}", self.vendor)), ("vendor", vendor), ("physid", "0")]);
        self.firmware(&mut out);
        (0..self.processors).for_each(|processor| self.processor(&mut out, processor));
        self.memory_node(&mut out);
        self.bridges(&mut out);
        out.close("node");
        out.close("node");
        if self.listed {
            out.text.push_str("</list>\n");
        }
        out.text
    }

    fn firmware(&self, out: &mut LshwWriter) {
        out.open("node", r#"id="firmware" claimed="true" class="memory" handle="""#);
        out.texts(&[("description", "BIOS"), ("vendor", VENDORS[self.vendor].0), ("physid", "0"), ("version", "1.6.3"), ("date", "02/01/2011")]);
        out.unit("size", "bytes", 65_536);
        out.unit("capacity", "bytes", 4_128_768);
        let last = if self.guest { ("virtualmachine", "This machine is a virtual machine") } else { ("smartbattery", "Smart battery") };
        let uefi = self.uefi.then_some(("uefi", "UEFI specification is supported"));
        let all: Vec<(&str, &str)> = FIRMWARE.iter().copied().chain([last]).chain(uefi).collect();
        out.capabilities(&all);
        out.close("node");
    }

    fn processor(&self, out: &mut LshwWriter, number: u64) {
        let id = if self.processors == 1 { "cpu".to_owned() } else { format!("cpu:{number}") };
        out.open("node", &format!(r#"id="{id}" claimed="true" class="processor" handle="DMI:04{number:02}""#));
        let (product, vendor) = if self.intel {
            ("Intel(R) Xeon(R) CPU X3430  @ 2.40GHz", "Intel Corp.")
        } else {
            ("AMD EPYC 7351 16-Core Processor", "Advanced Micro Devices [AMD]")
        };
        out.texts(&[
            ("description", "CPU"),
            ("product", product),
            ("vendor", vendor),
            ("physid", &format!("4{number:02}")),
            ("businfo", &format!("cpu@{number}")),
            ("slot", "CPU1"),
        ]);
        out.unit("size", "Hz", 2_394_000_000);
        out.unit("capacity", "Hz", 3_600_000_000);
        out.unit("width", "bits", 64);
        out.unit("clock", "Hz", 533_000_000);
        let cores = self.cores.to_string();
        out.settings(&[("cores", &cores), ("enabledcores", &cores), ("threads", &cores)]);
        let own: &[(&str, &str)] = if self.intel {
            &[("vmx", "CPU virtualization (Vanderpool)"), ("ept", ""), ("vpid", ""), ("aes", "")]
        } else {
            &[("svm", ""), ("npt", ""), ("aes", "")]
        };
        let all: Vec<(&str, &str)> = CAPABILITIES.iter().chain(own).copied().collect();
        out.capabilities(&all);
        for (level, size) in [(1, 32_768_u64), (2, 262_144), (3, 8_388_608)] {
            out.open("node", &format!(r#"id="cache:{}" claimed="true" class="memory" handle="DMI:07{number}{level}""#, level - 1));
            out.texts(&[("description", &format!("L{level} cache")), ("physid", &format!("7{number}{level}"))]);
            out.unit("size", "bytes", size);
            out.unit("capacity", "bytes", size);
            out.capabilities(&[("internal", "Internal"), ("write-back", "Write-back"), ("unified", "Unified cache")]);
            out.close("node");
        }
        out.close("node");
    }

    fn memory_node(&self, out: &mut LshwWriter) {
        if self.arrays {
            // each array of banks is a node, and none has the total
            for array in 0..2 {
                out.open("node", &format!(r#"id="memory:{array}" claimed="true" class="memory" handle="DMI:100{array}""#));
                out.texts(&[("description", "System Memory"), ("physid", &format!("100{array}")), ("slot", "System board or motherboard")]);
                self.banks(out, array * self.banks / 2..(array + 1) * self.banks / 2);
                out.close("node");
            }
            return;
        }
        out.open("node", r#"id="memory" claimed="true" class="memory" handle="DMI:1000""#);
        out.texts(&[("description", "System Memory"), ("physid", "1000"), ("slot", "System board or motherboard")]);
        out.unit("size", "bytes", self.memory());
        self.banks(out, 0..self.banks);
        out.close("node");
    }

    fn banks(&self, out: &mut LshwWriter, banks: std::ops::Range<u64>) {
        for bank in banks {
            out.open("node", &format!(r#"id="bank:{bank}" claimed="true" class="memory" handle="DMI:110{bank}""#));
            out.texts(&[
                ("description", "DIMM DDR3 Synchronous 1333 MHz (0.8 ns)"),
                ("product", "HMT325R7BFR8C-H9"),
                ("vendor", "00AD00B380AD"),
                ("physid", &bank.to_string()),
                ("serial", &format!("{:08X}", self.number * 8 + bank)),
                ("slot", &format!("DIMM_A{bank}")),
            ]);
            out.unit("size", "bytes", self.gib << 30);
            out.unit("width", "bits", 64);
            out.unit("clock", "Hz", 1_333_000_000);
            out.close("node");
        }
    }

    fn bridges(&self, out: &mut LshwWriter) {
        out.open("node", r#"id="pci" claimed="true" class="bridge" handle="PCIBUS:0000:00""#);
        out.texts(&[
            ("description", "Host bridge"),
            ("product", "Core Processor DMI"),
            ("vendor", "Intel Corporation"),
            ("physid", "100"),
            ("businfo", "pci@0000:00:00.0"),
            ("version", "11"),
        ]);
        out.unit("width", "bits", 32);
        out.unit("clock", "Hz", 33_000_000);
        for bridge in 0..6_u64 {
            out.open("node", &format!(r#"id="pci:{bridge}" claimed="true" class="bridge" handle="PCIBUS:0000:0{}""#, bridge + 1));
            out.texts(&[
                ("description", "PCI bridge"),
                ("product", &format!("5 Series/3400 Series Chipset PCI Express Root Port {}", bridge + 1)),
                ("vendor", "Intel Corporation"),
                ("physid", &format!("1c.{bridge}")),
                ("businfo", &format!("pci@0000:00:1c.{bridge}")),
                ("version", "05"),
            ]);
            out.unit("width", "bits", 32);
            out.unit("clock", "Hz", 33_000_000);
            out.settings(&[("driver", "pcieport")]);
            out.capabilities(&[
                ("pci", ""),
                ("pciexpress", "PCI Express"),
                ("msi", "Message Signalled Interrupts"),
                ("pm", "Power Management"),
                ("bus_master", "bus mastering"),
                ("cap_list", "PCI capabilities listing"),
            ]);
            out.resources(&[("irq", &(40 + bridge).to_string()), ("memory", &format!("df{bridge}00000-df{bridge}fffff"))]);
            match bridge {
                0 => (0..self.networks.len()).for_each(|card| self.network(out, card)),
                1 => self.display(out),
                2 => self.storage(out),
                _ => {}
            }
            out.close("node");
        }
        out.close("node");
    }

    fn network(&self, out: &mut LshwWriter, card: usize) {
        let (vendor, product, driver) = NETWORKS[self.networks[card]];
        let id = if self.networks.len() == 1 { "network".to_owned() } else { format!("network:{card}") };
        out.open("node", &format!(r#"id="{id}" claimed="true" class="network" handle="PCI:0000:01:00.{card}""#));
        let address = format!("00:16:3e:{:02x}:{:02x}:{card:02x}", self.number / 256 % 256, self.number % 256);
        out.texts(&[
            ("description", "Ethernet interface"),
            ("product", product),
            ("vendor", vendor),
            ("physid", "0"),
            ("businfo", &format!("pci@0000:01:00.{card}")),
            ("logicalname", &format!("eth{card}")),
            ("version", "20"),
            ("serial", &address),
        ]);
        out.unit("size", "bit/s", 1_000_000_000);
        out.unit("capacity", "bit/s", 1_000_000_000);
        out.unit("width", "bits", 64);
        out.unit("clock", "Hz", 33_000_000);
        out.settings(&[
            ("autonegotiation", "on"),
            ("broadcast", "yes"),
            ("driver", driver),
            ("driverversion", "2.2.1"),
            ("duplex", "full"),
            ("firmware", "6.2.12 bc 5.2.3"),
            ("latency", "0"),
            ("link", "yes"),
            ("multicast", "yes"),
            ("port", "twisted pair"),
            ("speed", "1Gbit/s"),
        ]);
        out.capabilities(&[
            ("pm", "Power Management"),
            ("vpd", "Vital Product Data"),
            ("msi", "Message Signalled Interrupts"),
            ("msix", "MSI-X"),
            ("pciexpress", "PCI Express"),
            ("bus_master", "bus mastering"),
            ("cap_list", "PCI capabilities listing"),
            ("ethernet", ""),
            ("physical", "Physical interface"),
            ("tp", "twisted pair"),
            ("10bt", "10Mbit/s"),
            ("10bt-fd", "10Mbit/s (full duplex)"),
            ("100bt", "100Mbit/s"),
            ("100bt-fd", "100Mbit/s (full duplex)"),
            ("1000bt-fd", "1Gbit/s (full duplex)"),
            ("autonegotiation", "Auto-negotiation"),
        ]);
        out.resources(&[("irq", "16"), ("memory", "da000000-dbffffff")]);
        out.close("node");
    }

    fn display(&self, out: &mut LshwWriter) {
        out.open("node", r#"id="display" claimed="true" class="display" handle="PCI:0000:02:03.0""#);
        let (product, vendor) =
            if self.nvidia { ("GK107GL [Quadro K620]", "NVIDIA Corporation") } else { ("MGA G200eW WPCM450", "Matrox Electronics Systems Ltd.") };
        out.texts(&[
            ("description", "VGA compatible controller"),
            ("product", product),
            ("vendor", vendor),
            ("physid", "3"),
            ("businfo", "pci@0000:02:03.0"),
            ("version", "0a"),
        ]);
        out.unit("width", "bits", 32);
        out.unit("clock", "Hz", 33_000_000);
        out.settings(&[("latency", "32"), ("maxlatency", "32"), ("mingnt", "16")]);
        out.capabilities(&[("pm", "Power Management"), ("vga_controller", ""), ("bus_master", "bus mastering")]);
        out.close("node");
    }

    fn storage(&self, out: &mut LshwWriter) {
        out.open("node", r#"id="storage" claimed="true" class="storage" handle="PCI:0000:00:1f.2""#);
        out.texts(&[
            ("description", "SATA controller"),
            ("product", "6 port SATA AHCI Controller"),
            ("vendor", "Intel Corporation"),
            ("physid", "1f.2"),
        ]);
        for disk in 0..self.disks {
            out.open("node", &format!(r#"id="disk:{disk}" claimed="true" class="disk" handle="SCSI:0{disk}:00:00:00""#));
            out.texts(&[
                ("description", "ATA Disk"),
                ("product", "WDC WD5003ABYX-1"),
                ("vendor", "Western Digital"),
                ("physid", &disk.to_string()),
                ("logicalname", &format!("/dev/sd{}", char::from(b'a' + disk as u8))),
                ("serial", &format!("WD-{:09}", self.number * 8 + disk)),
            ]);
            out.unit("size", "bytes", 500_107_862_016);
            out.close("node");
        }
        out.close("node");
    }

    /// Returns the output of `lldpctl -f xml`.
    pub fn lldp(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<lldp label=\"LLDP neighbors\">\n");
        if let Some(address) = self.switch_address() {
            let _ = write!(
                out,
                " <interface label=\"Interface\" name=\"eth0\" via=\"LLDP\" rid=\"1\" age=\"0 day, 00:01:12\">\n  <chassis label=\"Chassis\">\n   \
                 <id label=\"ChassisID\" type=\"mac\">{address}</id>\n   <name label=\"SysName\">switch-{}</name>\n   <descr label=\"SysDescr\">Stacked switch</descr>\n   \
                 <mgmt-ip label=\"MgmtIP\">10.20.0.{}</mgmt-ip>\n   <capability label=\"Capability\" type=\"Bridge\" enabled=\"on\"/>\n   \
                 <capability label=\"Capability\" type=\"Router\" enabled=\"off\"/>\n  </chassis>\n  <port label=\"Port\">\n   \
                 <id label=\"PortID\" type=\"local\">g{}</id>\n   <descr label=\"PortDescr\">Gigabit port</descr>\n  </port>\n </interface>\n",
                self.switch.unwrap_or_default(),
                self.switch.unwrap_or_default(),
                self.number % 48 + 1,
            );
        }
        out.push_str("</lldp>\n");
        out
    }

    /// Returns its line.
    pub fn line(&self) -> serde_json::Value {
        let lshw = match self.lshw {
            LshwState::Whole => json!(self.lshw()),
            LshwState::Absent => json!(null),
            LshwState::Cut => json!(&self.lshw()[..4_000]),
            LshwState::Empty => json!(""),
        };
        let at = format!("2026-03-01T{:02}:{:02}:{:02}Z", self.number / 3_600 % 24, self.number / 60 % 60, self.number % 60);
        json!({ "system_id": self.id(), "hostname": format!("host-{}", self.number), "at": at, "lshw": lshw, "lldp": self.lldp() })
    }
}

struct LshwWriter {
    text: String,
    depth: usize,
}

impl LshwWriter {
    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n(' ', self.depth));
    }

    fn line(&mut self, line: &str) {
        self.indent();
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn open(&mut self, name: &str, attributes: &str) {
        self.line(&if attributes.is_empty() { format!("<{name}>") } else { format!("<{name} {attributes}>") });
        self.depth += 1;
    }

    fn close(&mut self, name: &str) {
        self.depth -= 1;
        self.line(&format!("</{name}>"));
    }

    fn texts(&mut self, texts: &[(&str, &str)]) {
        for (name, text) in texts {
            self.line(&format!("<{name}>{text}</{name}>"));
        }
    }

    fn unit(&mut self, name: &str, unit: &str, value: u64) {
        self.line(&format!("<{name} units=\"{unit}\">{value}</{name}>"));
    }

    fn settings(&mut self, settings: &[(&str, &str)]) {
        self.open("configuration", "");
        for (id, value) in settings {
            self.line(&format!("<setting id=\"{id}\" value=\"{value}\" />"));
        }
        self.close("configuration");
    }

    fn capabilities(&mut self, capabilities: &[(&str, &str)]) {
        self.open("capabilities", "");
        for (id, text) in capabilities {
            self.line(&if text.is_empty() { format!("<capability id=\"{id}\" />") } else { format!("<capability id=\"{id}\" >{text}</capability>") });
        }
        self.close("capabilities");
    }

    fn resources(&mut self, resources: &[(&str, &str)]) {
        self.open("resources", "");
        for (kind, value) in resources {
            self.line(&format!("<resource type=\"{kind}\" value=\"{value}\" />"));
        }
        self.close("resources");
    }
}

/// A tag.
pub struct SampleTag {
    /// Its name.
    pub name: &'static str,
    /// Its definition.
    pub xpath: &'static str,
    /// Which machines carry it.
    pub carries: fn(&Machine) -> bool,
}

const fn tag(name: &'static str, xpath: &'static str, carries: fn(&Machine) -> bool) -> SampleTag {
    SampleTag { name, xpath, carries }
}

fn whole(machine: &Machine) -> bool {
    machine.lshw == LshwState::Whole
}

/// Tags of many kinds: conditions, node sets, counts, sums; carried by no, some, half and all machines.
pub const TAGS: [SampleTag; 20] = [
    tag("gpu-nvidia", "//node[@class='display']/vendor[contains(., 'NVIDIA')]", |m| whole(m) && m.nvidia),
    tag("quadro", "//node[@id='display']/product[contains(text(), 'Quadro K')]", |m| whole(m) && m.nvidia),
    tag("intel", "//node[@class='processor']/vendor = 'Intel Corp.'", |m| whole(m) && m.intel),
    tag("amd", "//node[@class='processor']/vendor[starts-with(., 'Advanced Micro Devices')]", |m| whole(m) && !m.intel),
    tag("virtual", "//node[@class='system']/vendor = 'QEMU'", |m| whole(m) && m.guest),
    tag("virtual-uefi", "//node[@class='system']/vendor = 'QEMU' and //node[@id='firmware']/capabilities/capability/@id = 'uefi'", |m| {
        whole(m) && m.guest && m.uefi
    }),
    tag("uefi", "//node[@id='firmware']/capabilities/capability/@id = 'uefi'", |m| whole(m) && m.uefi),
    tag("vmx", "//node[@class='processor']/capabilities/capability/@id = 'vmx'", |m| whole(m) && m.intel),
    tag("vmx-or-svm", "//capability/@id = 'vmx' or //capability/@id = 'svm'", whole),
    tag("many-cores", "//node[@class='processor']/configuration/setting[@id='cores']/@value >= 40", |m| whole(m) && m.cores >= 40),
    tag(
        "big-memory",
        "sum(//node[@id='memory']/size | //node[starts-with(@id, 'memory:')]/node[starts-with(@id, 'bank:')]/size) >= 274877906944",
        |m| whole(m) && m.memory() >= 274_877_906_944,
    ),
    tag("gibibyte", "//node[@id='memory']/size = 1073741824", |m| whole(m) && m.memory() == 1 << 30),
    tag("many-disks", "count(//node[@class='disk']) > 4", |m| whole(m) && m.disks > 4),
    tag("two-sockets", "count(//node[@id='core']/node[@class='processor']) >= 2", |m| whole(m) && m.processors >= 2),
    tag(
        "connectx",
        "//node[@class='network']/vendor[starts-with(., 'Mellanox')] and //node[@class='network']/product[contains(., 'ConnectX-5')]",
        |m| whole(m) && m.networks.contains(&2),
    ),
    tag("bnx2", "//node[starts-with(@id, 'network')]/configuration/setting[@id='driver'][@value='bnx2']", |m| whole(m) && m.networks.contains(&1)),
    tag("switch-7", "//lldp:chassis/lldp:id[@type='mac']/text() = '20:4e:7f:94:2e:07'", |m| m.switch == Some(7)),
    tag("no-neighbour", "//lldp:lldp and not(//lldp:interface)", |m| m.switch.is_none()),
    tag("dpu", "//node[@class='system']//configuration/setting/@value = 'BlueField'", |_| false),
    tag("unknown-hardware", "not(//node)", |m| !whole(m)),
];

/// Writes `machines.ndjson`, `tags.ndjson` and, in `truth.ndjson`, the machines that carry each tag.
///
/// # Errors
/// When a file cannot be written.
pub fn write(machines: &Machines, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = |name: &str| Ok::<_, io::Error>(io::BufWriter::new(std::fs::File::create(folder.join(name))?));
    let mut out = file("machines.ndjson")?;
    let mut members: Vec<Vec<String>> = vec![Vec::new(); TAGS.len()];
    for number in machines.first..machines.first + machines.records {
        let machine = machine(machines.seed, number);
        writeln!(out, "{}", machine.line())?;
        for (tag, members) in TAGS.iter().zip(&mut members) {
            members.extend((tag.carries)(&machine).then(|| machine.id()));
        }
    }
    out.flush()?;
    let (mut tags, mut truth) = (file("tags.ndjson")?, file("truth.ndjson")?);
    for (SampleTag { name, xpath, .. }, members) in TAGS.iter().zip(members) {
        writeln!(tags, "{}", json!({ "name": name, "xpath": xpath }))?;
        writeln!(truth, "{}", json!({ "tag": name, "members": members }))?;
    }
    tags.flush()?;
    truth.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_of_a_realistic_size() {
        let sizes: Vec<usize> = (1..500).map(|number| machine(1, number).lshw().len()).collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((17_000..23_000).contains(&mean), "{mean}");
    }
}
