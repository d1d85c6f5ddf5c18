//! What `stook --version` prints.

use std::sync::OnceLock;

/// The parts that a build may leave out.
const FEATURES: [(&str, bool); 4] = [
    ("arrow", cfg!(feature = "arrow")),
    ("lab", cfg!(feature = "lab")),
    ("pages", cfg!(feature = "pages")),
    ("postgres", cfg!(feature = "postgres")),
];

/// The version, the commit that was built, if `STOOK_COMMIT` named it during the build, and the features of the build.
pub(super) fn long() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let features: Vec<&str> = FEATURES.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name).collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        let commit = option_env!("STOOK_COMMIT").unwrap_or("unknown");
        format!("{}\ncommit: {commit}\nfeatures: {features}", env!("CARGO_PKG_VERSION"))
    })
}
